"""Finds what a name, a part of an id or a number stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from deepwork.edge.cli.framework.options import find_kind, is_stored
from deepwork.edge.cli.framework.output import to_printable
from deepwork.kernel.config import STATE_FOLDER, TMP_FOLDER, Settings, find_project, load_settings
from deepwork.kernel.errors import Code, DefinitionError, InvalidInput, ToolError

if TYPE_CHECKING:
    from deepwork.kernel.database.transaction import Database

MAX_ITEMS = 200
_COMBINED_KINDS = {
    "any": ("plan", "task", "record", "agent", "session", "issue", "tracked_task", "message", "workspace"),
    "any_issue": ("issue", "tracked_task"),
    "any_task": ("task", "tracked_task"),
    "told": ("task", "attempt", "agent", "run"),
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
    from deepwork.views.overview.identifier_store import complete_identifiers

    try:
        return complete_identifiers(location, kind, begun, MAX_ITEMS, _BUSY_TIMEOUT_SECONDS)
    except Exception:  # noqa: BLE001 - busy, damaged, of another version: completion cannot show errors
        return []


def _list_job_folders(settings: Settings) -> list[Path]:
    standard = Path(__file__).parents[3] / "work" / "jobs" / "standard"
    return [settings.state_folder / "jobs", standard, *map(Path, settings.additional_jobs_folders)]


def _list_template_folders(settings: Settings) -> list[Path]:
    shipped = Path(__file__).parents[3] / "work" / "templates" / "shipped"
    return [settings.state_folder / "templates", Path.home() / STATE_FOLDER / "templates", shipped]


_COMPLETE_ID = re.compile(r"[a-z]{2,4}_[0-9a-z]{12}|[0-9a-z]{8}/.+", re.DOTALL)
"""What is passed on as it is: an id of the store, or of a step of a job session."""
_SESSION_ID = re.compile(r"[0-9a-z]{8}")
_MIN_BEGINNING = 4
_ID_BEGINNING = re.compile(rf"([a-z]{{2,4}})_[0-9a-z]{{{_MIN_BEGINNING},12}}")
"""Shorter beginnings match by accident too easily: a command may change what it finds."""
_SESSION_BEGINNING = re.compile(rf"[0-9a-z]{{{_MIN_BEGINNING},8}}")
_SHORT_BEGINNING = re.compile(rf"[0-9a-z]{{1,{_MIN_BEGINNING - 1}}}")
_MAX_CANDIDATES = 10
_WIDER_KINDS = {
    "tracked_task": ("tracked_task", "task"),
    "any_task": ("tracked_task", "task"),
    "any_issue": ("issue", "tracked_task"),
    "told": ("task", "attempt", "agent", "run"),
    "work": ("plan", "record"),
}


_CODES = {
    "plan": Code.WORKFLOW_NOT_FOUND,
    "record": Code.WORKFLOW_NOT_FOUND,
    "task": Code.TASK_NOT_FOUND,
    "tracked_task": Code.TASK_NOT_FOUND,
    "agent": Code.AGENT_NOT_FOUND,
    "approval": Code.APPROVAL_NOT_FOUND,
}
"""What the tools answer to an unknown id, by kind; programs that read errors as JSON rely on it."""


class Candidate(NamedTuple):
    """Something that a person may mean."""

    kind: str
    id: str
    label: str


def resolve_arguments(database: Database, group: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Replace beginnings of ids, and names, by ids; what is unknown stays, and the tool refuses it."""
    return {name: _resolve_value(database, find_kind(group, name), arguments[name]) for name in arguments}


def resolve_id(database: Database, kind: str, given: str, *, is_alone: bool = True) -> str:
    """Return the id that is meant, or what was given if nothing matches; refuses what is ambiguous.

    One of several ids is never too short: the tool reports those that it does not know.
    """
    if not is_stored(kind) or _is_complete(kind, given):
        return given
    found = list_candidates(database, _WIDER_KINDS.get(kind, (kind,)), given)
    if not found and is_alone:
        refuse_short_beginning(kind, given)
    return choose(given, found).id if found else given


def refuse_short_beginning(kind: str, given: str) -> None:
    """Raise if this is the beginning of an id that is too short to search for."""
    from deepwork.views.overview.identifier_store import PREFIXES

    prefix, _, rest = given.rpartition("_")
    is_id = prefix in PREFIXES or (kind == "session" and not prefix)
    if is_id and _SHORT_BEGINNING.fullmatch(rest):
        after = f" after {prefix + '_'!r}" if prefix else ""
        raise ToolError(
            f"{given!r} is too short for the beginning of an id.",
            code=_CODES.get(PREFIXES.get(prefix, kind), Code.INVALID_INPUT),
            suggestion=f"Write at least {_MIN_BEGINNING} characters{after}.",
        )


def list_candidates(database: Database, kinds: Sequence[str], given: str) -> list[Candidate]:
    """List what an id begins with, else what has this name."""
    from deepwork.views.overview.identifier_store import PREFIXES, choose_named, find_identifiers

    begun = _ID_BEGINNING.fullmatch(given)
    of_id = [PREFIXES[begun[1]]] if begun and begun[1] in PREFIXES else []
    if "session" in kinds and _SESSION_BEGINNING.fullmatch(given):
        of_id.append("session")
    found = find_identifiers(database, of_id, choose_named(kinds), given, _MAX_CANDIDATES + 1)
    return [Candidate(kind, id, label or "") for kind, id, label in found]


def choose(given: str, found: Sequence[Candidate]) -> Candidate:
    """Return the only candidate, or the one whose id was given; raises if there are several."""
    exact = [each for each in found if each.id == given]
    if len(found) == 1 or exact:
        return (exact or found)[0]
    shown = ", ".join(f"{each.id} ({each.label[:40]})" for each in found[:_MAX_CANDIDATES])
    more = " and more" if len(found) > _MAX_CANDIDATES else ""
    raise InvalidInput(
        f"{given!r} may mean {shown}{more}.", suggestion="Write more of the id, or the whole id."
    )


def _is_complete(kind: str, given: str) -> bool:
    return bool((_SESSION_ID if kind == "session" else _COMPLETE_ID).fullmatch(given))


def _resolve_value(database: Database, kind: str, value: Any, *, is_alone: bool = True) -> Any:
    if isinstance(value, list):
        return [_resolve_value(database, kind, each, is_alone=False) for each in value]
    is_id = isinstance(value, str) and kind
    return resolve_id(database, kind, value, is_alone=is_alone) if is_id else value
