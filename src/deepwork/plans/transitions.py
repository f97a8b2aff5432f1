"""Which status may follow which, for tasks and for the workflows they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from deepwork.errors import Code, InvalidInput, NotAllowed
from deepwork.plans.models import Task, TaskStatus, Workflow, WorkflowStatus

TASK_MOVES: Mapping[TaskStatus, tuple[TaskStatus, ...]] = {
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
    TaskStatus.IN_PROGRESS: (TaskStatus.PAUSED, TaskStatus.COMPLETED, TaskStatus.FAILED),
    TaskStatus.PAUSED: (
        TaskStatus.PENDING,
        TaskStatus.IN_PROGRESS,
        TaskStatus.FAILED,
        TaskStatus.SKIPPED,
    ),
    TaskStatus.FAILED: (
        TaskStatus.PENDING,
        TaskStatus.PLANNING,
        TaskStatus.IN_PROGRESS,
        TaskStatus.SKIPPED,
    ),
    TaskStatus.COMPLETED: (),
    TaskStatus.SKIPPED: (),
}
"""What a caller may make of a task; `blocked` is in neither column, as it is computed."""

WORKFLOW_MOVES: Mapping[WorkflowStatus, tuple[WorkflowStatus, ...]] = {
    WorkflowStatus.PLANNING: (WorkflowStatus.READY, WorkflowStatus.ABANDONED),
    WorkflowStatus.READY: (
        WorkflowStatus.IN_PROGRESS,
        WorkflowStatus.PAUSED,
        WorkflowStatus.COMPLETED,
        WorkflowStatus.ABANDONED,
    ),
    WorkflowStatus.IN_PROGRESS: (
        WorkflowStatus.PAUSED,
        WorkflowStatus.COMPLETED,
        WorkflowStatus.FAILED,
        WorkflowStatus.ABANDONED,
    ),
    WorkflowStatus.PAUSED: (
        WorkflowStatus.IN_PROGRESS,
        WorkflowStatus.FAILED,
        WorkflowStatus.ABANDONED,
    ),
    WorkflowStatus.FAILED: (WorkflowStatus.IN_PROGRESS, WorkflowStatus.ABANDONED),
    WorkflowStatus.COMPLETED: (),
    WorkflowStatus.ABANDONED: (),
}
"""What a caller may make of a workflow; more than that happens by itself, see `workflow_after`."""

_NAMED_DEPENDENCIES = 3


def next_task_status(
    task: Task,
    wanted: TaskStatus,
    *,
    open_dependencies: Sequence[str],
    open_count: int,
    outcome: str | None,
    error: str | None,
) -> TaskStatus | None:
    """What the task becomes, or None if it is that already; refuses what the rules forbid.

    `open_dependencies` are names of what it waits for, the first three suffice; `open_count` counts them all.
    """
    if wanted is task.status:
        return None
    _require_task_move(task, wanted)
    if open_count and _needs_to_be_unblocked(task.status, wanted):
        raise _blocked(task, open_dependencies, open_count)
    if wanted is TaskStatus.COMPLETED:
        _require_text(task, outcome, "outcome", Code.MISSING_OUTCOME)
    if wanted is TaskStatus.FAILED:
        _require_text(task, error, "error", Code.MISSING_ERROR)
    return wanted


def next_workflow_status(
    workflow: Workflow,
    wanted: WorkflowStatus,
    *,
    task_count: int,
    open_count: int,
    force: bool = False,
) -> WorkflowStatus | None:
    """What the workflow becomes, or None if it is that already; refuses what the rules forbid."""
    if wanted is workflow.status:
        return None
    if wanted not in WORKFLOW_MOVES[workflow.status]:
        raise _illegal("workflow", workflow, wanted, WORKFLOW_MOVES[workflow.status])
    if wanted is WorkflowStatus.READY and not task_count:
        raise NotAllowed(
            f"Workflow {workflow.name!r} has no plan yet.",
            suggestion="Call workflow_set_plan; that makes it ready.",
        )
    if wanted is WorkflowStatus.COMPLETED and open_count and not force:
        raise _unfinished(workflow, open_count)
    return wanted


def workflow_after(status: WorkflowStatus, *, any_begun: bool, all_done: bool) -> WorkflowStatus:
    """What its tasks make of a workflow: the first begun starts it, the last done completes it."""
    if status.is_final or status is WorkflowStatus.PLANNING:
        return status
    if all_done:
        return WorkflowStatus.COMPLETED
    if status is WorkflowStatus.READY and any_begun:
        return WorkflowStatus.IN_PROGRESS
    return status


def status_after_release(status: TaskStatus) -> TaskStatus:
    """What a task becomes when nobody holds it any more: what was begun is to be begun again."""
    return TaskStatus.PENDING if status.is_running else status


def require_open(workflow: Workflow) -> None:
    """Refuse to change tasks of a workflow that is over."""
    if workflow.status.is_final:
        raise NotAllowed(
            f"Workflow {workflow.name!r} is {workflow.status}; its tasks do not change any more.",
            suggestion="Create a new workflow for what is left to do.",
        )


def _require_task_move(task: Task, wanted: TaskStatus) -> None:
    allowed = TASK_MOVES[task.status]
    if wanted is TaskStatus.BLOCKED:
        raise NotAllowed(
            f"Task {task.name!r} cannot be set to 'blocked': that is computed from the tasks it waits for.",
            code=Code.INVALID_TRANSITION,
            suggestion=_choices(task.status, allowed),
        )
    if wanted not in allowed:
        raise _illegal("task", task, wanted, allowed)


def _needs_to_be_unblocked(current: TaskStatus, wanted: TaskStatus) -> bool:
    """Whether this begins the task; to skip it or to put it back in the queue does not."""
    return current.can_start and wanted not in (TaskStatus.SKIPPED, TaskStatus.PENDING)


def _blocked(task: Task, open_dependencies: Sequence[str], open_count: int) -> NotAllowed:
    named = [repr(name) for name in open_dependencies[:_NAMED_DEPENDENCIES]]
    more = open_count - len(named)
    waits_for = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    return NotAllowed(
        f"Task {task.name!r} waits for {waits_for}.",
        code=Code.TASK_BLOCKED,
        suggestion="Complete or skip these first; workflow_next_tasks tells what can start now.",
        recoverable=True,
    )


def _require_text(task: Task, text: str | None, parameter: str, code: Code) -> None:
    if text is None or not text.strip():
        raise InvalidInput(
            f"Task {task.name!r} needs `{parameter}` to get this status.",
            code=code,
            suggestion=f"Call again with `{parameter}`: a sentence or two for whoever goes on from here.",
        )


def _unfinished(workflow: Workflow, open_count: int) -> NotAllowed:
    left = "1 task is" if open_count == 1 else f"{open_count} tasks are"
    return NotAllowed(
        f"Workflow {workflow.name!r} cannot be completed: {left} not done.",
        suggestion="Complete or skip what is left, or call again with `force: true` to complete it as it is.",
        recoverable=True,
    )


def _illegal(kind: str, it: Task | Workflow, wanted: StrEnum, allowed: Sequence[StrEnum]) -> NotAllowed:
    return NotAllowed(
        f"The {kind} {it.name!r} is {it.status} and cannot become {wanted}.",
        code=Code.INVALID_TRANSITION,
        suggestion=_choices(it.status, allowed),
    )


def _choices(current: StrEnum, allowed: Sequence[StrEnum]) -> str:
    if not allowed:
        return f"{current!s} is final: nothing follows it."
    return f"From '{current}' it can go to: {', '.join(allowed)}."
