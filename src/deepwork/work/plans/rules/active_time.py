"""How long a task is active, in other words claimed or running: what limits of minutes count."""

from __future__ import annotations

from deepwork.kernel.records import copy_with
from deepwork.kernel.timestamps import measure_duration
from deepwork.work.plans.models import Task, TaskStatus


def is_active(task: Task) -> bool:
    """Whether time passes for the task: an agent holds it, or it was started by a caller without an agent."""
    is_worked_on = task.status in (TaskStatus.PLANNING, TaskStatus.IN_PROGRESS)
    return task.waits_for is None and (task.claimed_by is not None or is_worked_on)


def count_active_time(before: Task, after: Task, now: int) -> Task:
    """Return the task with its clock started or stopped, if the change did that."""
    if is_active(after):
        return after if after.active_since is not None else copy_with(after, active_since=now)
    if before.active_since is None:
        return after
    spent = measure_duration(before.active_since, now)
    return copy_with(after, active_since=None, active_ms=before.active_ms + spent)


def measure_active_time(task: Task, now: int) -> int:
    """Return how long the task has been active so far, in milliseconds."""
    running = 0 if task.active_since is None else measure_duration(task.active_since, now)
    return task.active_ms + running
