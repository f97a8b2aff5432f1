"""Sends work back: gives what a person says to the agents of a task, and opens it again if it was done."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.delivery.feedback.models import Comment, CommentEvent, build_comment_text
from deepwork.delivery.feedback.responses import CommentView, WorkSentBack, build_payload, view_comments
from deepwork.delivery.feedback.store import CommentStore
from deepwork.delivery.landing.models import Landing, LandingStatus
from deepwork.delivery.landing.recorder import move_landing
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.delivery.runner.words import judge_reach, name_person
from deepwork.gates.approvals.models import ApprovalKind, ApprovalStatus
from deepwork.gates.approvals.service import save_status
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.notices.models import Notice, NoticeType, cut_text
from deepwork.kernel.notices.store import NoticeStore
from deepwork.kernel.states import Command
from deepwork.kernel.values import copy_with, new_id
from deepwork.work.plans.models import CheckpointType, Task, TaskStatus
from deepwork.work.plans.recorder import APPROVAL, PlanRecorder
from deepwork.work.plans.status_changes import reopen_task, send_back
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.search_store import CheckpointStore
from deepwork.work.plans.stores.task_store import TaskStore

_STOPPABLE = (LandingStatus.QUEUED, LandingStatus.WAITING)
_VOIDED = {
    ApprovalKind.TASK: (ApprovalStatus.PENDING, ApprovalStatus.GIVEN),
    ApprovalKind.LANDING: (ApprovalStatus.PENDING, ApprovalStatus.GIVEN),
    ApprovalKind.REVIEW: (ApprovalStatus.USED,),
}
"""What people decided, or are asked, about work: what they say about it now makes these stale."""


def lock_work(tx: Transaction, task_id: str) -> Task:
    """Return the task, locked as claims and reports lock it: the plan first."""
    PlanStore(tx).get_for_update_by_task(task_id)
    return TaskStore(tx).get_for_update(task_id)


def send_work_back(
    tx: Transaction, task: Task, comments: Sequence[Comment], words: str | None
) -> WorkSentBack:
    """Give comments and words to the agents of a locked task, and open it again if it was done."""
    landing = _require_sendable(tx, task)
    sent = [_send(tx, each) for each in comments]
    if words:
        _add_notice(tx, task, words)
    _void_approvals(tx, task, landing)
    reopened = _open_again(tx, task, landing, len(comments))
    attempt = AttemptStore(tx).find_open_of_task(task.id)
    is_driven = attempt is not None or RunStore(tx).find_open_of_plan(task.workflow_id) is not None
    views = view_comments(tx, sent)
    emit_updates(tx, task, views)
    return WorkSentBack(
        task_id=task.id,
        comments=views,
        reaches=judge_reach(attempt, is_over=False),
        reopened=reopened,
        next=None if is_driven else Command.RUN.about(task.workflow_id),
    )


def emit_updates(tx: Transaction, task: Task, views: Sequence[CommentView]) -> None:
    """Tell pages that comments changed."""
    for each in views:
        tx.emit(CommentEvent.UPDATED, build_payload(each), task.workflow_id)


def _require_sendable(tx: Transaction, task: Task) -> Landing | None:
    """Return the open landing of the task; raise if its work cannot be changed any more."""
    if task.status is TaskStatus.SKIPPED:
        raise NotAllowed(f"Task {task.name!r} was skipped: nobody works on it.")
    newest = LandingStore(tx).find_newest([task.id]).get(task.id)
    has_landed = newest is not None and newest.status is LandingStatus.LANDED
    if newest and has_landed and task.status is TaskStatus.COMPLETED and newest.done_at == task.finished_at:
        raise NotAllowed(
            f"The work on {task.name!r} has landed on {newest.target}, so no agent changes it any more.",
            suggestion=f"Undo it with `deepwork rewind {task.id}`, or plan a new task about it.",
        )
    if newest is not None and newest.status in (LandingStatus.CHECKING, LandingStatus.MOVING):
        raise NotAllowed(
            f"The work on {task.name!r} is landing now ({newest.id}).",
            suggestion="Wait until its landing has ended. Your words are not stored yet.",
            recoverable=True,
        )
    return None if newest is None or newest.status.is_final else newest


def _send(tx: Transaction, comment: Comment) -> Comment:
    task = TaskStore(tx).get(comment.task_id)
    notice_id = _add_notice(tx, task, build_comment_text(comment), comment.by_whom)
    sent = copy_with(comment, sent_at=tx.now, notice_id=notice_id)
    CommentStore(tx).save(sent)
    return sent


def _add_notice(tx: Transaction, task: Task, text: str, by: str | None = None) -> str:
    """Say something to whoever works on the task, now or later, as `deepwork tell` does; return its id."""
    id, by_whom = new_id("nt"), by or tx.caller
    notice = Notice(
        id, NoticeType.MESSAGE, tx.now, by_whom, cut_text(text), None, task.workflow_id, task.id, None
    )
    NoticeStore(tx).add([notice])
    return id


def _void_approvals(tx: Transaction, task: Task, landing: Landing | None) -> None:
    """Let no approval stand, and none be given, that was about the work as it is."""
    subjects = [(ApprovalKind.TASK, task.id), (ApprovalKind.REVIEW, task.id)]
    subjects += [(ApprovalKind.LANDING, landing.id)] if landing else []
    for kind, id in subjects:
        for each in ApprovalStore(tx).list_of_subject(kind, id, is_locked=True):
            if each.status in _VOIDED[kind]:
                save_status(tx, each, ApprovalStatus.STALE)


def _open_again(tx: Transaction, task: Task, landing: Landing | None, count: int) -> bool:
    """Hand work out again that is done or waits for a person; return whether it was."""
    said = f" with {count} comment{'' if count == 1 else 's'}" if count else ""
    reason = f"{name_person(tx.caller)} sent it back{said}"
    if landing is not None and landing.status in _STOPPABLE:
        move_landing(tx, landing, LandingStatus.CANCELLED, reason=f"{reason}.")
    if task.waits_for == APPROVAL:
        detail = {"by": tx.caller, "outcome": task.outcome}
        checkpoint = CheckpointStore(tx).add(task, CheckpointType.DECISION, f"{reason}.", detail=detail)
        PlanRecorder(tx).emit_checkpoint_event(task, checkpoint)
        send_back(tx, TaskStore(tx).get(task.id), tx.caller, reason)
        return True
    if task.status is TaskStatus.COMPLETED:
        reopen_task(tx, task.id, f"{reason}.", reason=reason)
        return True
    return False
