"""What people decide about tracked tasks, as approvals: recorded with the milestone that says it."""

from __future__ import annotations

from deepwork.gates.approvals.acts import require_proven
from deepwork.gates.approvals.models import Approval, ApprovalKind, ApprovalRequest, ApprovalStatus
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.names import new_id
from deepwork.kernel.notices.models import NoticeType
from deepwork.work.tracking.models import Milestone

VERDICTS = (NoticeType.APPROVED.value, NoticeType.REFUSED.value, NoticeType.ACKNOWLEDGED.value)


def record_verdict(tx: Transaction, milestone: Milestone) -> None:
    """Record a milestone of a person on a tracked task as their decision; any other one is none."""
    person, subject = milestone.logged_by_person, milestone.subject
    if person is None or not subject.task_id.startswith("tt_"):
        return
    given = (milestone.metadata or {}).get("verdict")
    verdict = given if isinstance(given, str) and given in VERDICTS else "note"
    shown = {"name": subject.task_name, "milestone": milestone.id, "verdict": verdict}
    # Whatever else a person says about a task opens nothing.
    method = require_proven(tx).value if verdict == NoticeType.APPROVED else "token"
    request = ApprovalRequest(ApprovalKind.TRACKED_TASK, subject.task_id, subject.workflow_id, shown)
    ApprovalStore(tx).add(
        Approval(
            id=new_id("ap"),
            subject_kind=request.kind,
            subject_id=request.subject_id,
            workflow_id=request.workflow_id,
            digest=request.digest,
            shown=request.shown,
            status=ApprovalStatus.REFUSED if verdict == "refused" else ApprovalStatus.GIVEN,
            asked_by=person,
            asked_at=milestone.created_at,
            decided_by=person,
            decided_at=milestone.created_at,
            method=method,
            comment=milestone.message,
        )
    )
