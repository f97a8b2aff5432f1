"""REST endpoint for the event log of a run."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from deepwork.kernel.events.log import EventStore
from deepwork.views.dashboard.endpoints import Endpoint, PageQuery, ReadContext, RestAnswer
from deepwork.views.overview.run_event_store import RunEventStore
from deepwork.views.overview.run_refs import get_run_row


class EventsQuery(PageQuery):
    limit: int = Field(default=100, ge=1, le=1000)
    cursor: None = None
    before: int | None = Field(default=None, ge=0, description="The last events before this number")
    after: int | None = Field(default=None, ge=0, description="The next events after this number")
    type: str | None = Field(default=None, description="One or more, separated by commas")


class RunEvents(RestAnswer):
    """Events in order."""

    events: list[dict[str, Any]]
    total: int
    oldest_seq: int | None = None
    last_seq: int


def read_run_events(context: ReadContext, query: EventsQuery) -> RunEvents:
    """Read a part of a run's events."""
    get_run_row(context.tx, context.id)
    types = [word.strip() for word in (query.type or "").split(",") if word.strip()] or None
    store = RunEventStore(context.tx)
    oldest, total = store.find_bounds(context.id, types)
    found = store.list_page(
        context.id, types=types, before=query.before, after=query.after, limit=query.limit
    )
    return RunEvents(
        events=found, total=total, oldest_seq=oldest, last_seq=EventStore(context.tx).get_last_seq()
    )


ENDPOINTS = (
    Endpoint(
        "/api/v1/runs/{id}/events",
        "Events of a run.",
        EventsQuery,
        RunEvents,
        read_run_events,
        follows_events=True,
    ),
)
