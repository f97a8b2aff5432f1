"""How often a task may fail before it waits for a person.

Only a reported failure counts. A claim that was released, or whose lease expired, says something about the
agent and nothing about the task: it is visible in `attempts`, which counts every start, and in the recovery
checkpoint of an expired lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.records import copy_with
from deepwork.work.plans.models import DEFAULT_MAX_ATTEMPTS, Task, TaskStatus

_AGAIN = (TaskStatus.PENDING, TaskStatus.PLANNING, TaskStatus.IN_PROGRESS)
_DECIDED_BY_PERSON = (*_AGAIN, TaskStatus.SKIPPED)


def get_max_attempts(plan: Mapping[str, Any] | None) -> int:
    """Return the limit of a plan, for tasks without their own."""
    return int((plan or {}).get("max_attempts") or DEFAULT_MAX_ATTEMPTS)


def describe_used_up_attempts(task: Task) -> str:
    """Describe why a task is not handed out."""
    times = "once" if task.failures == 1 else f"{task.failures} times"
    return (
        f"Task {task.name!r} failed {times} and has no attempts left; it waits for a person:"
        f" `deepwork tasks retry {task.id}`."
    )


def require_attempts_left(task: Task, wanted: TaskStatus) -> None:
    """Raise NotAllowed if a task that waits for a person is to be started, requeued or skipped."""
    if task.waits_for_person and wanted in _DECIDED_BY_PERSON:
        raise NotAllowed(
            describe_used_up_attempts(task),
            suggestion="Work on another task; {tool:workflow_next_tasks} lists what can start now. A person "
            "gives it new attempts, on the dashboard or with the command above, or skips it: "
            f"`deepwork tasks skip {task.id} --as-person`.",
            recoverable=True,
        )


def count_attempts(before: Task, after: Task, *, may_forget: bool) -> Task:
    """Count a failure; `may_forget`: whether this is who may give a task that failed new attempts."""
    if after.status is TaskStatus.FAILED and before.status is not TaskStatus.FAILED:
        return copy_with(after, failures=before.failures + 1)
    if may_forget and is_tried_again(before, after.status):
        return copy_with(after, failures=0)
    return after


def is_tried_again(task: Task, wanted: TaskStatus) -> bool:
    """Whether a task that failed is to be started or requeued."""
    return task.status is TaskStatus.FAILED and wanted in _AGAIN
