"""What people read about runs of all kinds: tracks, plans and job sessions in one list, and their events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from deepwork.kernel.answers import Answer, Field, Id
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.events.log import EventStore
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.paging import Cursor, Page, PageLimit, decode_cursor, encode_cursor
from deepwork.kernel.values import format_optional_timestamp, parse_timestamp
from deepwork.views.overview import run_lines
from deepwork.views.overview.event_names import find_event_names
from deepwork.views.overview.run_lines import list_merged_rows
from deepwork.views.overview.run_refs import get_run_row
from deepwork.views.overview.run_search_store import RunEventStore
from deepwork.views.overview.run_store import (
    ACTIVE_STATUSES,
    ENDED_STATUSES,
    JOB,
    KINDS,
    TRACK,
    RunFilter,
    RunOrder,
    WorkListStore,
)
from deepwork.views.overview.states.view import StateView
from deepwork.work.tracking.list_responses import RunKind, RunRef
from deepwork.work.tracking.models import TrackSize


class PhasePlace(Answer):
    """The current phase; and the status of each phase, unless there are more than a dozen."""

    current: int
    total: int
    statuses: list[str] | None = None


class RunTasks(Answer):
    total: int = 0
    done: int = 0
    failed: int = 0
    running: int = 0


class RunLine(RunRef):
    """A run in a list."""

    state: str
    because: str | None = None
    """Why: a code, or a code and a detail after a colon."""
    next: str | None = None
    """The command that moves it on."""
    objective: str
    status: str
    profile: str | None = None
    phase: PhasePlace
    tasks: RunTasks
    blockers: int
    files_changed: int
    tokens: int
    usd: float
    """What it cost, by the ledger."""
    agents: list[str]
    last_milestone: str | None = None
    started_at: str
    ended_at: str | None = None
    updated_at: str


class Runs(Page):
    runs: list[RunLine]


class RunEvents(Answer):
    """Events in order."""

    events: list[dict[str, Any]]
    total: int
    oldest_seq: int | None = None
    last_seq: int
    names: dict[str, str]
    """Of the runs, planned tasks and agents in these events, by id."""


class AllEvents(Answer):
    """Events of the whole project, in order."""

    events: list[dict[str, Any]]
    oldest_seq: int
    last_seq: int
    names: dict[str, str]
    """Of the runs, planned tasks and agents in these events, by id."""


_Before = Annotated[int | None, Field(ge=0, description="The last events before this number")]
_After = Annotated[int | None, Field(ge=0, description="The next events after this number")]
_EventTypes = Annotated[str | None, Field(description="One or more, separated by commas")]


class WorkOperations:
    """Reads runs of all kinds."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(self, database: Database, view_states: Callable[[Transaction], StateView]) -> None:
        self._database, self._view_states = database, view_states

    @operation("read")
    def list_work(
        self,
        kind: RunKind | None = None,
        status: Annotated[str | None, Field(description="One or more, separated by commas")] = None,
        q: Annotated[
            str | None, Field(max_length=200, description="Part of the name, objective or id")
        ] = None,
        profile: Annotated[
            TrackSize | None, Field(description="Profile of a tracked workflow; other runs have none")
        ] = None,
        agent: Annotated[
            str | None, Field(description="The name of an agent that works or worked on it")
        ] = None,
        since: Annotated[str | None, Field(description="Started at or after; ISO 8601")] = None,
        until: Annotated[str | None, Field(description="Started before; ISO 8601")] = None,
        sort: Literal["started", "updated", "name"] = "started",
        order: Literal["asc", "desc"] = "desc",
        limit: PageLimit = 50,
        cursor: Cursor = None,
    ) -> Runs:
        """Runs of all kinds."""
        words = (q or "").strip() or None
        filters = _build_filters(kind, status, RunFilter(None, words, agent, since, until, profile))
        with self._database.reading() as tx:
            store, ordered = WorkListStore(tx), RunOrder(sort, order == "desc")
            rows, following = _list_merged_page(store, filters, ordered, cursor, limit)
            total = sum(store.count(kind, each) for kind, each in filters.items())
            return Runs(runs=describe_runs(self._view_states(tx), rows), total=total, cursor=following)

    @operation("read")
    def list_work_events(
        self,
        id: Id,
        before: _Before = None,
        after: _After = None,
        type: _EventTypes = None,
        limit: Annotated[int, Field(ge=1, le=1000)] = 100,
    ) -> RunEvents:
        """Events of a run."""
        types = _parse_types(type)
        with self._database.reading() as tx:
            get_run_row(tx, id)
            store = RunEventStore(tx)
            oldest, total = store.find_bounds(id, types)
            found = store.list_page(id, types=types, before=before, after=after, limit=limit)
            last_seq = EventStore(tx).get_last_seq()
            names = find_event_names(tx, found)
        return RunEvents(events=found, total=total, oldest_seq=oldest, last_seq=last_seq, names=names)

    @operation("read")
    def list_all_events(
        self,
        before: _Before = None,
        after: _After = None,
        type: _EventTypes = None,
        limit: Annotated[int, Field(ge=1, le=1000)] = 100,
    ) -> AllEvents:
        """Events of everything in the project."""
        with self._database.reading() as tx:
            found = RunEventStore(tx).list_page(
                None, types=_parse_types(type), before=before, after=after, limit=limit
            )
            store = EventStore(tx)
            return AllEvents(
                events=found,
                oldest_seq=store.get_oldest_seq(),
                last_seq=store.get_last_seq(),
                names=find_event_names(tx, found),
            )


def describe_runs(view: StateView, rows: Sequence[Row]) -> list[RunLine]:
    """Describe these runs for a list."""
    return [
        RunLine(**line | {"phase": PhasePlace(**line["phase"]), "tasks": RunTasks(**line["tasks"])})
        for line in run_lines.build_run_lines(view, rows)
    ]


def _parse_types(given: str | None) -> list[str] | None:
    return [word.strip() for word in (given or "").split(",") if word.strip()] or None


def _build_filters(wanted: str | None, status: str | None, given: RunFilter) -> dict[str, RunFilter]:
    """Build a filter for each kind of run, without kinds that cannot match."""
    statuses = _parse_statuses(status)
    since, until = (
        None if moment is None else parse_timestamp(moment, name)
        for name, moment in (("since", given.since), ("until", given.until))
    )
    found = {}
    for kind in KINDS:
        if given.profile is not None and kind != TRACK:
            continue
        own = statuses and tuple(
            word for word in statuses if word in ACTIVE_STATUSES[kind] + ENDED_STATUSES[kind]
        )
        if wanted not in (None, kind) or own == ():
            continue
        start, end = (
            (since, until)
            if kind != JOB
            else (format_optional_timestamp(since), format_optional_timestamp(until))
        )
        found[kind] = RunFilter(own, given.words, given.agent, start, end, given.profile)
    return found


_UNUSED_STATUSES = {"pending"}
"""Statuses that runs may be filtered by, although no run has them: every run starts when it is created."""


def _parse_statuses(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    words = tuple(word.strip().lower() for word in text.split(",") if word.strip())
    used = {word for kind in KINDS for word in ACTIVE_STATUSES[kind] + ENDED_STATUSES[kind]}
    known = used | _UNUSED_STATUSES
    if unknown := sorted(set(words) - known):
        raise InvalidInput(
            f"`status`: unknown value {unknown[0][:60]!r}. Allowed: {', '.join(sorted(known))}."
        )
    return words or None


def _list_merged_page(
    store: WorkListStore, filters: Mapping[str, RunFilter], order: RunOrder, cursor: str | None, limit: int
) -> tuple[list[Row], str | None]:
    """List the next runs of all kinds in one order, and the cursor of the next page.

    The cursor holds a position for each kind, since databases sort names differently from Python: comparing
    a position of one kind with rows of another could skip or repeat runs.
    """
    positions = _parse_positions(cursor, order)
    rows, has_more = list_merged_rows(store, filters, order, positions, limit)
    for row in rows:
        positions[row["kind"]] = [row["sort_key"], row["created_seq"]]
    return rows, encode_cursor([order.by, order.descending, positions]) if has_more else None


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
