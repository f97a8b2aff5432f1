"""What may happen to tracked workflows, phases and tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deepwork.errors import InvalidInput, NotAllowed
from deepwork.tracking.models import (
    CallerType,
    Ending,
    Phase,
    PhaseStatus,
    Profile,
    Tally,
    Task,
    Workflow,
    WorkflowStatus,
)

PHASES_EXPECTED = {Profile.SIMPLE: 2, Profile.STANDARD: 3, Profile.COMPLEX: 4}
MAX_DEPTH = 8
_NAMED = 5


def status_of(ending: Ending) -> WorkflowStatus:
    """What a workflow that ended so reads as."""
    return WorkflowStatus.COMPLETED if ending is Ending.COMPLETED else WorkflowStatus.FAILED


def shown_status(workflow: Workflow, blockers: int) -> WorkflowStatus:
    """A workflow that waits for a person reads as blocked."""
    is_blocked = blockers > 0 and workflow.status is WorkflowStatus.IN_PROGRESS
    return WorkflowStatus.BLOCKED if is_blocked else workflow.status


def require_under_way(workflow: Workflow) -> None:
    """Refuse new work in a workflow that is over."""
    if workflow.is_over:
        raise NotAllowed(
            f"Workflow {workflow.name!r} is {workflow.status}; nothing new is begun in it.",
            suggestion="Start a new one with start_workflow.",
        )


def require_open_phase(phase: Phase, workflow: Workflow) -> None:
    """Refuse a task in a phase of another workflow, or in one that is over."""
    if phase.workflow_id != workflow.id:
        raise InvalidInput(
            f"Phase {phase.id!r} belongs to workflow {phase.workflow_id}, not to {workflow.id}.",
            suggestion="Give the phase_id that start_phase answered for this workflow.",
        )
    if phase.status is not PhaseStatus.IN_PROGRESS:
        raise NotAllowed(
            f"Phase {phase.number} {phase.name!r} is {phase.status}; no task is begun in it.",
            suggestion="Start another phase with start_phase.",
        )


def require_agent_name(caller_type: CallerType, agent_name: str | None) -> None:
    """A subagent says who it is."""
    if caller_type is CallerType.SUBAGENT and not (agent_name or "").strip():
        raise InvalidInput(
            "`agent_name` is needed when `caller_type` is subagent.", suggestion="Say which agent it is."
        )


def require_parent(parent: Task, workflow: Workflow, depth: int) -> None:
    """Refuse a parent that is over, of another workflow, or too deep already."""
    if parent.workflow_id != workflow.id:
        raise InvalidInput(
            f"Parent task {parent.id!r} belongs to workflow {parent.workflow_id}, not to {workflow.id}."
        )
    if not parent.is_running:
        raise NotAllowed(
            f"Parent task {parent.name!r} is {parent.status}; nothing is begun below it.",
            suggestion="Leave `parent_task_id` out, or name a task that is in progress.",
        )
    if depth >= MAX_DEPTH:
        raise InvalidInput(
            f"Tasks are nested {MAX_DEPTH} levels deep at most.", suggestion="Name a parent further up."
        )


def require_children_done(task: Task, children: Sequence[Task]) -> None:
    """A task ends after those below it."""
    if children:
        names = ", ".join(f"{child.name!r} ({child.id})" for child in children[:_NAMED])
        more = f" and {len(children) - _NAMED} more" if len(children) > _NAMED else ""
        raise NotAllowed(
            f"Task {task.name!r} has tasks below it that are still in progress: {names}{more}.",
            suggestion="Complete them first; abandon_task ends one that nobody works on any more.",
        )


def phase_warnings(
    ending: PhaseStatus, tally: Tally, blockers: int, lower_open: Sequence[int]
) -> Iterator[str]:
    """What whoever ends a phase should know."""
    if tally.in_progress:
        yield f"{tally.in_progress} task(s) still in progress"
    if ending is PhaseStatus.COMPLETED and tally.failed:
        yield f"{tally.failed} task(s) failed"
    if not tally.total:
        yield "No task was done in it"
    if blockers:
        yield f"{blockers} blocker(s) still open"
    if lower_open:
        yield f"Phase {', '.join(map(str, lower_open))} before it is still open"


def workflow_warnings(open_phases: int, open_tasks: int, blockers: int) -> Iterator[str]:
    """What whoever ends a workflow should know."""
    if open_phases:
        yield f"{open_phases} phase(s) still in progress"
    if open_tasks:
        yield f"{open_tasks} task(s) still in progress"
    if blockers:
        yield f"{blockers} blocker(s) still open"


def phase_changes(phase: Phase, name: str, description: str | None, is_parallel: bool) -> list[str]:
    """Which values of a repeated start_phase are not those that are kept."""
    given = {"name": name, "description": description, "is_parallel": is_parallel}
    kept = {"name": phase.name, "description": phase.description, "is_parallel": phase.is_parallel}
    unsaid = {"description"} if description is None else set()
    return [field for field in given if given[field] != kept[field] and field not in unsaid]
