"""What was decided and what went wrong: in one run, and over all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from deepwork.dashboard import action_shapes as acts
from deepwork.dashboard.action_shapes import Act
from deepwork.dashboard.endpoints import Endpoint, Listing, Page, Sight, marked, place_of
from deepwork.dashboard.log_store import LogStore
from deepwork.dashboard.moments import iso, told
from deepwork.dashboard.note_store import FilePages, NotePages
from deepwork.dashboard.run_details import run_row
from deepwork.dashboard.runs import RunRef, refs
from deepwork.database.engine import Row, stored
from deepwork.database.transaction import Transaction
from deepwork.events.log import EventStore
from deepwork.shapes import Answer
from deepwork.tracking.models import Category, IssueType
from deepwork.tracking.responses import DecisionView, IssueView

TASKS_OF_FILE = 50
_HIDDEN = ("phase_id", "created_seq")


class IssueLine(IssueView):
    run: RunRef
    actions: list[Act]


class DecisionLine(DecisionView):
    run: RunRef


class Issues(Listing):
    issues: list[IssueLine]


class Blockers(Listing):
    blockers: list[IssueLine]


class Decisions(Listing):
    decisions: list[DecisionLine]


class BlockersQuery(Page):
    run: str | None = Field(default=None, description="The id of a run")
    state: Literal["open", "resolved", "all"] = "open"
    type: IssueType | None = None
    agent: str | None = None
    order: Literal["asc", "desc"] = "desc"


class DecisionsQuery(Page):
    run: str | None = Field(default=None, description="The id of a run")
    q: str | None = Field(default=None, max_length=200, description="Words, all of which are in it")
    category: Category | None = None


class FileTask(Answer):
    id: str
    name: str
    attribution: str


class FileLine(Answer):
    path: str
    status: str
    added: int | None = None
    removed: int | None = None
    tasks: list[FileTask]
    tasks_total: int


class Files(Listing):
    files: list[FileLine]


class EventsQuery(Page):
    limit: int = Field(default=100, ge=1, le=1000)
    cursor: None = None
    before: int | None = Field(default=None, ge=0, description="The last ones before this number")
    after: int | None = Field(default=None, ge=0, description="The next ones after this number")
    type: str | None = Field(default=None, description="One or several, separated by commas")


class RunEvents(Answer):
    """Events in their order."""

    events: list[dict[str, Any]]
    total: int
    oldest_seq: int | None = None
    last_seq: int


def run_issues(sight: Sight, query: Page) -> Issues:
    """All issues of a run, resolved ones too."""
    run_row(sight.tx, sight.id)
    found, total, cursor = _issues(sight.tx, {"workflow_id": sight.id}, query)
    return Issues(issues=found, total=total, cursor=cursor)


def blockers(sight: Sight, query: BlockersQuery) -> Blockers:
    """Issues of every run that need or needed a person."""
    wanted = {
        "workflow_id": query.run, "blockers": True, "type": query.type, "agent": query.agent,
        "open": True if query.state == "open" else None,
        "resolved": True if query.state == "resolved" else None,
    }  # fmt: skip
    found, total, cursor = _issues(sight.tx, wanted, query, oldest_first=query.order == "asc")
    return Blockers(blockers=found, total=total, cursor=cursor)


def issues_of_task(tx: Transaction, task_id: str, limit: int) -> list[IssueLine]:
    """The newest issues of a task."""
    return _issues(tx, {"task_id": task_id}, Page(limit=limit))[0]


def decisions_of_task(tx: Transaction, task_id: str, limit: int) -> list[DecisionLine]:
    """The newest decisions on a task."""
    return _decisions(tx, {"task_id": task_id}, (), Page(limit=limit))[0]


def run_decisions(sight: Sight, query: Page) -> Decisions:
    """What was decided in a run."""
    run_row(sight.tx, sight.id)
    found, total, cursor = _decisions(sight.tx, {"workflow_id": sight.id}, (), query)
    return Decisions(decisions=found, total=total, cursor=cursor)


def decisions(sight: Sight, query: DecisionsQuery) -> Decisions:
    """What was decided in any run."""
    words = (query.q or "").split()
    wanted = {"workflow_id": query.run, "category": query.category}
    found, total, cursor = _decisions(sight.tx, wanted, words, query)
    return Decisions(decisions=found, total=total, cursor=cursor)


def _issues(
    tx: Transaction, wanted: Mapping[str, Any], query: Page, *, oldest_first: bool = False
) -> tuple[list[IssueLine], int, str | None]:
    rows, total = NotePages(tx).issues(wanted, _beyond(query), query.limit + 1, oldest_first=oldest_first)
    shown = rows[: query.limit]
    runs = refs(tx, [row["workflow_id"] for row in shown])
    return [issue_line(row, runs) for row in shown], total, _next(rows, query)


def _decisions(
    tx: Transaction, wanted: Mapping[str, Any], words: Sequence[str], query: Page
) -> tuple[list[DecisionLine], int, str | None]:
    rows, total = NotePages(tx).decisions(wanted, words, _beyond(query), query.limit + 1)
    shown = rows[: query.limit]
    runs = refs(tx, [row["workflow_id"] for row in shown])
    return [_decision(row | {"run": _run(row, runs)}) for row in shown], total, _next(rows, query)


@stored
def _decision(row: Row) -> DecisionLine:
    read = {
        "options_considered": json.loads(row["options_considered"]),
        "created_at": told(row["created_at"]),
    }
    return DecisionLine(**_shown(row) | read)


def issue_line(row: Row, runs: Mapping[str, RunRef]) -> IssueLine:
    """An issue with its run, and what can be done about it."""
    is_open = row["resolved_at"] is None
    return IssueLine(
        **_shown(row) | {
            "requires_human_review": bool(row["requires_human_review"]),
            "created_at": told(row["created_at"]), "resolved_at": iso(row["resolved_at"]),
            "run": _run(row, runs), "actions": [acts.resolve(row["id"])] if is_open else [],
        }
    )  # fmt: skip


def _run(row: Row, runs: Mapping[str, RunRef]) -> RunRef:
    id = row["workflow_id"]
    return runs.get(id) or RunRef(id=id, kind="job", name=id)


def _shown(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in _HIDDEN}


def _beyond(query: Page) -> Sequence[Any] | None:
    return place_of(query.cursor, int, int) if query.cursor else None


def _next(rows: Sequence[Row], query: Page) -> str | None:
    if len(rows) <= query.limit:
        return None
    last = rows[query.limit - 1]
    return marked([last["created_at"], last["created_seq"]])


def files(sight: Sight, query: Page) -> Files:
    """The files that a run changed, and which of its tasks did."""
    run_row(sight.tx, sight.id)
    store = FilePages(sight.tx)
    [after] = place_of(query.cursor, str) if query.cursor else [None]
    paths = store.paths(sight.id, after, query.limit + 1)
    shown = paths[: query.limit]
    changes: dict[str, list[Row]] = {path: [] for path in shown}
    for row in store.changes(sight.id, shown) if shown else ():
        changes[row["path"]].append(row)
    return Files(
        files=[_file(path, rows) for path, rows in changes.items()], total=store.count(sight.id),
        cursor=marked([shown[-1]]) if len(paths) > query.limit else None,
    )  # fmt: skip


def _file(path: str, rows: Sequence[Row]) -> FileLine:
    details = [json.loads(row["details"]) for row in rows]
    return FileLine(
        path=path, status=rows[-1]["status"], added=_sum(details, "added"), removed=_sum(details, "removed"),
        tasks=[
            FileTask(id=row["task_id"], name=row["task_name"], attribution=row["attribution"])
            for row in rows[-TASKS_OF_FILE:]
        ],
        tasks_total=len(rows),
    )  # fmt: skip


def _sum(details: Sequence[Mapping[str, Any]], name: str) -> int | None:
    counted = [each[name] for each in details if each.get(name) is not None]
    return sum(counted) if counted else None


def events(sight: Sight, query: EventsQuery) -> RunEvents:
    """What happened in a run."""
    run_row(sight.tx, sight.id)
    types = [word.strip() for word in (query.type or "").split(",") if word.strip()] or None
    store = LogStore(sight.tx)
    oldest, total = store.bounds(sight.id, types)
    found = store.page(sight.id, types=types, before=query.before, after=query.after, limit=query.limit)
    return RunEvents(events=found, total=total, oldest_seq=oldest, last_seq=EventStore(sight.tx).last())


ENDPOINTS = (
    Endpoint("/api/v1/runs/{id}/files", "Files that a run changed.", Page, Files, files),
    Endpoint(
        "/api/v1/runs/{id}/decisions", "Decisions of a run, newest first.", Page, Decisions, run_decisions,
        follows_events=True,
    ),
    Endpoint(
        "/api/v1/runs/{id}/issues", "Issues of a run, newest first.", Page, Issues, run_issues,
        follows_events=True,
    ),
    Endpoint(
        "/api/v1/runs/{id}/events", "What happened in a run.", EventsQuery, RunEvents, events,
        follows_events=True,
    ),
    Endpoint(
        "/api/v1/blockers", "Issues of every run that need a person.", BlockersQuery, Blockers, blockers,
        follows_events=True,
    ),
    Endpoint(
        "/api/v1/decisions", "Decisions of every run, newest first.", DecisionsQuery, Decisions, decisions,
        follows_events=True,
    ),
)  # fmt: skip
