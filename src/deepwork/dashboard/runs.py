"""Runs in lists: one line for each, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field

from deepwork.dashboard.endpoints import Endpoint, Listing, Page, Sight, marked, place_of
from deepwork.dashboard.moments import iso, milliseconds, told
from deepwork.dashboard.run_store import (
    JOB,
    KINDS,
    OVER,
    PLAN,
    TRACK,
    UNDER_WAY,
    RunFilter,
    RunOrder,
    RunStore,
)
from deepwork.dashboard.sessions import session_row
from deepwork.database.engine import Row
from deepwork.database.transaction import Transaction
from deepwork.errors import InvalidInput
from deepwork.plans.responses import one_line
from deepwork.shapes import Answer
from deepwork.tracking.models import Profile
from deepwork.tracking.notes import NoteStore

AGENTS_SHOWN = 5
_OBJECTIVE = 300

Kind = Literal["track", "plan", "job"]


class RunRef(Answer):
    id: str
    kind: Kind
    name: str


class PhasePlace(Answer):
    current: int
    total: int


class RunTasks(Answer):
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


class Runs(Listing):
    runs: list[RunLine]


class RunsQuery(Page):
    kind: Kind | None = None
    status: str | None = Field(default=None, description="One or several, separated by commas")
    q: str | None = Field(
        default=None, max_length=200, description="A part of the name, the objective or the id"
    )
    profile: Profile | None = Field(default=None, description="Of tracked workflows; others have none")
    agent: str | None = Field(default=None, description="The name of an agent that works or worked on it")
    since: str | None = Field(default=None, description="Started at or after; ISO 8601")
    until: str | None = Field(default=None, description="Started before; ISO 8601")
    sort: Literal["started", "updated", "name"] = "started"
    order: Literal["asc", "desc"] = "desc"


def runs(sight: Sight, query: RunsQuery) -> Runs:
    """Runs that match every filter."""
    wanted = filters(query)
    order = RunOrder(query.sort, query.order == "desc")
    store = RunStore(sight.tx)
    rows, cursor = merged(store, wanted, order, query.cursor, query.limit)
    total = sum(store.count(kind, each) for kind, each in wanted.items())
    return Runs(runs=lines(sight.tx, rows), total=total, cursor=cursor)


def filters(query: RunsQuery) -> dict[str, RunFilter]:
    """What is asked of each kind; a kind that cannot match is left out."""
    statuses = _statuses(query.status)
    since, until = (
        None if moment is None else milliseconds(moment, name)
        for name, moment in (("since", query.since), ("until", query.until))
    )
    found = {}
    for kind in KINDS:
        if query.profile is not None and kind != TRACK:
            continue
        own = statuses and tuple(word for word in statuses if word in UNDER_WAY[kind] + OVER[kind])
        if query.kind not in (None, kind) or own == ():
            continue
        start, end = (since, until) if kind != JOB else (iso(since), iso(until))
        words = (query.q or "").strip() or None
        found[kind] = RunFilter(own, words, query.agent, start, end, query.profile)
    return found


def _statuses(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    words = tuple(word.strip().lower() for word in text.split(",") if word.strip())
    known = {word for kind in KINDS for word in UNDER_WAY[kind] + OVER[kind]}
    if unknown := sorted(set(words) - known):
        raise InvalidInput(
            f"`status`: there is no {unknown[0][:60]!r}; there are {', '.join(sorted(known))}."
        )
    return words or None


def merged(
    store: RunStore, wanted: Mapping[str, RunFilter], order: RunOrder, cursor: str | None, limit: int
) -> tuple[list[Row], str | None]:
    """The next runs of all kinds in one order, and where they go on.

    Each kind is followed by itself, so that the cursor holds for each, however databases sort names.
    """
    places = _places(cursor, order)
    pages = {
        kind: store.page(kind, each, order, places.get(kind), limit + 1) for kind, each in wanted.items()
    }
    found = sorted(
        (row for page in pages.values() for row in page), key=_key(order), reverse=order.descending
    )
    shown = _in_their_order(found[:limit], pages)
    for row in shown:
        places[row["kind"]] = [row["sort_key"], row["created_seq"]]
    return shown, marked([order.by, order.descending, places]) if len(found) > limit else None


def _in_their_order(rows: Sequence[Row], pages: Mapping[str, list[Row]]) -> list[Row]:
    """The same places filled by each kind in the order its database gave: none is ever left behind."""
    left = {kind: iter(page) for kind, page in pages.items()}
    return [next(left[row["kind"]]) for row in rows]


def _key(order: RunOrder) -> Any:
    if order.by == "started":
        return lambda row: (_ms(row["started_at"]), row["created_seq"])
    return lambda row: (row["sort_key"], row["created_seq"])


def _places(cursor: str | None, order: RunOrder) -> dict[str, list[Any]]:
    if cursor is None:
        return {}
    by, descending, places = place_of(cursor, str, bool, dict)
    sound = all(
        kind in KINDS and isinstance(place, list) and len(place) == 2 and type(place[1]) is int
        and type(place[0]) is (str if by == "name" or (kind == JOB and by == "started") else int)
        for kind, place in places.items()
    )  # fmt: skip
    if (by, descending) != (order.by, order.descending) or not sound:
        raise InvalidInput(
            "`cursor` belongs to a list in another order.", suggestion="Leave it out to begin anew."
        )
    found: dict[str, list[Any]] = places
    return found


def lines(tx: Transaction, rows: Sequence[Row]) -> list[RunLine]:
    """These runs, with what their tasks come to: so many statements, however many runs."""
    sums = _Sums(tx, rows)
    return [sums.line(row) for row in rows]


class _Sums:
    """What is counted for some runs, all at once."""

    def __init__(self, tx: Transaction, rows: Sequence[Row]) -> None:
        store = RunStore(tx)
        ids = [row["id"] for row in rows]
        tracked, planned = ([row["id"] for row in rows if row["kind"] == kind] for kind in (TRACK, PLAN))
        self._tasks: dict[str, dict[str, int]] = {}
        self._agents: dict[str, dict[str, None]] = {}
        self._tokens: dict[str, int] = {}
        for row in store.tracked_counts(tracked) if tracked else ():
            self._count(row, _TRACKED.get(row["status"]))
            self._tokens[row["workflow_id"]] = self._tokens.get(row["workflow_id"], 0) + int(row["tokens"])
            if row["agent_name"]:
                self._agents.setdefault(row["workflow_id"], {})[row["agent_name"]] = None
        for row in store.planned_counts(planned) if planned else ():
            self._count(row, _PLANNED.get(row["status"]))
        for row in store.plan_holders(planned) if planned else ():
            self._agents.setdefault(row["workflow_id"], {})[row["name"]] = None
        self._levels = store.planned_levels(planned) if planned else {}
        self._blockers = NoteStore(tx).blocked(ids) if ids else {}
        self._files = store.files(ids) if ids else {}
        self._milestones = store.last_milestones(ids) if ids else {}

    def _count(self, row: Row, word: str | None) -> None:
        tasks = self._tasks.setdefault(row["workflow_id"], {"total": 0})
        for name in ("total", word):
            if name is not None:
                tasks[name] = tasks.get(name, 0) + row["tasks"]

    def line(self, row: Row) -> RunLine:
        id = row["id"]
        common: dict[str, Any] = {
            "id": id, "kind": row["kind"], "name": row["name"], "status": row["status"],
            "blockers": self._blockers.get(id, 0), "files_changed": self._files.get(id, 0),
            "tokens": self._tokens.get(id, 0), "agents": list(self._agents.get(id, ()))[:AGENTS_SHOWN],
            "last_milestone": one_line(self._milestones.get(id)), "updated_at": told(row["updated_at"]),
        }  # fmt: skip
        return RunLine(**common | (self._of_job(row) if row["kind"] == JOB else self._of_workflow(row)))

    def _of_workflow(self, row: Row) -> dict[str, Any]:
        id, status = row["id"], row["status"]
        if row["kind"] == TRACK:
            place = row["current_phase"], row["total_phases"]
            status = "blocked" if status == "in_progress" and self._blockers.get(id) else status
        else:
            place = self._levels.get(id, (0, 0))
        return {
            "objective": one_line(row["objective"], _OBJECTIVE) or "", "status": status,
            "profile": row.get("profile"), "phase": PhasePlace(current=place[0], total=place[1]),
            "tasks": RunTasks(**self._tasks.get(id, {})), "started_at": told(row["started_at"]),
            "ended_at": iso(row["ended_at"]),
        }  # fmt: skip

    @staticmethod
    def _of_job(row: Row) -> dict[str, Any]:
        session = session_row(row)
        states = [session.status_of(step) for step in session.steps]
        done, running = states.count("completed"), sum(each in _AT_IT for each in states)
        entries = session.entries
        at = len(entries) if session.status == "completed" else session.data.get("current_entry_index", 0) + 1
        return {
            "objective": one_line(session.goal, _OBJECTIVE) or "",
            "phase": PhasePlace(current=at, total=len(entries)),
            "tasks": RunTasks(total=len(states), done=done, running=running),
            "started_at": row["started_at"], "ended_at": session.data.get("completed_at"),
        }  # fmt: skip


_AT_IT = ("in_progress", "needs_work")
_TRACKED = {"success": "done", "partial_success": "done", "failed": "failed", "in_progress": "running"}
_PLANNED = {
    "completed": "done", "skipped": "done", "failed": "failed", "planning": "running",
    "in_progress": "running", "paused": "running",
}  # fmt: skip


def refs(tx: Transaction, ids: Iterable[str]) -> dict[str, RunRef]:
    """What these runs are called; one that is gone is called by its id."""
    return {
        id: RunRef(id=id, kind=kind, name=name)  # type: ignore[arg-type]
        for id, (kind, name) in RunStore(tx).names(list(ids)).items()
    }


def _ms(moment: int | str) -> int:
    if isinstance(moment, int):
        return moment
    return int(datetime.fromisoformat(moment).astimezone(UTC).timestamp() * 1000)


ENDPOINTS = (Endpoint("/api/v1/runs", "Runs of every kind.", RunsQuery, Runs, runs),)
