"""Lets a submitted step pass its reviews: those of a reviewer, or of the agent's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from deepwork.errors import DeepworkError
from deepwork.jobs.quality_gate import Outcome, Passed, SentBack, Submission, list_review_tasks
from deepwork.jobs.self_review import complete_verdicts, decide_outcome, to_result
from deepwork.jobs.sessions import state
from deepwork.jobs.sessions.state import Session, SessionEvent, format_now
from deepwork.jobs.sessions.state_manager import StateManager
from deepwork.jobs.step_outputs import StepOutputs
from deepwork.jobs.step_review import StepReviewService

if TYPE_CHECKING:
    from deepwork.jobs.inputs import ReviewVerdict


@dataclass(frozen=True)
class Submitted:
    """What an agent submits with a step, beside its identity."""

    outputs: list[StepOutputs]
    notes: str | None
    override: str | None
    verdicts: Sequence[ReviewVerdict]


class StepGate:
    """The reviews that a submitted step must pass. Without `service`, it needs none."""

    def __init__(self, service: StepReviewService | None, state: StateManager) -> None:
        self._service, self._state = service, state

    def review(self, session: Session, submitted: Submitted) -> tuple[Session, Outcome]:
        """Review the outputs, or accept the agent's own review of them."""
        service = self._service
        submission = (
            service.build_submission(session, submitted.outputs, submitted.notes) if service else None
        )
        if submitted.verdicts:
            session, own = self._record_self_review(session, submission, submitted)
            if not submitted.override and (
                isinstance(own, SentBack) or not (service and service.has_reviewer)
            ):
                return session, own
        if submitted.override:
            overridden = state.add_override(
                session, session.current_step_id, submitted.override, format_now()
            )
            return overridden, Passed(how="override")
        if service is None or submission is None:
            return session, Passed()
        return self._run_review(session, service, submission)

    def _run_review(
        self, session: Session, service: StepReviewService, submission: Submission
    ) -> tuple[Session, Outcome]:
        """Run the review; the attempt is saved before it, and taken back if the reviewer fails."""
        step_id = session.current_step_id
        attempted = self._state.save(state.add_attempt(session, step_id), SessionEvent.UPDATED)
        try:
            return attempted, service.review(attempted, submission)
        except DeepworkError:
            self._state.save(state.add_attempt(attempted, step_id, by=-1), SessionEvent.UPDATED)
            raise

    def _record_self_review(
        self, session: Session, submission: Submission | None, submitted: Submitted
    ) -> tuple[Session, Outcome]:
        """Record the agent's own review; one that failed is saved at once, because the step does not end."""
        tasks = list(list_review_tasks(submission)) if submission else []
        verdicts = complete_verdicts(tasks, [to_result(each) for each in submitted.verdicts])
        outcome = decide_outcome(verdicts)
        results, passed = tuple(asdict(each) for each in verdicts), isinstance(outcome, Passed)
        service = self._service
        # With a reviewer that the server runs, only that one's reviews are attempts.
        counts = service is None or not service.has_reviewer
        session = state.add_self_review(session, results, format_now(), passed=passed, counts=counts)
        if service:
            service.record_self_review(session, verdicts)
        return session if passed else self._state.save(session, SessionEvent.UPDATED), outcome
