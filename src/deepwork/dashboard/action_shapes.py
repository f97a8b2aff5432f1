"""What a person can do about something, ready to be sent to a tool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deepwork.plans.models import TaskStatus, WorkflowStatus
from deepwork.plans.transitions import TASK_MOVES, WORKFLOW_MOVES
from deepwork.shapes import Answer
from deepwork.tracking.models import Task
from deepwork.tracking.models import TaskStatus as TrackedStatus


class Asked(Answer):
    """An argument that the person is asked for."""

    name: str
    label: str


class Act(Answer):
    """One thing to do: the tool, and all its arguments but those that are asked for."""

    label: str
    tool: str
    arguments: dict[str, Any]
    asks: list[Asked] | None = None


def _act(label: str, tool: str, asks: dict[str, str] | None = None, **arguments: Any) -> Act:
    asked = [Asked(name=name, label=said) for name, said in (asks or {}).items()]
    return Act(label=label, tool=tool, arguments=arguments, asks=asked or None)


def resolve(issue_id: str) -> Act:
    return _act("Resolve", "resolve_issue", {"note": "How was it resolved?"}, issue_id=issue_id)


def abandon(task_id: str) -> Act:
    return _act("Abandon", "abandon_task", {"reason": "Why is it given up?"}, task_id=task_id)


def approve(task_id: str) -> Act:
    return _seen("Approve", "approved", "What do you say to it?", task_id)


def acknowledge(task_id: str) -> Act:
    return _seen("Acknowledge", "acknowledged", "What becomes of it?", task_id)


def _seen(label: str, verdict: str, question: str, task_id: str) -> Act:
    about = {"verdict": verdict}
    return _act(label, "log_milestone", {"message": question}, task_id=task_id, metadata=about)


def release(task_id: str, agent_id: str) -> Act:
    return _act("Release", "task_release", task_id=task_id, agent_id=agent_id)


def abort(session_id: str) -> Act:
    return _act("Abort", "abort_workflow", {"explanation": "Why is it aborted?"}, session_id=session_id)


def write_to(agent_id: str) -> Act:
    return _act(
        "Write", "message_send", {"body": "What do you want to say?"}, recipient_id=agent_id,
        message_type="notification",
    )  # fmt: skip


_PLAN_LABELS = {
    WorkflowStatus.IN_PROGRESS: "Resume",
    WorkflowStatus.PAUSED: "Pause",
    WorkflowStatus.ABANDONED: "Abandon",
}


def of_plan(id: str, status: str) -> list[Act]:
    """What can be made of a plan."""
    current = WorkflowStatus(status)
    moves = [each for each in WORKFLOW_MOVES[current] if each in _PLAN_LABELS]
    if current is WorkflowStatus.READY:  # it begins by itself with its first task
        moves = [each for each in moves if each is not WorkflowStatus.IN_PROGRESS]
    return [
        _act(
            _PLAN_LABELS[move], "workflow_update_status",
            None if move is WorkflowStatus.IN_PROGRESS else {"reason": "Why?"}, id=id, status=move.value,
        )
        for move in moves
    ]  # fmt: skip


def of_tracked_task(task: Task, was_seen: bool) -> list[Act]:
    """What can be made of a tracked task; of one that is over, a person may say that it was looked at."""
    if task.is_running:
        return [abandon(task.id)]
    if was_seen:
        return []
    if task.outcome.get("manual_review_needed"):
        return [approve(task.id)]
    return [acknowledge(task.id)] if task.status is not TrackedStatus.SUCCESS else []


def of_planned_task(id: str, status: str, holder: str | None) -> list[Act]:
    """What can be made of a task of a plan."""
    moves = TASK_MOVES[TaskStatus(status)]
    return [*_released(id, holder), *_moved(id, moves, TaskStatus(status))]


def _released(id: str, holder: str | None) -> Iterable[Act]:
    return [release(id, holder)] if holder else []


def _moved(id: str, moves: Iterable[TaskStatus], current: TaskStatus) -> Iterable[Act]:
    if current is TaskStatus.FAILED and TaskStatus.PENDING in moves:
        yield _act("Try again", "task_update_status", id=id, status="pending")
    if TaskStatus.SKIPPED in moves:
        yield _act("Skip", "task_update_status", id=id, status="skipped")
    if TaskStatus.FAILED in moves and current.is_running:
        yield _act("Fail", "task_update_status", {"error": "What went wrong?"}, id=id, status="failed")


def of_workspace(id: str) -> list[Act]:
    """What can be made of an active workspace."""
    return [
        _act("Merged", "workspace_update", id=id, status="merged"),
        _act("Abandon", "workspace_update", id=id, status="abandoned"),
    ]
