"""Allowed status transitions of tasks and workflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from deepwork.kernel.errors import Code, InvalidInput, NotAllowed
from deepwork.work.plans.models import PlanStatus, Task, TaskStatus, Workflow

TASK_TRANSITIONS: Mapping[TaskStatus, tuple[TaskStatus, ...]] = {
    TaskStatus.PENDING: (
        TaskStatus.PLANNING,
        TaskStatus.IN_PROGRESS,
        TaskStatus.COMPLETED,
        TaskStatus.FAILED,
        TaskStatus.SKIPPED,
    ),
    TaskStatus.PLANNING: (
        TaskStatus.PENDING,
        TaskStatus.IN_PROGRESS,
        TaskStatus.PAUSED,
        TaskStatus.COMPLETED,
        TaskStatus.FAILED,
        TaskStatus.SKIPPED,
    ),
    TaskStatus.IN_PROGRESS: (
        TaskStatus.PLANNING,
        TaskStatus.PAUSED,
        TaskStatus.COMPLETED,
        TaskStatus.FAILED,
        TaskStatus.SKIPPED,
    ),
    TaskStatus.PAUSED: (TaskStatus.PENDING, TaskStatus.IN_PROGRESS, TaskStatus.FAILED, TaskStatus.SKIPPED),
    TaskStatus.FAILED: (TaskStatus.PENDING, TaskStatus.PLANNING, TaskStatus.IN_PROGRESS, TaskStatus.SKIPPED),
    TaskStatus.COMPLETED: (),
    TaskStatus.SKIPPED: (),
}
"""Transitions a caller may request; `blocked` is missing because it is computed, never set."""

WORKFLOW_TRANSITIONS: Mapping[PlanStatus, tuple[PlanStatus, ...]] = {
    PlanStatus.PLANNING: (PlanStatus.READY, PlanStatus.ABANDONED),
    PlanStatus.READY: (PlanStatus.IN_PROGRESS, PlanStatus.PAUSED, PlanStatus.COMPLETED, PlanStatus.ABANDONED),
    PlanStatus.IN_PROGRESS: (
        PlanStatus.PAUSED,
        PlanStatus.COMPLETED,
        PlanStatus.FAILED,
        PlanStatus.ABANDONED,
    ),
    PlanStatus.PAUSED: (PlanStatus.IN_PROGRESS, PlanStatus.FAILED, PlanStatus.ABANDONED),
    PlanStatus.FAILED: (PlanStatus.IN_PROGRESS, PlanStatus.ABANDONED),
    PlanStatus.COMPLETED: (),
    PlanStatus.ABANDONED: (),
}
"""Transitions a caller may request; others follow from the tasks, see `derive_workflow_status`."""

_MAX_NAMED_DEPENDENCIES = 3


def check_task_transition(
    task: Task,
    wanted: TaskStatus,
    *,
    open_dependencies: Sequence[str],
    open_count: int,
    outcome: str | None,
    error: str | None,
) -> TaskStatus | None:
    """Return the new status, or None if the task already has it; raise an error if it is not allowed.

    `open_dependencies` names tasks it waits for (three suffice); `open_count` counts all of them.
    """
    if wanted is task.status:
        return None
    _require_task_transition(task, wanted)
    if open_count and _starts_task(task.status, wanted):
        raise _build_blocked_error(task, open_dependencies, open_count)
    if wanted is TaskStatus.COMPLETED:
        _require_text(task, outcome, "outcome", Code.MISSING_OUTCOME)
    if wanted is TaskStatus.FAILED:
        _require_text(task, error, "error", Code.MISSING_ERROR)
    return wanted


def check_workflow_transition(
    workflow: Workflow, wanted: PlanStatus, *, task_count: int, open_count: int, force: bool = False
) -> PlanStatus | None:
    """Return the new status, or None if the workflow already has it; raise an error if it is not allowed."""
    if wanted is workflow.status:
        return None
    if wanted not in WORKFLOW_TRANSITIONS[workflow.status]:
        raise _build_transition_error("workflow", workflow, wanted, WORKFLOW_TRANSITIONS[workflow.status])
    if wanted is PlanStatus.READY and not task_count:
        raise NotAllowed(
            f"Workflow {workflow.name!r} has no plan yet.",
            suggestion="Call {tool:workflow_set_plan}; that makes it ready.",
        )
    if wanted is PlanStatus.COMPLETED and open_count and not force:
        raise _build_unfinished_error(workflow, open_count)
    return wanted


def derive_workflow_status(status: PlanStatus, *, any_started: bool, all_done: bool) -> PlanStatus:
    """Derive a workflow's status from its tasks: the first started one starts it, the last completes it."""
    if status.is_final or status is PlanStatus.PLANNING:
        return status
    if all_done:
        return PlanStatus.COMPLETED
    if status is PlanStatus.READY and any_started:
        return PlanStatus.IN_PROGRESS
    return status


def derive_released_status(status: TaskStatus) -> TaskStatus:
    """Return the status of a task whose claim ended: a started task becomes pending again."""
    return TaskStatus.PENDING if status.is_running else status


def require_open(workflow: Workflow) -> None:
    """Raise an error if the workflow is over."""
    if workflow.status.is_final:
        raise NotAllowed(
            f"Workflow {workflow.name!r} is {workflow.status}; its tasks can no longer change.",
            suggestion="Create a new workflow for the remaining work.",
        )


def describe_pause(workflow: Workflow, pause: Mapping[str, Any] | None) -> str:
    """Describe who paused the workflow, and why; `pause` is None if that was not recorded."""
    if pause is None:
        return f"Workflow {workflow.name!r} is paused."
    reason = f" ({pause['reason']})" if pause["reason"] else ""
    return f"Workflow {workflow.name!r} was paused by {pause['by_whom']}{reason}."


def build_paused_error(task: Task, workflow: Workflow, pause: Mapping[str, Any] | None) -> NotAllowed:
    """Build the error for starting a task of a paused workflow."""
    return NotAllowed(
        f"{describe_pause(workflow, pause)} Task {task.name!r} cannot be started or continued now.",
        suggestion="Record what you have with {tool:checkpoint_add}, and stop until the workflow is resumed; "
        "finished work can still be reported as completed or failed.",
        recoverable=True,
    )


def _require_task_transition(task: Task, wanted: TaskStatus) -> None:
    allowed = TASK_TRANSITIONS[task.status]
    if wanted is TaskStatus.BLOCKED:
        raise NotAllowed(
            f"Task {task.name!r} cannot be set to 'blocked': that is computed from the tasks it waits for.",
            code=Code.INVALID_TRANSITION,
            suggestion=_format_choices(task.status, allowed),
        )
    if wanted not in allowed:
        raise _build_transition_error("task", task, wanted, allowed)


def _starts_task(current: TaskStatus, wanted: TaskStatus) -> bool:
    """Whether the transition starts the task; skipping or requeueing it does not."""
    return current.can_start and wanted not in (TaskStatus.SKIPPED, TaskStatus.PENDING)


def _build_blocked_error(task: Task, open_dependencies: Sequence[str], open_count: int) -> NotAllowed:
    named = [repr(name) for name in open_dependencies[:_MAX_NAMED_DEPENDENCIES]]
    more = open_count - len(named)
    waits_for = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    return NotAllowed(
        f"Task {task.name!r} waits for {waits_for}.",
        code=Code.TASK_BLOCKED,
        suggestion="Complete or skip these first; {tool:workflow_next_tasks} lists what can start now.",
        recoverable=True,
    )


def _require_text(task: Task, text: str | None, parameter: str, code: Code) -> None:
    if text is None or not text.strip():
        raise InvalidInput(
            f"Task {task.name!r} needs `{parameter}` to get this status.",
            code=code,
            suggestion=f"Call again with `{parameter}`: a sentence or two for the agent that continues.",
        )


def _build_unfinished_error(workflow: Workflow, open_count: int) -> NotAllowed:
    left = "1 task is" if open_count == 1 else f"{open_count} tasks are"
    return NotAllowed(
        f"Workflow {workflow.name!r} cannot be completed: {left} not done.",
        suggestion="Complete or skip the open tasks, or call again with `force: true` to complete it anyway.",
        recoverable=True,
    )


def _build_transition_error(
    kind: str, it: Task | Workflow, wanted: StrEnum, allowed: Sequence[StrEnum]
) -> NotAllowed:
    return NotAllowed(
        f"The {kind} {it.name!r} is {it.status} and cannot become {wanted}.",
        code=Code.INVALID_TRANSITION,
        suggestion=_format_choices(it.status, allowed),
    )


def _format_choices(current: StrEnum, allowed: Sequence[StrEnum]) -> str:
    if not allowed:
        return f"Status '{current}' is final."
    return f"From '{current}' it can change to: {', '.join(allowed)}."
