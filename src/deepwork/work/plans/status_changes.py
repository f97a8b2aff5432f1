"""Changes of a task's status: who may make them, their answers, and completed tasks that open again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepwork.gates.approvals.acts import allow_person, require_proven
from deepwork.kernel.call import is_person
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.notices.responses import NoticeView
from deepwork.kernel.records import copy_with
from deepwork.work.plans.claims import LockedTask
from deepwork.work.plans.models import CheckpointType, PlanStatus, Task, TaskStatus, Workflow
from deepwork.work.plans.queue_responses import TaskUpdated
from deepwork.work.plans.recorder import PlanRecorder, notify_of_reopening, require_start_approved
from deepwork.work.plans.rules.transitions import (
    check_task_transition,
    count_attempts,
    is_tried_again,
    require_attempts_left,
)
from deepwork.work.plans.rules.weakening import require_skippable
from deepwork.work.plans.scheduling import Scheduler
from deepwork.work.plans.stores.checkpoint_store import CheckpointStore
from deepwork.work.plans.stores.claim_store import ClaimStore
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore

_MAX_NAMED_TASKS = 3

_MAX_NEXT_TASKS = 3


def apply_status(
    tx: Transaction,
    work: LockedTask,
    wanted: TaskStatus,
    *,
    outcome: str | None = None,
    error: str | None = None,
) -> Task:
    """Return the task with this status, or raise an error if the transition is not allowed."""
    task = work.task
    open_ones, count = (
        TaskStore(tx).list_open_dependencies(task, _MAX_NAMED_TASKS) if task.status.can_start else ([], 0)
    )
    status = check_task_transition(
        task,
        wanted,
        open_dependencies=[other.name for other in open_ones],
        open_count=count,
        outcome=outcome,
        error=error,
    )
    if status is None:
        return task
    with allow_person(tx):
        require_attempts_left(task, status)
        require_skippable(task, status, work.workflow)
    begins = task.status.can_start and status not in (TaskStatus.SKIPPED, TaskStatus.PENDING)
    if begins and work.holder is None and not work.was_last_holder:
        require_start_approved(tx, work.workflow, task)
    changed = copy_with(
        task,
        status=status,
        waits_for=None,
        attempts=task.attempts + begins,
        started_at=_compute_start_time(tx, work, status) if begins else task.started_at,
        finished_at=tx.now if status.is_done or status is TaskStatus.FAILED else None,
    )
    return count_attempts(task, changed, may_forget=may_give_attempts(tx, task, status))


def may_give_attempts(tx: Transaction, task: Task, wanted: TaskStatus) -> bool:
    """Whether a task that failed gets new attempts: if a person tries it again, with their proof."""
    if not is_person(tx.caller) or not is_tried_again(task, wanted):
        return False
    require_proven(tx)
    return True


def _compute_start_time(tx: Transaction, work: LockedTask, status: TaskStatus) -> int:
    """Return when work started: now, or at the claim if the first report is that the task has ended."""
    was_held = work.holder is not None or work.was_last_holder
    if status.is_running or not was_held:
        return tx.now
    return ClaimStore(tx).find_claim_time(work.task.id) or tx.now


def build_status_answer(
    tx: Transaction,
    workflow: Workflow,
    status: TaskStatus,
    notices: list[NoticeView] | None,
    checks: dict[str, str] | None = None,
) -> TaskUpdated:
    """Build the answer to a changed status; one that ends the task names the first tasks to claim next."""
    answer = TaskUpdated(notices=notices, checks=checks)
    if workflow.status is PlanStatus.COMPLETED:
        return answer.model_copy(update={"all_complete": True})
    is_over = status.is_done or status is TaskStatus.FAILED
    if not (is_over and workflow.status.hands_out_tasks):
        return answer
    return answer.model_copy(
        update={"next_tasks": Scheduler(tx).list_next_names(workflow, _MAX_NEXT_TASKS) or None}
    )


def reopen_task(
    tx: Transaction, task_id: str, summary: str, *, reason: str, detail: Mapping[str, Any] | None = None
) -> Task:
    """Hand a completed task out again; the checkpoint with the summary is in the context of its next agent.

    Its outcome is kept in that checkpoint. Tasks that depend on it wait for it again, unless they have begun.
    A plan whose last task it was is in progress again. A task that is not done stays as it is.
    """
    # The plan first, as claims and reports do, so that no two calls wait for each other.
    workflow = PlanStore(tx).get_for_update(TaskStore(tx).get(task_id).workflow_id)
    task = TaskStore(tx).get_for_update(task_id)
    recorder = PlanRecorder(tx)
    kept = {**(detail or {}), "outcome": task.outcome} if task.outcome else dict(detail or {})
    checkpoint = CheckpointStore(tx).add(task, CheckpointType.ERROR, summary, detail=kept)
    task = TaskStore(tx).get(task_id)
    recorder.emit_checkpoint_event(task, checkpoint)
    if not task.status.is_done:
        return task
    again = copy_with(
        task, status=TaskStatus.PENDING, outcome=None, outcome_detail=None, finished_at=None, claimed_by=None
    )
    saved = recorder.save_task(task, again, reason)
    TaskStore(tx).block_dependents(task_id)
    if workflow.status is PlanStatus.COMPLETED:
        recorder.save_workflow(workflow, copy_with(workflow, status=PlanStatus.IN_PROGRESS), reason)
    return saved


def reopen_by_person(tx: Transaction, task_id: str, why: str | None) -> bool:
    """Open a completed task again if a person asks for it; False if it is not completed, or no person does.

    Its checks and approvals count again when it is completed, so this passes no gate.
    """
    if not is_person(tx.caller) or TaskStore(tx).get(task_id).status is not TaskStatus.COMPLETED:
        return False
    reason = f"{tx.caller} opened it again"
    reopen_task(tx, task_id, why or f"{reason}.", reason=reason)
    notify_of_reopening(tx, task_id, why or reason)
    return True
