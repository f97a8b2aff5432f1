"""REST endpoints for landings."""

from __future__ import annotations

from pydantic import Field

from deepwork.dashboard import offered_actions
from deepwork.dashboard.endpoints import (
    Endpoint,
    NoParameters,
    PagedAnswer,
    PageQuery,
    ReadContext,
    decode_cursor,
    encode_cursor,
)
from deepwork.dashboard.offered_actions import Act
from deepwork.dashboard.runs import RunRef, find_run_refs
from deepwork.database.transaction import Transaction
from deepwork.landing.models import Landing, LandingStatus
from deepwork.landing.responses import LandingView, describe_landing
from deepwork.landing.store import LandingStore


class LandingLine(LandingView):
    """A landing, with the plan that it belongs to and what a person can do about it."""

    workflow: RunRef | None = None
    actions: list[Act]


class LandingPage(PagedAnswer):
    landings: list[LandingLine]


class LandingQuery(PageQuery):
    status: LandingStatus | None = None
    open: bool = Field(default=False, description="Only those that have not ended")
    workflow_id: str | None = Field(default=None, description="Of this plan")


def read_landings(context: ReadContext, query: LandingQuery) -> LandingPage:
    """Read landings, the newest first."""
    after = tuple(decode_cursor(query.cursor, int, str)) if query.cursor else None
    found, total = LandingStore(context.tx).list_newest(
        statuses=[query.status] if query.status else None,
        workflow_id=query.workflow_id,
        is_open=query.open,
        after=after,
        limit=query.limit + 1,
    )
    page = found[: query.limit]
    has_more = len(found) > query.limit
    cursor = encode_cursor([page[-1].created_at, page[-1].id]) if has_more else None
    return LandingPage(landings=_build_lines(context.tx, page), total=total, cursor=cursor)


def read_landing(context: ReadContext, _: NoParameters) -> LandingLine:
    """Read one landing."""
    [line] = _build_lines(context.tx, [LandingStore(context.tx).get(context.id)])
    return line


def _build_lines(tx: Transaction, landings: list[Landing]) -> list[LandingLine]:
    plans = find_run_refs(tx, {each.workflow_id for each in landings if each.workflow_id})
    return [
        LandingLine(
            **vars(describe_landing(each)),
            workflow=plans.get(each.workflow_id or ""),
            actions=offered_actions.list_landing_actions(each),
        )
        for each in landings
    ]


ENDPOINTS = (
    Endpoint(
        "/api/v1/landings",
        "What landed on which branch, or is on its way, newest first.",
        LandingQuery,
        LandingPage,
        read_landings,
    ),
    Endpoint(
        "/api/v1/landings/{id}",
        "One landing: where its work is, and what is in its way.",
        NoParameters,
        LandingLine,
        read_landing,
    ),
)
