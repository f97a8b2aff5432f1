"""Response models of approvals."""

from __future__ import annotations

from typing import Any, Self

from deepwork.gates.approvals.models import Approval, ApprovalKind, ApprovalStatus, DecisionEffect, find_name
from deepwork.kernel.answers import Answer
from deepwork.kernel.call import ActionOutcome
from deepwork.kernel.values import format_optional_timestamp, format_timestamp


class ApprovalSummary(Answer):
    """An approval without what was shown."""

    id: str
    kind: ApprovalKind
    subject_id: str
    workflow_id: str | None = None
    title: str | None = None
    digest: str
    status: ApprovalStatus
    asked_by: str
    asked_by_name: str | None = None
    """The name of the agent that asked; None if no agent did, or nobody knows it any more."""
    asked_at: str
    decided_by: str | None = None
    decided_at: str | None = None
    method: str | None = None
    comment: str | None = None
    expires_at: str | None = None
    used_at: str | None = None

    @classmethod
    def from_approval(cls, approval: Approval, **more: Any) -> Self:
        return cls(
            **{
                **vars(approval),
                "kind": approval.subject_kind,
                "title": find_name(approval.shown),
                "asked_at": format_timestamp(approval.asked_at),
                "decided_at": format_optional_timestamp(approval.decided_at),
                "expires_at": format_optional_timestamp(approval.expires_at),
                "used_at": format_optional_timestamp(approval.used_at),
                **more,
            }
        )


class ApprovalView(ApprovalSummary):
    """An approval with what is to be approved: all of it, or what differs from what was approved before."""

    shown: dict[str, Any] | None = None
    approved_before: str | None = None
    differences: list[dict[str, Any]] | None = None


class Approvals(Answer):
    """Approvals, the last asked first."""

    approvals: list[ApprovalSummary]
    total: int


class ApprovalDecision(ApprovalSummary):
    """What a person decided, and what it led to."""

    effect: str | None = None
    carried_out: bool | None = None
    """False if what was approved could not be done; `effect` says why."""

    def revise(self, outcome: ActionOutcome) -> Self:
        """Add what the decision led to after its commit."""
        if not isinstance(outcome, DecisionEffect):
            return self
        return self.model_copy(
            {"effect": outcome.text, "carried_out": None if outcome.is_carried_out else False}
        )
