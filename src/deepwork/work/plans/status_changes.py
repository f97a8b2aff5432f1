"""Applies a new status to a task, if its state and the caller allow that."""

from __future__ import annotations

from deepwork.gates.approvals.acts import allow_person, require_proven
from deepwork.kernel.call import is_person
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import copy_with
from deepwork.work.plans.approval_gate import require_start_approved
from deepwork.work.plans.claims import LockedTask
from deepwork.work.plans.models import Task, TaskStatus
from deepwork.work.plans.rules.attempts import count_attempts, is_tried_again, require_attempts_left
from deepwork.work.plans.rules.transitions import check_task_transition
from deepwork.work.plans.rules.weakening import require_skippable
from deepwork.work.plans.stores.task_store import TaskStore

_MAX_NAMED_TASKS = 3


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
    return TaskStore(tx).find_claim_time(work.task.id) or tx.now
