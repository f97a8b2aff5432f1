"""REST endpoints for approvals."""

from __future__ import annotations

from pydantic import Field

from deepwork.gates.approvals.models import ApprovalStatus
from deepwork.gates.approvals.queries import list_approvals, show_approval
from deepwork.gates.approvals.responses import Approvals, ApprovalView
from deepwork.views.dashboard.endpoints import Endpoint, NoParameters, ReadContext


class ApprovalQuery(NoParameters):
    """Which approvals to list: those that wait, unless another status is given."""

    status: ApprovalStatus = ApprovalStatus.PENDING
    all: bool = Field(default=False, description="Of every status")
    workflow_id: str | None = Field(default=None, description="Of this plan, tracked workflow or session")
    limit: int = Field(default=50, ge=1, le=500)


class ApprovalViewQuery(NoParameters):
    """How much of an approval to show."""

    whole: bool = Field(default=False, description="All of it, even if only a part differs from before")


def read_approvals(context: ReadContext, query: ApprovalQuery) -> Approvals:
    """Read a list of approvals."""
    statuses = None if query.all else [query.status]
    return list_approvals(context.tx, statuses=statuses, workflow_id=query.workflow_id, limit=query.limit)


def read_approval(context: ReadContext, query: ApprovalViewQuery) -> ApprovalView:
    """Read an approval with what is to be approved."""
    return show_approval(context.tx, context.id, whole=query.whole)


ENDPOINTS = (
    Endpoint(
        "/api/v1/approvals",
        "What waits for your approval, or was decided; the last asked first.",
        ApprovalQuery,
        Approvals,
        read_approvals,
    ),
    Endpoint(
        "/api/v1/approvals/{id}",
        "An approval: what is to be approved, or what differs from what was approved before.",
        ApprovalViewQuery,
        ApprovalView,
        read_approval,
    ),
)
