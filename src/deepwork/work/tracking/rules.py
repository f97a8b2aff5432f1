"""Rules for tracked workflows, phases and tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.work.tracking.models import (
    CallerType,
    Phase,
    PhaseStatus,
    TaskCounts,
    TrackedTask,
    TrackedWorkflow,
    TrackedWorkflowStatus,
    TrackSize,
    WorkflowEnding,
)

PHASES_EXPECTED = {TrackSize.SIMPLE: 2, TrackSize.STANDARD: 3, TrackSize.COMPLEX: 4}
MAX_DEPTH = 8
_MAX_NAMED_CHILDREN = 5


def to_workflow_status(ending: WorkflowEnding) -> TrackedWorkflowStatus:
    """Return the status of a workflow that ended this way."""
    return (
        TrackedWorkflowStatus.COMPLETED
        if ending is WorkflowEnding.COMPLETED
        else TrackedWorkflowStatus.FAILED
    )


def get_visible_status(workflow: TrackedWorkflow, blockers: int) -> TrackedWorkflowStatus:
    """Return the status to show: blocked if a running workflow waits for a person."""
    is_blocked = blockers > 0 and workflow.status is TrackedWorkflowStatus.IN_PROGRESS
    return TrackedWorkflowStatus.BLOCKED if is_blocked else workflow.status


def require_open_workflow(workflow: TrackedWorkflow) -> None:
    """Raise NotAllowed if the workflow has ended."""
    if workflow.is_over:
        raise NotAllowed(
            f"Workflow {workflow.name!r} is {workflow.status}; nothing new can start in it.",
            suggestion="Start a new one with {tool:start_workflow}.",
        )


def require_open_phase(phase: Phase, workflow: TrackedWorkflow) -> None:
    """Raise an error if the phase belongs to another workflow or has ended."""
    if phase.workflow_id != workflow.id:
        raise InvalidInput(
            f"Phase {phase.id!r} belongs to workflow {phase.workflow_id}, not to {workflow.id}.",
            suggestion="Pass the phase_id that {tool:start_phase} returned for this workflow.",
        )
    if phase.status is not PhaseStatus.IN_PROGRESS:
        raise NotAllowed(
            f"Phase {phase.number} {phase.name!r} is {phase.status}; no task can start in it.",
            suggestion="Start another phase with {tool:start_phase}.",
        )


def require_agent_name(caller_type: CallerType, agent_name: str | None) -> None:
    """Raise InvalidInput if a subagent gives no name."""
    if caller_type is CallerType.SUBAGENT and not (agent_name or "").strip():
        raise InvalidInput(
            "`agent_name` is required when `caller_type` is subagent.", suggestion="Pass the agent's name."
        )


def require_parent(parent: TrackedTask, workflow: TrackedWorkflow, depth: int) -> None:
    """Raise an error if the parent has ended, belongs to another workflow, or is nested too deep."""
    if parent.workflow_id != workflow.id:
        raise InvalidInput(
            f"Parent task {parent.id!r} belongs to workflow {parent.workflow_id}, not to {workflow.id}."
        )
    if not parent.is_running:
        raise NotAllowed(
            f"Parent task {parent.name!r} is {parent.status}; no subtask can start below it.",
            suggestion="Omit `parent_task_id`, or pass a task that is in progress.",
        )
    if depth >= MAX_DEPTH:
        raise InvalidInput(
            f"Tasks can be nested at most {MAX_DEPTH} levels deep.", suggestion="Choose a parent higher up."
        )


def require_children_done(task: TrackedTask, children: Sequence[TrackedTask]) -> None:
    """Raise NotAllowed if subtasks are still running."""
    if children:
        names = ", ".join(f"{child.name!r} ({child.id})" for child in children[:_MAX_NAMED_CHILDREN])
        more = (
            f" and {len(children) - _MAX_NAMED_CHILDREN} more" if len(children) > _MAX_NAMED_CHILDREN else ""
        )
        raise NotAllowed(
            f"Task {task.name!r} has subtasks that are still in progress: {names}{more}.",
            suggestion="Complete them first; use {tool:abandon_task} for a subtask that nobody works "
            "on any more.",
        )


def list_phase_warnings(
    ending: PhaseStatus, counts: TaskCounts, blockers: int, lower_open: Sequence[int]
) -> Iterator[str]:
    """Yield warnings for the end of a phase."""
    if counts.in_progress:
        yield f"{counts.in_progress} task(s) still in progress"
    if ending is PhaseStatus.COMPLETED and counts.failed:
        yield f"{counts.failed} task(s) failed"
    if not counts.total:
        yield "It has no tasks"
    if blockers:
        yield f"{blockers} blocker(s) still open"
    if lower_open:
        yield f"Earlier phase(s) still open: {', '.join(map(str, lower_open))}"


def list_workflow_warnings(open_phases: int, open_tasks: int, blockers: int) -> Iterator[str]:
    """Yield warnings for the end of a workflow."""
    if open_phases:
        yield f"{open_phases} phase(s) still in progress"
    if open_tasks:
        yield f"{open_tasks} task(s) still in progress"
    if blockers:
        yield f"{blockers} blocker(s) still open"


def find_phase_differences(phase: Phase, name: str, description: str | None, is_parallel: bool) -> list[str]:
    """Return the parameters of a repeated start_phase that differ from the stored phase."""
    given = {"name": name, "description": description, "is_parallel": is_parallel}
    kept = {"name": phase.name, "description": phase.description, "is_parallel": phase.is_parallel}
    omitted = {"description"} if description is None else set()
    return [field for field in given if given[field] != kept[field] and field not in omitted]
