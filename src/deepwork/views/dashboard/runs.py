"""REST endpoint for the list of runs of all kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from deepwork.kernel.database.engine import Row
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.timestamps import format_optional_timestamp, parse_timestamp
from deepwork.views.dashboard.endpoints import (
    Endpoint,
    PagedAnswer,
    PageQuery,
    ReadContext,
    RestAnswer,
    StateFields,
    decode_cursor,
    encode_cursor,
)
from deepwork.views.overview import run_lines
from deepwork.views.overview.run_lines import list_merged_rows
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
from deepwork.work.tracking.models import TrackSize

Kind = Literal["track", "plan", "job"]


class PhasePlace(RestAnswer):
    """The current phase; and the status of each phase, unless there are more than a dozen."""

    current: int
    total: int
    statuses: list[str] | None = None


class RunTasks(RestAnswer):
    total: int = 0
    done: int = 0
    failed: int = 0
    running: int = 0


class RunLine(StateFields):
    """A run in a list."""

    id: str
    kind: Kind
    name: str
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
    profile: TrackSize | None = Field(
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
    store = WorkListStore(context.tx)
    rows, cursor = list_merged_page(store, filters, order, query.cursor, query.limit)
    total = sum(store.count(kind, each) for kind, each in filters.items())
    return Runs(runs=build_run_lines(context.states, rows), total=total, cursor=cursor)


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


def list_merged_page(
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


def build_run_lines(view: StateView, rows: Sequence[Row]) -> list[RunLine]:
    """Build the list items of these runs."""
    return [RunLine(**line) for line in run_lines.build_run_lines(view, rows)]


ENDPOINTS = (Endpoint("/api/v1/runs", "Runs of all kinds.", RunsQuery, Runs, read_runs),)
