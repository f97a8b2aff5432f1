"""Decisions of the job tools about a call, as pure functions."""

from __future__ import annotations

from deepwork.gates.reviews.round_trees import format_finding
from deepwork.gates.reviews.rounds import PersonReason, list_blocking
from deepwork.kernel.call import is_person
from deepwork.kernel.errors import Code, GateClosed, InvalidInput, NotAllowed
from deepwork.work.jobs.definitions.models import Job, JobWorkflow
from deepwork.work.jobs.sessions.state import Session, SessionStatus

_MAX_SHOWN_FINDINGS = 10


def was_ended_by_unseen_decision(session: Session) -> bool:
    """Whether a person let the last step pass, and the agent does not know of it yet."""
    return session.status is SessionStatus.COMPLETED and bool(session.unseen_decisions)


def build_gate_error(session: Session, feedback: str) -> GateClosed:
    """Build the answer to a report of a step about which only a person can decide."""
    progress = session.get_progress(session.current_step_id)
    reason = PersonReason(progress.person_reason or PersonReason.USED_UP)
    stall = " without progress" if reason is PersonReason.STALLED else ""
    if reason is PersonReason.BUDGET:
        return build_budget_error(session, feedback)
    is_broken = reason is PersonReason.REVIEWER_ERROR
    failed = f"Quality gate failed after {progress.quality_attempts} attempts{stall}. Feedback: {feedback}"
    return GateClosed(
        feedback if is_broken else failed,
        code=Code.REVIEWER_ERROR if is_broken else Code.REVIEW_FAILED,
        suggestion="It is not reviewed again until a person decides, with "
        f"`deepwork sessions pass {session.session_id}`, `send-back` or `grant-round`. Ask one.",
        evidence={"waiting_for": "person", "reason": reason.value, "findings": _list_open(session)},
    )


def build_budget_error(session: Session, feedback: str) -> GateClosed:
    """Build the answer to a report of a step that was sent back after it had used up its minutes."""
    return GateClosed(
        feedback,
        code=Code.BUDGET_USED_UP,
        suggestion="Stop working on it, and ask a person, who decides with "
        f"`deepwork sessions pass {session.session_id}`, `send-back` or `grant-round`; the last two give all "
        "steps their minutes again.",
        evidence={"waiting_for": "person", "reason": PersonReason.BUDGET.value},
    )


def require_open_budget(session: Session) -> None:
    """Raise if the current step waits for a person because its minutes are used up."""
    progress = session.get_progress(session.current_step_id)
    if progress.person_reason == PersonReason.BUDGET:
        raise build_budget_error(session, progress.gate_feedback or "")


def require_no_person_awaited(session: Session, caller: str) -> None:
    """Raise if an agent wants to begin a step again about which only a person can decide."""
    if session.get_progress(session.current_step_id).person_reason and not is_person(caller):
        raise NotAllowed(
            f"Step {session.current_step_id!r} waits for a person: it did not pass its gate.",
            suggestion=f"Ask one, who decides with `deepwork sessions pass {session.session_id}`, "
            "`send-back` or `grant-round`.",
        )


def _list_open(session: Session) -> list[str]:
    """List the findings that keep the current step from passing, on one line each."""
    last = {
        each.rule: each.round
        for each in session.review_rounds
        if each.step_id == session.current_step_id and not each.is_over
    }
    found = [format_finding(each) for round in last.values() for each in list_blocking(round)]
    return found[:_MAX_SHOWN_FINDINGS]


def build_reviewer_error(session: Session, message: str) -> GateClosed:
    """Build the answer to a report that the reviewer, even when asked twice, gave no verdict about."""
    if session.get_progress(session.current_step_id).person_reason:
        return build_gate_error(session, message)
    return GateClosed(
        message,
        code=Code.REVIEWER_ERROR,
        suggestion="This costs no round. Call {tool:finished_step} again, or ask a person, who decides with "
        f"`deepwork sessions pass {session.session_id}` or `send-back`.",
        evidence={"waiting_for": "person", "reason": PersonReason.REVIEWER_ERROR.value},
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


def require_override_allowed(allowed: str, caller: str) -> None:
    """Raise if an agent wants to let a step pass without its review, and only a person may."""
    if allowed == "person" and not is_person(caller):
        raise NotAllowed(
            "The settings of this project (quality_gate.override) let only a person skip a review.",
            suggestion="Call again without `quality_review_override_reason`. A person can pass the step with "
            "`deepwork sessions pass`.",
            recoverable=True,
        )
