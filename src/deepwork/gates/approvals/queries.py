"""Reads approvals for people: lists, and what is to be approved."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.gates.approvals.models import Approval, ApprovalStatus
from deepwork.gates.approvals.responses import Approvals, ApprovalSummary, ApprovalView
from deepwork.gates.approvals.rules import find_predecessor, is_expired, list_differences
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import copy_with


def list_approvals(
    tx: Transaction, *, statuses: Sequence[ApprovalStatus] | None, workflow_id: str | None, limit: int
) -> Approvals:
    """List approvals with one of these statuses, or all."""
    found, total = ApprovalStore(tx).list_matching(statuses=statuses, workflow_id=workflow_id, limit=limit)
    return Approvals(
        approvals=[ApprovalSummary.from_approval(_mark_expired(tx, each)) for each in found], total=total
    )


def show_approval(tx: Transaction, id: str, *, whole: bool = False) -> ApprovalView:
    """Show what is to be approved: only what differs from what was approved before, unless `whole`."""
    store = ApprovalStore(tx)
    approval = _mark_expired(tx, store.get(id))
    before = find_predecessor(approval, store.list_before(approval))
    if before is None:
        return ApprovalView.from_approval(approval, shown=dict(approval.shown))
    return ApprovalView.from_approval(
        approval,
        shown=dict(approval.shown) if whole else None,
        approved_before=before.id,
        differences=list_differences(before.shown, approval.shown),
    )


def _mark_expired(tx: Transaction, approval: Approval) -> Approval:
    """Return the approval as the next gate will find it: reading stores nothing."""
    return copy_with(approval, status=ApprovalStatus.EXPIRED) if is_expired(approval, tx.now) else approval
