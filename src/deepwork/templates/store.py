"""What is kept of templates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from deepwork.database.engine import Row, stored
from deepwork.database.transaction import Transaction
from deepwork.templates.models import Template, outline, variable, written_task


class TemplateStore:
    """Templates, as rows."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, template: Template) -> bool:
        """Keep a new template; False if another has its name."""
        changed = self._tx.run(
            """
            INSERT INTO templates (id, name, description, definition, version, created_at, updated_at)
            VALUES (:id, :name, :description, :definition, :version, :created_at, :created_at)
                ON CONFLICT (name) DO NOTHING
            """,
            id=template.id, name=template.name, description=template.description,
            definition=_definition(template), version=template.version, created_at=template.created_at,
        )  # fmt: skip
        return changed == 1

    def find(self, wanted: str) -> Template | None:
        """The template with this id or this name; an id goes before a name."""
        rows = self._tx.all(f"SELECT {_COLUMNS} FROM templates WHERE id = :it OR name = :it", it=wanted)
        return _template(min(rows, key=lambda row: row["id"] != wanted)) if rows else None

    def ids(self) -> dict[str, str]:
        """The id of every template, by its name."""
        return {row["name"]: row["id"] for row in self._tx.all("SELECT name, id FROM templates")}

    def with_ids(self, ids: Sequence[str]) -> dict[str, Template]:
        """The templates with these ids."""
        rows = self._tx.all(f"SELECT {_COLUMNS} FROM templates WHERE id IN :ids", ids=list(ids))
        return {row["id"]: _template(row) for row in rows}


_COLUMNS = "id, name, description, definition, version, created_at"


def _definition(template: Template) -> str:
    tasks = [written_task(task) for task in template.tasks]
    return json.dumps(
        {"tasks": tasks, "variables": [asdict(each) for each in template.variables]}, ensure_ascii=False
    )


@stored
def _template(row: Row) -> Template:
    definition = json.loads(row["definition"])
    return Template(
        id=row["id"], name=row["name"], description=row["description"],
        tasks=tuple(map(outline, definition["tasks"])),
        variables=tuple(map(variable, definition["variables"])),
        version=row["version"], created_at=row["created_at"],
    )  # fmt: skip
