"""Storage of templates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.plans.models import Outline
from deepwork.work.templates.models import Template, parse_variable


class TemplateStore:
    """Reads and writes templates."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, template: Template) -> bool:
        """Insert a new template; False if its name is taken."""
        row = {
            "id": template.id,
            "name": template.name,
            "description": template.description,
            "definition": _encode_definition(template),
            "version": template.version,
            "created_at": template.created_at,
            "updated_at": template.created_at,
        }
        return self._tx.insert_new("templates", row)

    def find(self, wanted: str) -> Template | None:
        """Return the template with this id, else the one with this name, else None."""
        rows = self._tx.fetch_all(f"SELECT {_COLUMNS} FROM templates WHERE id = :it OR name = :it", it=wanted)
        return _from_row(min(rows, key=lambda row: row["id"] != wanted)) if rows else None

    def get_ids_by_name(self) -> dict[str, str]:
        """Return the id of every template by name."""
        return {row["name"]: row["id"] for row in self._tx.fetch_all("SELECT name, id FROM templates")}

    def get_by_ids(self, ids: Sequence[str]) -> dict[str, Template]:
        """Return the templates with these ids, by id."""
        rows = self._tx.fetch_all(f"SELECT {_COLUMNS} FROM templates WHERE id IN :ids", ids=list(ids))
        return {row["id"]: _from_row(row) for row in rows}


_COLUMNS = "id, name, description, definition, version, created_at"


def _encode_definition(template: Template) -> str:
    tasks = [task.to_dict() for task in template.tasks]
    return json.dumps(
        {"tasks": tasks, "variables": [asdict(each) for each in template.variables]}, ensure_ascii=False
    )


@row_parser
def _from_row(row: Row) -> Template:
    definition = json.loads(row["definition"])
    return Template(
        id=row["id"],
        name=row["name"],
        description=row["description"],
        tasks=tuple(map(Outline.read, definition["tasks"])),
        variables=tuple(map(parse_variable, definition["variables"])),
        version=row["version"],
        created_at=row["created_at"],
    )
