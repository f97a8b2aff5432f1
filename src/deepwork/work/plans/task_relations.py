"""Loads the facts about tasks that are not in their rows: what they wait for, and who holds them."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.kernel.database.transaction import Transaction
from deepwork.work.plans.models import Task, TaskStatus
from deepwork.work.plans.responses import TaskRelations
from deepwork.work.plans.rules.levels import Levels
from deepwork.work.plans.stores.task_store import TaskStore

_MAX_DEPENDENCIES = 100
_MAX_DEPENDENCIES_IN_LIST = 10


def load_task_relations(tx: Transaction, tasks: Sequence[Task]) -> TaskRelations:
    """Load the facts about these tasks that are not in their rows."""
    store = TaskStore(tx)
    blocked, previous = _find_waiting(store, tasks)
    explicit = [task.id for task in tasks if task.is_explicit]
    most = _MAX_DEPENDENCIES if len(tasks) == 1 else _MAX_DEPENDENCIES_IN_LIST
    names = store.list_dependency_names(explicit, most)
    return TaskRelations(
        blocked=blocked,
        names=names,
        counts=store.count_dependencies([id for id in explicit if len(names.get(id, ())) == most]),
        holders=store.find_holders([task.id for task in tasks if task.claimed_by]),
        previous=previous,
    )


def _find_waiting(store: TaskStore, tasks: Sequence[Task]) -> tuple[set[str], dict[int, int | None]]:
    """Return which of these tasks wait for others, and the next lower sequence of each sequence."""
    pending = [task for task in tasks if task.status is TaskStatus.PENDING]
    if all(task.is_explicit for task in tasks):
        return {task.id for task in pending if task.open_dependencies}, {}
    if len(tasks) == 1:  # counting a whole plan takes longer than all other queries for one task
        [task] = tasks
        before, is_open = store.find_level_before(task)
        return {task.id for task in pending if is_open}, {task.sequence: before}
    levels = {id: Levels(store.count_by_status(id)) for id in {task.workflow_id for task in tasks}}
    previous = {sequence: before for level in levels.values() for sequence, before in level.previous.items()}
    return {task.id for task in pending if levels[task.workflow_id].is_blocked(task)}, previous
