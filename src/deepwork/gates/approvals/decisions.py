"""What follows from decisions: packages whose work waited carry them out, and agents get notices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from deepwork.gates.approvals.models import Approval, ApprovalStatus, DecisionEffect
from deepwork.gates.approvals.rules import describe_subject, find_name
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.notices.models import NoticeType
from deepwork.kernel.notices.rules import build_approval_text
from deepwork.kernel.notices.service import NoticeService


class DecisionHandler(Protocol):
    """Carries out what decisions about one kind of subject lead to."""

    def lock(self, tx: Transaction, approval: Approval) -> None:
        """Lock what gates lock before they look at approvals, so that no two calls wait for each other."""

    def apply(self, tx: Transaction, approval: Approval) -> str | None:
        """Carry out the decision in its transaction, notify agents, and say what it led to."""

    def follow(self, approval: Approval) -> DecisionEffect | None:
        """Carry out, after the commit, what takes long, such as completing a task; say what it led to."""


def notify_of_decision(
    tx: Transaction,
    approval: Approval,
    next_step: str,
    agents: Sequence[str] = (),
    task_id: str | None = None,
) -> None:
    """Notify these agents, else those that asked or wait; work without agents is notified by its sessions."""
    is_given = approval.status is ApprovalStatus.GIVEN
    text = build_approval_text(
        describe_subject(approval),
        find_name(approval.shown),
        is_given=is_given,
        comment=approval.comment,
        next=next_step,
    )
    kind = NoticeType.APPROVED if is_given else NoticeType.REFUSED
    asked = [id for id in (approval.asked_by, *approval.waiting) if id.startswith("ag_")]
    notices, workflow = NoticeService(tx), approval.workflow_id
    if concerned := list(agents) or asked:
        notices.notify_agents(concerned, kind, text, workflow_id=workflow, task_id=task_id, about=approval.id)
    elif workflow is not None and not workflow.startswith("wf_"):
        notices.notify_work(workflow, kind, text, task_id=task_id, about=approval.id)
