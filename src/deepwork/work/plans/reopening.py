"""Reopens completed tasks whose work turned out not to fit, such as work that cannot be landed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepwork.kernel.call import is_person
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import copy_with
from deepwork.work.plans.models import CheckpointType, PlanStatus, Task, TaskStatus
from deepwork.work.plans.notices import notify_of_reopening
from deepwork.work.plans.recorder import PlanRecorder
from deepwork.work.plans.stores.checkpoint_store import CheckpointStore
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore


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
