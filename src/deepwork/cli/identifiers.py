"""Ids and names for completion: read at once, without the parts that a command would need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from deepwork.cli.output import printable
from deepwork.config import STATE_FOLDER, TMP_FOLDER, Settings, load_settings, project_around
from deepwork.errors import DefinitionError

MOST = 200
_PATIENCE = 0.2
_LAST = "\U0010ffff"
_SAFE = re.compile(r"[\w.:@+-]+")
"""What may be put into a command line as it is: a name that a shell would run is not offered."""

_ROWS = {
    "plan": ("plans", "id", "name"),
    "task": ("plan_tasks", "id", "name"),
    "record": ("tracked_workflows", "id", "name"),
    "tracked_task": ("tracked_tasks", "id", "name"),
    "agent": ("agents", "id", "name"),
    "phase": ("phases", "id", "name"),
    "issue": ("issues", "id", "description"),
    "workspace": ("workspaces", "id", "path"),
    "message": ("messages", "id", "subject"),
    "template": ("templates", "name", "description"),
}


def identifiers(
    kind: str, begun: str, *, project: str, database: str | None, is_global: bool
) -> list[tuple[str, str]]:
    """Ids that begin so, and what each is called; nothing where that cannot be told at once."""
    try:
        root = project_around(Path.cwd()) if project == "." else Path(project)
        settings = load_settings(root, {"database": database, "global_store": is_global or None})
    except DefinitionError:  # the command itself will say so
        return []
    found = (
        item for item in _all(kind, begun, settings) if item[0].startswith(begun) and _SAFE.fullmatch(item[0])
    )
    return [(value, printable(about or "")[:60]) for value, about in islice(dict(found).items(), MOST)]


def _all(kind: str, begun: str, settings: Settings) -> Iterator[tuple[str, Any]]:
    if kind == "session":
        files = (settings.project_root / TMP_FOLDER).glob("session_*.json")
        yield from ((file.stem.removeprefix("session_"), "") for file in files)
    elif kind == "job":
        yield from (
            (file.parent.name, "") for folder in _job_folders(settings) for file in folder.glob("*/job.yml")
        )
    elif kind == "any_task":
        yield from _all("task", begun, settings)
        yield from _all("tracked_task", begun, settings)
    elif kind in _ROWS:
        if kind == "template":
            yield from (
                (file.stem, "") for folder in _template_folders(settings) for file in folder.glob("*.y*ml")
            )
        yield from _rows(settings.database_location, begun, *_ROWS[kind])


def _rows(location: str, begun: str, table: str, id: str, name: str) -> list[tuple[str, Any]]:
    # A database on the network is too far away for a key press.
    if "://" in location or not Path(location).is_file():
        return []
    from deepwork.database.lean import existing_store

    # The names are our own, from the table above.
    columns, fitting = f"{id} AS id, {name} AS name", f"{id} >= :begun AND {id} < :after"
    statement = f"SELECT {columns} FROM {table} WHERE {fitting} LIMIT :most"  # noqa: S608
    try:
        with existing_store(location, _PATIENCE) as store:
            if store is None:
                return []
            with store.reading() as tx:
                found = tx.all(statement, begun=begun, after=begun + _LAST, most=MOST)
    except Exception:  # noqa: BLE001 - busy, damaged, of another version: whoever presses TAB cannot be told
        return []
    return [(row["id"], row["name"]) for row in found]


def _job_folders(settings: Settings) -> list[Path]:
    standard = Path(__file__).parents[1] / "jobs" / "standard"
    return [settings.state_folder / "jobs", standard, *map(Path, settings.additional_jobs_folders)]


def _template_folders(settings: Settings) -> list[Path]:
    shipped = Path(__file__).parents[1] / "templates" / "shipped"
    return [settings.state_folder / "templates", Path.home() / STATE_FOLDER / "templates", shipped]
