"""Decisions of the job tools about a call, as pure functions."""

from __future__ import annotations

from deepwork.errors import Code, InvalidInput, NotAllowed, ToolError
from deepwork.jobs.definitions.models import Job, JobWorkflow
from deepwork.jobs.sessions.state import Session, SessionStatus


def was_ended_by_unseen_decision(session: Session) -> bool:
    """Whether a person let the last step pass, and the agent does not know of it yet."""
    return session.status is SessionStatus.COMPLETED and bool(session.unseen_decisions)


def build_gate_error(session: Session, limit: int, feedback: str) -> ToolError:
    way_out = f"`deepwork sessions pass {session.session_id}`, `send-back` or `grant-round`"
    return ToolError(
        f"Quality gate failed after {limit} attempts. Feedback: {feedback}",
        code=Code.REVIEW_FAILED,
        recoverable=True,
        suggestion="Fix these problems and call {tool:finished_step} again, or ask a person, who decides "
        f"with {way_out}.",
    )


def select_workflow(job: Job, name: str) -> JobWorkflow:
    """Return the workflow of that name, or the only one of the job."""
    if not job.workflows:
        raise NotAllowed(f"Job {job.name!r} has no workflows.", suggestion="Add one to its job.yml.")
    workflow = job.find_workflow(name) or (job.workflows[0] if len(job.workflows) == 1 else None)
    names = ", ".join(each.name for each in job.workflows)
    if workflow is None:
        raise InvalidInput(
            f"Workflow {name!r} not found in job {job.name!r}. Its workflows: {names}.",
            suggestion="Call {tool:start_workflow} with one of these names.",
        )
    if not workflow.entries:
        raise NotAllowed(f"Workflow {workflow.name!r} of job {job.name!r} has no steps.")
    return workflow


def find_entry_index(session: Session, step_id: str) -> int:
    places = {step: place for place, entry in enumerate(session.entries) for step in entry.steps}
    if step_id not in places:
        raise InvalidInput(f"There is no step {step_id!r} in this workflow. Its steps: {', '.join(places)}.")
    if places[step_id] > session.current_entry_index:
        raise NotAllowed(
            f"Step {step_id!r} comes after the current step {session.current_step_id!r}.",
            suggestion="Finish the steps before it with {tool:finished_step}.",
        )
    return places[step_id]


def require_current_step(session: Session, step_id: str | None) -> None:
    if step_id and step_id != session.current_step_id:
        raise NotAllowed(
            f"Step {step_id!r} is not current; the session is at {session.current_step_id!r}.",
            suggestion="See {tool:get_session} for what the current step needs.",
        )
