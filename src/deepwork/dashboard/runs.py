"""REST endpoint for the list of runs of all kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field

from deepwork.dashboard.endpoints import (
    Endpoint,
    PagedAnswer,
    PageQuery,
    ReadContext,
    RestAnswer,
    decode_cursor,
    encode_cursor,
)
from deepwork.dashboard.sessions import parse_session_row
from deepwork.database.engine import Row
from deepwork.database.transaction import Transaction
from deepwork.errors import InvalidInput
from deepwork.overview.run_store import (
    ACTIVE_STATUSES,
    ENDED_STATUSES,
    JOB,
    KINDS,
    PLAN,
    TRACK,
    RunFilter,
    RunOrder,
    RunStore,
)
from deepwork.plans.responses import truncate_to_line
from deepwork.timestamps import format_optional_timestamp, format_timestamp, parse_timestamp
from deepwork.tracking.models import Profile
from deepwork.tracking.note_store import NoteStore

MAX_AGENTS = 5
_MAX_OBJECTIVE = 300

Kind = Literal["track", "plan", "job"]


class RunRef(RestAnswer):
    id: str
    kind: Kind
    name: str


class PhasePlace(RestAnswer):
    current: int
    total: int


class RunTasks(RestAnswer):
    total: int = 0
    done: int = 0
    failed: int = 0
    running: int = 0


class RunLine(RunRef):
    """A run in a list."""

    objective: str
    status: str
    profile: str | None = None
    phase: PhasePlace
    tasks: RunTasks
    blockers: int
    files_changed: int
    tokens: int
    agents: list[str]
    last_milestone: str | None = None
    started_at: str
    ended_at: str | None = None
    updated_at: str


class Runs(PagedAnswer):
    runs: list[RunLine]


class RunsQuery(PageQuery):
    kind: Kind | None = None
    status: str | None = Field(default=None, description="One or more, separated by commas")
    q: str | None = Field(default=None, max_length=200, description="Part of the name, objective or id")
    profile: Profile | None = Field(
        default=None, description="Profile of a tracked workflow; other runs have none"
    )
    agent: str | None = Field(default=None, description="The name of an agent that works or worked on it")
    since: str | None = Field(default=None, description="Started at or after; ISO 8601")
    until: str | None = Field(default=None, description="Started before; ISO 8601")
    sort: Literal["started", "updated", "name"] = "started"
    order: Literal["asc", "desc"] = "desc"


def read_runs(context: ReadContext, query: RunsQuery) -> Runs:
    """Read the runs that match every filter."""
    filters = build_filters(query)
    order = RunOrder(query.sort, query.order == "desc")
    store = RunStore(context.tx)
    rows, cursor = list_merged_page(store, filters, order, query.cursor, query.limit)
    total = sum(store.count(kind, each) for kind, each in filters.items())
    return Runs(runs=build_run_lines(context.tx, rows), total=total, cursor=cursor)


def build_filters(query: RunsQuery) -> dict[str, RunFilter]:
    """Build a filter for each kind of run, without kinds that cannot match."""
    statuses = _parse_statuses(query.status)
    since, until = (
        None if moment is None else parse_timestamp(moment, name)
        for name, moment in (("since", query.since), ("until", query.until))
    )
    found = {}
    for kind in KINDS:
        if query.profile is not None and kind != TRACK:
            continue
        own = statuses and tuple(
            word for word in statuses if word in ACTIVE_STATUSES[kind] + ENDED_STATUSES[kind]
        )
        if query.kind not in (None, kind) or own == ():
            continue
        start, end = (
            (since, until)
            if kind != JOB
            else (format_optional_timestamp(since), format_optional_timestamp(until))
        )
        words = (query.q or "").strip() or None
        found[kind] = RunFilter(own, words, query.agent, start, end, query.profile)
    return found


def _parse_statuses(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    words = tuple(word.strip().lower() for word in text.split(",") if word.strip())
    known = {word for kind in KINDS for word in ACTIVE_STATUSES[kind] + ENDED_STATUSES[kind]}
    if unknown := sorted(set(words) - known):
        raise InvalidInput(
            f"`status`: unknown value {unknown[0][:60]!r}. Allowed: {', '.join(sorted(known))}."
        )
    return words or None


def list_merged_page(
    store: RunStore, filters: Mapping[str, RunFilter], order: RunOrder, cursor: str | None, limit: int
) -> tuple[list[Row], str | None]:
    """List the next runs of all kinds in one order, and the cursor of the next page.

    The cursor holds a position for each kind, since databases sort names differently from Python: comparing
    a position of one kind with rows of another could skip or repeat runs.
    """
    positions = _parse_positions(cursor, order)
    pages = {
        kind: store.list_page(kind, each, order, positions.get(kind), limit + 1)
        for kind, each in filters.items()
    }
    found = sorted(
        (row for page in pages.values() for row in page), key=_build_sort_key(order), reverse=order.descending
    )
    ordered = _restore_database_order(found[:limit], pages)
    for row in ordered:
        positions[row["kind"]] = [row["sort_key"], row["created_seq"]]
    return ordered, encode_cursor([order.by, order.descending, positions]) if len(found) > limit else None


def _restore_database_order(rows: Sequence[Row], pages: Mapping[str, list[Row]]) -> list[Row]:
    """Refill the merged list with each kind's rows in the order of the database.

    Python may sort names differently from the database, and the cursor relies on the database's order.
    """
    left = {kind: iter(page) for kind, page in pages.items()}
    return [next(left[row["kind"]]) for row in rows]


def _build_sort_key(order: RunOrder) -> Any:
    if order.by == "started":
        return lambda row: (_to_milliseconds(row["started_at"]), row["created_seq"])
    return lambda row: (row["sort_key"], row["created_seq"])


def _parse_positions(cursor: str | None, order: RunOrder) -> dict[str, list[Any]]:
    if cursor is None:
        return {}
    by, descending, positions = decode_cursor(cursor, str, bool, dict)
    sound = all(
        kind in KINDS
        and isinstance(place, list)
        and len(place) == 2
        and type(place[1]) is int
        and type(place[0]) is (str if by == "name" or (kind == JOB and by == "started") else int)
        for kind, place in positions.items()
    )
    if (by, descending) != (order.by, order.descending) or not sound:
        raise InvalidInput(
            "`cursor` belongs to a different order.", suggestion="Omit it to start from the beginning."
        )
    found: dict[str, list[Any]] = positions
    return found


def build_run_lines(tx: Transaction, rows: Sequence[Row]) -> list[RunLine]:
    """Build the list items of these runs; the number of statements does not depend on how many there are."""
    totals = _RunTotals(tx, rows)
    return [totals.build_line(row) for row in rows]


class _RunTotals:
    """Totals of several runs, read together."""

    def __init__(self, tx: Transaction, rows: Sequence[Row]) -> None:
        store = RunStore(tx)
        ids = [row["id"] for row in rows]
        tracked, planned = ([row["id"] for row in rows if row["kind"] == kind] for kind in (TRACK, PLAN))
        self._tasks: dict[str, dict[str, int]] = {}
        self._agents: dict[str, dict[str, None]] = {}
        self._tokens: dict[str, int] = {}
        for row in store.count_tracked_tasks(tracked) if tracked else ():
            self._add_tasks(row, _TRACKED_COUNTERS.get(row["status"]))
            self._tokens[row["workflow_id"]] = self._tokens.get(row["workflow_id"], 0) + int(row["tokens"])
            if row["agent_name"]:
                self._agents.setdefault(row["workflow_id"], {})[row["agent_name"]] = None
        for row in store.count_planned_tasks(planned) if planned else ():
            self._add_tasks(row, _PLANNED_COUNTERS.get(row["status"]))
        for row in store.list_plan_holders(planned) if planned else ():
            self._agents.setdefault(row["workflow_id"], {})[row["name"]] = None
        self._levels = store.find_plan_levels(planned) if planned else {}
        self._blockers = NoteStore(tx).count_blockers_by_workflow(ids) if ids else {}
        self._files = store.count_files(ids) if ids else {}
        self._milestones = store.find_last_milestones(ids) if ids else {}

    def _add_tasks(self, row: Row, word: str | None) -> None:
        tasks = self._tasks.setdefault(row["workflow_id"], {"total": 0})
        for name in ("total", word):
            if name is not None:
                tasks[name] = tasks.get(name, 0) + row["tasks"]

    def build_line(self, row: Row) -> RunLine:
        id = row["id"]
        common: dict[str, Any] = {
            "id": id,
            "kind": row["kind"],
            "name": row["name"],
            "status": row["status"],
            "blockers": self._blockers.get(id, 0),
            "files_changed": self._files.get(id, 0),
            "tokens": self._tokens.get(id, 0),
            "agents": list(self._agents.get(id, ()))[:MAX_AGENTS],
            "last_milestone": truncate_to_line(self._milestones.get(id)),
            "updated_at": format_timestamp(row["updated_at"]),
        }
        return RunLine(
            **common
            | (self._build_job_fields(row) if row["kind"] == JOB else self._build_workflow_fields(row))
        )

    def _build_workflow_fields(self, row: Row) -> dict[str, Any]:
        id, status = row["id"], row["status"]
        if row["kind"] == TRACK:
            place = row["current_phase"], row["total_phases"]
            status = "blocked" if status == "in_progress" and self._blockers.get(id) else status
        else:
            place = self._levels.get(id, (0, 0))
        return {
            "objective": truncate_to_line(row["objective"], _MAX_OBJECTIVE) or "",
            "status": status,
            "profile": row.get("profile"),
            "phase": PhasePlace(current=place[0], total=place[1]),
            "tasks": RunTasks(**self._tasks.get(id, {})),
            "started_at": format_timestamp(row["started_at"]),
            "ended_at": format_optional_timestamp(row["ended_at"]),
        }

    @staticmethod
    def _build_job_fields(row: Row) -> dict[str, Any]:
        session = parse_session_row(row)
        states = [session.get_step_status(step) for step in session.steps]
        done, running = states.count("completed"), sum(each in _RUNNING_STATUSES for each in states)
        entries = session.entries
        at = len(entries) if session.status == "completed" else session.data.get("current_entry_index", 0) + 1
        return {
            "objective": truncate_to_line(session.goal, _MAX_OBJECTIVE) or "",
            "phase": PhasePlace(current=at, total=len(entries)),
            "tasks": RunTasks(total=len(states), done=done, running=running),
            "started_at": row["started_at"],
            "ended_at": session.data.get("completed_at"),
        }


_RUNNING_STATUSES = ("in_progress", "needs_work")
_TRACKED_COUNTERS = {
    "success": "done",
    "partial_success": "done",
    "failed": "failed",
    "in_progress": "running",
}
_PLANNED_COUNTERS = {
    "completed": "done",
    "skipped": "done",
    "failed": "failed",
    "planning": "running",
    "in_progress": "running",
    "paused": "running",
}


def find_run_refs(tx: Transaction, ids: Iterable[str]) -> dict[str, RunRef]:
    """Find kind and name of these runs; missing runs are left out."""
    return {
        id: RunRef(id=id, kind=kind, name=name)  # type: ignore[arg-type]
        for id, (kind, name) in RunStore(tx).find_names(list(ids)).items()
    }


def _to_milliseconds(moment: int | str) -> int:
    if isinstance(moment, int):
        return moment
    return int(datetime.fromisoformat(moment).astimezone(UTC).timestamp() * 1000)


ENDPOINTS = (Endpoint("/api/v1/runs", "Runs of all kinds.", RunsQuery, Runs, read_runs),)
