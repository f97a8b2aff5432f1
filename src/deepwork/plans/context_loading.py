"""Loads what the context of a task is built from."""

from __future__ import annotations

from deepwork.database.transaction import Transaction
from deepwork.plans.models import Task, TaskStatus
from deepwork.plans.stores.checkpoint_store import CheckpointStore
from deepwork.plans.stores.plan_store import PlanStore
from deepwork.plans.stores.task_store import TaskStore
from deepwork.plans.task_context import ContextOptions, ContextSource

_MAX_RELATED_TASKS = 200
_MAX_CHECKPOINTS = 1000


def load_context_source(tx: Transaction, task: Task, parts: ContextOptions) -> ContextSource:
    """Load what a context is built from, but no more than could ever be shown."""
    store = TaskStore(tx)
    wanted = _MAX_CHECKPOINTS if parts.all_checkpoints else parts.recent_checkpoints
    prior, prior_total = store.list_prior(task, _MAX_RELATED_TASKS)
    siblings, siblings_total = store.list_siblings(task, _MAX_RELATED_TASKS)
    pending, pending_total = store.list_open_dependencies(task, _MAX_RELATED_TASKS)
    completed, completed_total = store.list_done_dependencies(task, _MAX_RELATED_TASKS)
    return ContextSource(
        workflow=PlanStore(tx).get(task.workflow_id),
        task=task,
        checkpoints=CheckpointStore(tx).list_newest(task.id, wanted) if wanted else [],
        checkpoints_total=task.checkpoints,
        prior_tasks=prior,
        prior_total=prior_total,
        siblings=siblings,
        siblings_total=siblings_total,
        dependencies=[*completed, *pending],
        dependencies_total=pending_total + completed_total,
        blocked=task.status is TaskStatus.PENDING and pending_total > 0,
    )
