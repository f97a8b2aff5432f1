"""REST endpoints for rewinds of tasks. A preview, a rewind and its undoing are actions of people."""

from __future__ import annotations

from pydantic import Field

from deepwork.delivery.rewind.responses import RewindView, describe_rewind
from deepwork.delivery.rewind.store import RewindStore
from deepwork.views.dashboard.endpoints import (
    Endpoint,
    NoParameters,
    PagedAnswer,
    PageQuery,
    ReadContext,
    decode_cursor,
    encode_cursor,
)


class Rewinds(PagedAnswer):
    rewinds: list[RewindView]


class RewindsQuery(PageQuery):
    workflow_id: str | None = Field(default=None, description="Of tasks of this plan")
    task_id: str | None = Field(default=None, description="Of this task")


def read_rewinds(context: ReadContext, query: RewindsQuery) -> Rewinds:
    """Read rewinds, newest first."""
    after = tuple(decode_cursor(query.cursor, int, str)) if query.cursor else None
    found, total = RewindStore(context.tx).list_page(
        workflow_id=query.workflow_id, task_id=query.task_id, after=after, limit=query.limit + 1
    )
    page = found[: query.limit]
    has_more = len(found) > query.limit
    cursor = encode_cursor([page[-1].created_at, page[-1].id]) if has_more else None
    return Rewinds(rewinds=[describe_rewind(each) for each in page], total=total, cursor=cursor)


def read_rewind(context: ReadContext, _: NoParameters) -> RewindView:
    """Read one rewind, with the tasks that it changed."""
    store = RewindStore(context.tx)
    return describe_rewind(store.get(context.id), store.list_tasks(context.id))


ENDPOINTS = (
    Endpoint("/api/v1/rewinds", "Rewinds of tasks, newest first.", RewindsQuery, Rewinds, read_rewinds),
    Endpoint(
        "/api/v1/rewinds/{id}",
        "One rewind, with the tasks that it changed.",
        NoParameters,
        RewindView,
        read_rewind,
    ),
)
