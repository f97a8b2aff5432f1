"""What claims say to agents: errors, warnings, and why there is nothing to claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deepwork.kernel.errors import Code, Conflict, NotAllowed
from deepwork.work.plans.models import PlanStatus, RelatedTask, Task, TaskStatus, Workflow
from deepwork.work.plans.rules.file_overlaps import ActiveTask, list_shared_files

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
