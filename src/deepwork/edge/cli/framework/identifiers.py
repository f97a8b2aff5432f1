"""Finds ids and names for shell completion, fast: without the imports that a command needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from deepwork.edge.cli.framework.output import to_printable
from deepwork.kernel.config import STATE_FOLDER, TMP_FOLDER, Settings, find_project, load_settings
from deepwork.kernel.errors import DefinitionError

MAX_ITEMS = 200
_COMBINED_KINDS = {
    "any": ("plan", "task", "record", "agent", "session", "issue", "tracked_task", "message", "workspace"),
    "any_issue": ("issue", "tracked_task"),
    "any_task": ("task", "tracked_task"),
    "plan_or_job": ("plan", "job"),
    "task_or_plan": ("plan", "task"),
}
_BUSY_TIMEOUT_SECONDS = 0.2
_SHELL_SAFE_PATTERN = re.compile(r"[\w.:@+-]+")
"""Values that need no quoting. Others are not offered: a shell could execute parts of them."""


def list_identifiers(
    kind: str, begun: str, *, project: str, database: str | None, is_global: bool
) -> list[tuple[str, str]]:
    """List (id, label) for the ids that start with `begun`; empty if they cannot be read quickly."""
    try:
        root = find_project(Path.cwd()) if project == "." else Path(project)
        settings = load_settings(root, {"database": database, "global_store": is_global or None})
    except DefinitionError:  # the command itself will report it
        return []
    found = (
        item
        for item in _list_candidates(kind, begun, settings)
        if item[0].startswith(begun) and _SHELL_SAFE_PATTERN.fullmatch(item[0])
    )
    return [
        (value, to_printable(about or "")[:60]) for value, about in islice(dict(found).items(), MAX_ITEMS)
    ]


def _list_candidates(kind: str, begun: str, settings: Settings) -> Iterator[tuple[str, Any]]:
    if kind == "session":
        files = (settings.project_root / TMP_FOLDER).glob("session_*.json")
        yield from ((file.stem.removeprefix("session_"), "") for file in files)
    elif kind == "job":
        yield from (
            (file.parent.name, "")
            for folder in _list_job_folders(settings)
            for file in folder.glob("*/job.yml")
        )
    elif kind in _COMBINED_KINDS:
        for each in _COMBINED_KINDS[kind]:
            yield from _list_candidates(each, begun, settings)
    else:
        if kind == "template":
            yield from (
                (file.stem, "")
                for folder in _list_template_folders(settings)
                for file in folder.glob("*.y*ml")
            )
        yield from _query_rows(settings.database_location, kind, begun)


def _query_rows(location: str, kind: str, begun: str) -> list[tuple[str, Any]]:
    # Querying a database over the network would take too long for a key press.
    if "://" in location or not Path(location).is_file():
        return []
    from deepwork.kernel.database.existing_store import open_existing_store
    from deepwork.views.overview.identifier_store import IdentifierStore

    try:
        with open_existing_store(location, _BUSY_TIMEOUT_SECONDS) as store:
            if store is None:
                return []
            with store.reading() as tx:
                return IdentifierStore(tx).list_starting_with(kind, begun, MAX_ITEMS)
    except Exception:  # noqa: BLE001 - busy, damaged, of another version: completion cannot show errors
        return []


def _list_job_folders(settings: Settings) -> list[Path]:
    standard = Path(__file__).parents[3] / "work" / "jobs" / "standard"
    return [settings.state_folder / "jobs", standard, *map(Path, settings.additional_jobs_folders)]


def _list_template_folders(settings: Settings) -> list[Path]:
    shipped = Path(__file__).parents[3] / "work" / "templates" / "shipped"
    return [settings.state_folder / "templates", Path.home() / STATE_FOLDER / "templates", shipped]
