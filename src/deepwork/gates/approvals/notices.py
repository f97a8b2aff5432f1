"""Notices to agents of what people decide."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.gates.approvals.models import Approval, ApprovalStatus
from deepwork.gates.approvals.responses import find_title
from deepwork.gates.approvals.rules import describe_subject
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.notices.models import NoticeType
from deepwork.kernel.notices.rules import build_approval_text
from deepwork.kernel.notices.service import NoticeService


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
        find_title(approval),
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
