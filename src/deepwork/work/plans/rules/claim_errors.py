"""The errors of calls by agents that do not hold the task, or no longer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepwork.kernel.errors import Code, Conflict, NotAllowed
from deepwork.work.plans.models import Task, Workflow


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
