"""Which status may follow which, who may change it, and why a claim is refused.

Only a reported failure counts. A claim that was released, or whose lease expired, says something about the
agent and nothing about the task: it is visible in `attempts`, which counts every start, and in the
recovery checkpoint of an expired lease.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from deepwork.kernel.errors import Code, Conflict, InvalidInput, NotAllowed
from deepwork.kernel.values import copy_with, measure_duration
from deepwork.work.plans.models import (
    DEFAULT_MAX_ATTEMPTS,
    PlanStatus,
    RelatedTask,
    Task,
    TaskStatus,
    Workflow,
)
from deepwork.work.plans.rules.levels import ActiveTask, list_shared_files

MAX_NAMED = 3
"""How many tasks and files an answer names."""


def build_held_error(task: Task, holder: str | None, agent_id: str | None) -> NotAllowed:
    """Build the error for a task that another agent holds."""
    if agent_id is None:
        return NotAllowed(
            f"Task {task.name!r} is held by agent {holder!r}, and this call names no agent.",
            code=Code.NOT_ASSIGNED,
            suggestion="If you are its holder, pass agent_id: without it, a call acts as the one agent "
            "registered over the same connection, and there is none or more than one. At a shell, pass "
            "--agent-id, or --as-person to change the task yourself.",
            recoverable=True,
        )
    return NotAllowed(
        f"Task {task.name!r} is held by agent {holder!r}, not by {agent_id!r}.",
        code=Code.NOT_ASSIGNED,
        suggestion="Only the holder can change or release it; contact the holder with {tool:message_send}.",
    )


def build_released_error(task: Task, change: Mapping[str, Any] | None, agent_id: str | None) -> NotAllowed:
    """Build the error for a claim that ended; `change` is the last entry of the task's history."""
    ended = f"This claim on task {task.name!r} was released"
    if change is not None and change["what"] != "claimed":
        if agent_id is not None and change["by_whom"] == agent_id:
            ended = f"You released your claim on task {task.name!r}{_describe_reason(change)}"
        else:
            ended += _describe_author(change)
    return NotAllowed(
        f"{ended}; the task is {task.status}, and nobody holds it.",
        code=Code.NOT_ASSIGNED,
        suggestion="Stop working on it, or claim it again with {tool:task_claim}; record what you did with "
        "{tool:checkpoint_add}.",
        recoverable=True,
    )


def build_ended_plan_error(workflow: Workflow, task: Task, change: Mapping[str, Any] | None) -> NotAllowed:
    """Build the error for a claim that ended with its plan; `change` says who ended the plan, and why."""
    by = "" if change is None else _describe_author(change)
    return NotAllowed(
        f"Workflow {workflow.name!r} was set to {workflow.status}{by}; that ended this claim on task "
        f"{task.name!r}, which can no longer change.",
        code=Code.NOT_ASSIGNED,
        suggestion="Stop working on it, and record what you did with {tool:checkpoint_add}.",
    )


def build_stale_claim_error(task: Task, holder: str | None) -> Conflict:
    """Build the error for a claim that passed to another agent."""
    now_with = f"agent {holder!r} holds it" if holder else "nobody holds it"
    return Conflict(
        f"This claim on task {task.name!r} is no longer valid; {now_with} now.",
        suggestion="Stop working on it; find another with {tool:task_get_available} and claim it "
        "with {tool:task_claim}.",
    )


def _describe_author(change: Mapping[str, Any]) -> str:
    return f" by {change['by_whom']}{_describe_reason(change)}"


def _describe_reason(change: Mapping[str, Any]) -> str:
    reason = change["reason"]
    return f" ({reason})" if reason and reason != "released" else ""


def list_warnings(task: Task, conflicts: Sequence[ActiveTask]) -> Iterator[str]:
    """List what an agent should know before it works on the task."""
    if conflicts:
        theirs = tuple(name for other in conflicts for name in other.files)
        shared = list_shared_files(task.files, theirs)
        names = format_names(conflicts, len(conflicts))
        yield f"Its files overlap with those of {names}: {_format_first(shared)}."
    if task.status.is_running:
        yield f"It was {task.status} without a claim: someone may be working on it."


def format_names(tasks: Sequence[RelatedTask | ActiveTask], count: int) -> str:
    """Name the first tasks, and count the others."""
    return _format_first([repr(task.name) for task in tasks[:MAX_NAMED]], count)


def _format_first(names: Sequence[str], count: int | None = None) -> str:
    more = (len(names) if count is None else count) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def explain_no_tasks(
    status: PlanStatus,
    by_status: Mapping[TaskStatus, int],
    running: Sequence[tuple[str, str | None]],
    running_count: int,
) -> str:
    """Explain why there is nothing to claim; `running` has the first running tasks and their holders."""
    if status is PlanStatus.PLANNING:
        return "The workflow has no plan yet; set it with workflow_set_plan."
    if not status.hands_out_tasks:
        return f"The workflow is {status}; its tasks cannot be claimed."
    failed, blocked = by_status[TaskStatus.FAILED], by_status[TaskStatus.BLOCKED]
    if running_count:
        waiting = f"{_count_tasks(blocked)} for" if blocked else "No other task is left;"
        return f"{waiting} {_format_running(running, running_count)}. wait_seconds waits for a change."
    if failed:
        return (
            f"{failed} failed and not offered again: include_failed offers those with attempts left, "
            "the others wait for a person."
        )
    return "All tasks are done."


def _count_tasks(blocked: int) -> str:
    return "1 task waits" if blocked == 1 else f"{blocked} tasks wait"


def _format_running(running: Sequence[tuple[str, str | None]], count: int) -> str:
    named = ", ".join(f"{name!r} (held by {holder})" if holder else repr(name) for name, holder in running)
    more = count - len(running)
    return named + (f" and {more} more" if more else "")


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

_AGAIN = (TaskStatus.PENDING, TaskStatus.PLANNING, TaskStatus.IN_PROGRESS)
_DECIDED_BY_PERSON = (*_AGAIN, TaskStatus.SKIPPED)


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
