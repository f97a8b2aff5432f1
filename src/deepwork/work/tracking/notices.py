"""What people do with tracked work, issues and milestones, as notices and as recorded approvals."""

from __future__ import annotations

from deepwork.gates.approvals.acts import require_proven
from deepwork.gates.approvals.models import Approval, ApprovalKind, ApprovalRequest, ApprovalStatus
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.notices.models import (
    NoticeType,
    build_abandon_text,
    build_answer_text,
    build_review_text,
)
from deepwork.kernel.notices.store import NoticeService
from deepwork.kernel.values import new_id
from deepwork.work.plans.stores.claim_store import ClaimStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.models import Issue, Milestone, RecordSubject, TrackedTask

_VERDICTS = {kind.value: kind for kind in (NoticeType.APPROVED, NoticeType.REFUSED, NoticeType.ACKNOWLEDGED)}

VERDICTS = (NoticeType.APPROVED.value, NoticeType.REFUSED.value, NoticeType.ACKNOWLEDGED.value)


def notify_of_answer(tx: Transaction, issue: Issue) -> None:
    """Write a notice of a resolved issue, for those who asked."""
    text = build_answer_text(
        issue.description, issue.resolution_note or "", was_asked=issue.requires_human_review
    )
    _notify(tx, issue.subject, NoticeType.ANSWER, text, asked_at=issue.created_at, about=issue.id)


def notify_of_milestone(tx: Transaction, milestone: Milestone) -> None:
    """Write a notice of what a person wrote about a task, such as an approval."""
    verdict = str((milestone.metadata or {}).get("verdict", ""))
    kind = _VERDICTS.get(verdict, NoticeType.NOTE)
    known = verdict if kind is not NoticeType.NOTE else ""
    text = build_review_text(milestone.subject.task_name, known, milestone.message)
    _notify(tx, milestone.subject, kind, text, asked_at=milestone.created_at)


def notify_of_abandoned_task(tx: Transaction, task: TrackedTask, reason: str) -> None:
    """Write a notice of a tracked task that a person ended."""
    text = build_abandon_text(task.name, reason)
    NoticeService(tx).notify_work(task.workflow_id, NoticeType.ENDED, text, task_id=task.id)


def _notify(
    tx: Transaction,
    subject: RecordSubject,
    type: NoticeType,
    text: str,
    *,
    asked_at: int,
    about: str | None = None,
) -> None:
    """Notify the holders of a planned task, then and now; of other tasks, the sessions that work on them."""
    notices = NoticeService(tx)
    if not notices.is_needed:
        return
    if not subject.task_id.startswith("tk_"):
        notices.notify_work(subject.workflow_id, type, text, task_id=subject.task_id, about=about)
        return
    tasks = TaskStore(tx)
    concerned = (
        ClaimStore(tx).find_claimer_at(subject.task_id, asked_at),
        tasks.get(subject.task_id).claimed_by,
    )
    notices.notify_agents(
        [agent for agent in concerned if agent],
        type,
        text,
        workflow_id=subject.workflow_id,
        task_id=subject.task_id,
        about=about,
    )


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
