"""Builds the actions that a page offers a person: an operation with its arguments filled in."""

from __future__ import annotations

from collections.abc import Iterable

from deepwork.kernel.answers import Act, Asked, offer
from deepwork.views.overview.session_rows import SessionRow
from deepwork.work.plans.models import PlanStatus, TaskStatus
from deepwork.work.plans.rules.transitions import TASK_TRANSITIONS, WORKFLOW_TRANSITIONS
from deepwork.work.tracking.models import TrackedTask, TrackedTaskStatus


def offer_abandon(task_id: str) -> Act:
    return offer("Abandon", "abandon_task", {"reason": "Why are you abandoning it?"}, task_id=task_id)


def offer_approve(task_id: str) -> Act:
    return _offer_verdict("Approve", "approved", "Your comment", task_id)


def offer_refuse(task_id: str) -> Act:
    return _offer_verdict("Refuse", "refused", "What must change?", task_id)


def list_review_actions(task_id: str) -> list[Act]:
    """List the verdicts on a task that asks for a review."""
    return [offer_approve(task_id), offer_refuse(task_id)]


def list_approval_actions(approval_id: str) -> list[Act]:
    """List the decisions about what waits for approval."""
    given, comment = {"approval_id": approval_id}, "Comment for the agent (optional)"
    asked = [Asked(name="comment", label=comment, optional=True)]
    why = [Asked(name="comment", label="What must change?")]
    return [
        Act(label="Approve", tool="give_approval", arguments=given, asks=asked),
        Act(label="Refuse", tool="refuse_approval", arguments=given, asks=why),
    ]


def offer_acknowledge(task_id: str) -> Act:
    return _offer_verdict("Acknowledge", "acknowledged", "What happens next?", task_id)


def _offer_verdict(label: str, verdict: str, question: str, task_id: str) -> Act:
    metadata = {"verdict": verdict}
    return offer(label, "log_milestone", {"message": question}, task_id=task_id, metadata=metadata)


def offer_release(task_id: str, agent_id: str) -> Act:
    return offer("Release", "task_release", task_id=task_id, agent_id=agent_id)


def list_session_actions(session: SessionRow) -> list[Act]:
    """List the actions on a job session: abort it, or decide about its step at the quality gate."""
    if session.status != "active":
        return []
    return [*(_list_gate_actions(session) if session.is_at_gate else ()), offer_abort(session.id)]


def _list_gate_actions(session: SessionRow) -> Iterable[Act]:
    # With the step: if the agent moves on meanwhile, the decision is refused, not applied to another step.
    where = {"session_id": session.id, "step_id": session.step_id}
    comment = Asked(name="comment", label="Comment for the agent (optional)", optional=True)
    text = Asked(name="text", label="What must the agent change?")
    step = session.step_id
    yield Act(label="Pass", tool="pass_step", arguments=where, asks=[comment], title=f"Pass step {step}")
    yield Act(
        label="Send back", tool="send_back_step", arguments=where, asks=[text], title=f"Send step {step} back"
    )
    yield offer("Grant a review", "grant_round", None, **where)


def offer_abort(session_id: str) -> Act:
    return offer(
        "Abort", "abort_workflow", {"explanation": "Why are you aborting it?"}, session_id=session_id
    )


_PLAN_LABELS = {PlanStatus.IN_PROGRESS: "Resume", PlanStatus.PAUSED: "Pause", PlanStatus.ABANDONED: "Abandon"}


def list_plan_actions(id: str, status: str) -> list[Act]:
    """List the status changes that a plan allows."""
    current = PlanStatus(status)
    moves = [each for each in WORKFLOW_TRANSITIONS[current] if each in _PLAN_LABELS]
    if current is PlanStatus.READY:  # a ready plan starts with its first task
        moves = [each for each in moves if each is not PlanStatus.IN_PROGRESS]
    return [
        offer(
            _PLAN_LABELS[move],
            "workflow_update_status",
            None if move is PlanStatus.IN_PROGRESS else {"reason": "Why?"},
            id=id,
            status=move.value,
        )
        for move in moves
    ]


def list_tracked_task_actions(task: TrackedTask, was_reviewed: bool) -> list[Act]:
    """List the actions on a tracked task: abandon while it runs, a verdict afterwards."""
    if task.is_running:
        return [offer_abandon(task.id)]
    if was_reviewed:
        return []
    if task.manual_review_needed:
        return list_review_actions(task.id)
    return [offer_acknowledge(task.id)] if task.status is not TrackedTaskStatus.SUCCESS else []


def list_planned_task_actions(id: str, status: str, holder: str | None) -> list[Act]:
    """List the actions on a planned task: release its claim, or change its status."""
    moves = TASK_TRANSITIONS[TaskStatus(status)]
    return [*_list_release_actions(id, holder), *_list_status_actions(id, moves, TaskStatus(status))]


def _list_release_actions(id: str, holder: str | None) -> Iterable[Act]:
    return [offer_release(id, holder)] if holder else []


def _list_status_actions(id: str, moves: Iterable[TaskStatus], current: TaskStatus) -> Iterable[Act]:
    if current is TaskStatus.FAILED and TaskStatus.PENDING in moves:
        yield offer("Try again", "task_update_status", id=id, status="pending")
        yield offer(
            "Try again with a hint",
            "task_update_status",
            {"outcome": "What should the next agent know?"},
            id=id,
            status="pending",
        )
    if TaskStatus.SKIPPED in moves:
        yield offer("Skip", "task_update_status", id=id, status="skipped")
    if TaskStatus.FAILED in moves and current.is_running:
        yield offer("Fail", "task_update_status", {"error": "What went wrong?"}, id=id, status="failed")


def list_workspace_actions(id: str) -> list[Act]:
    """List the ways to close an active workspace."""
    return [
        offer("Mark as merged", "workspace_update", id=id, status="merged"),
        offer("Abandon", "workspace_update", id=id, status="abandoned"),
    ]
