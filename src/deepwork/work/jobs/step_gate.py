"""Lets a submitted step pass its reviews: those of a reviewer, or of the agent's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from deepwork.gates.reviews.rounds import DEFAULT_ROUNDS, PersonReason, find_person_reason
from deepwork.kernel.call import current_call
from deepwork.kernel.errors import DeepworkError, ReviewerError
from deepwork.work.jobs.failed_reviews import cut_feedback
from deepwork.work.jobs.quality_gate import (
    Outcome,
    Passed,
    ReviewResult,
    SentBack,
    Submission,
    list_review_tasks,
)
from deepwork.work.jobs.rules import build_gate_error, build_reviewer_error
from deepwork.work.jobs.self_review import complete_verdicts, decide_outcome, to_result
from deepwork.work.jobs.sessions import state
from deepwork.work.jobs.sessions.state import Session, SessionEvent, format_now
from deepwork.work.jobs.sessions.state_manager import StateManager
from deepwork.work.jobs.step_outputs import StepOutputs
from deepwork.work.jobs.step_review import StepReviewService
from deepwork.work.jobs.step_rounds import JudgedRound, may_ask_reviewer

if TYPE_CHECKING:
    from deepwork.work.jobs.inputs import ReviewVerdict


@dataclass(frozen=True)
class Submitted:
    """What an agent submits with a step, beside its identity."""

    outputs: list[StepOutputs]
    notes: str | None
    override: str | None
    verdicts: Sequence[ReviewVerdict]


class StepGate:
    """The reviews that a submitted step must pass. Without `service`, it needs none."""

    def __init__(
        self, service: StepReviewService | None, state: StateManager, max_rounds: int = DEFAULT_ROUNDS
    ) -> None:
        self._service, self._state, self._max_rounds = service, state, max_rounds

    def review(self, session: Session, submitted: Submitted) -> tuple[Session, Outcome]:
        """Review the outputs, or accept the agent's own review of them."""
        service = self._service
        submission = (
            service.build_submission(session, submitted.outputs, submitted.notes) if service else None
        )
        if submission and not submitted.override:
            _require_open_gate(session)
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
        attempted = self._state.save(
            state.add_attempt(session, session.current_step_id), SessionEvent.UPDATED
        )
        try:
            attempted = self._settle_disputes(attempted, service, submission)
            outcome = service.review(attempted, submission)
        except DeepworkError as error:
            self._take_attempt_back(attempted, submission, error)
            raise
        return self._record_outcome(attempted, outcome)

    def _settle_disputes(
        self, session: Session, service: StepReviewService, submission: Submission
    ) -> Session:
        """Let a second reviewer judge the findings that the author disputes, before the next round."""
        progress = session.get_progress(session.current_step_id)
        if not session.review_rounds or not (settled := service.judge_disputes(session, submission)):
            return session
        allowed = progress.allowed_rounds or self._max_rounds
        return self._state.save(
            state.add_rounds(session, settled, allowed, format_now()), SessionEvent.UPDATED
        )

    def _take_attempt_back(self, attempted: Session, submission: Submission, error: DeepworkError) -> None:
        """Count no round for a reviewer without a verdict; too many of them are a person's turn."""
        taken = state.add_attempt(attempted, attempted.current_step_id, by=-1)
        has_failed = isinstance(error, ReviewerError) and current_call().is_wanted()
        if has_failed:
            taken = state.add_reviewer_failure(taken)
            if not self._may_ask_again(taken, submission):
                taken = state.wait_for_person(taken, PersonReason.REVIEWER_ERROR, error.message)
        self._state.save(taken, SessionEvent.UPDATED)
        if has_failed:
            raise build_reviewer_error(taken, error.message) from error

    def _may_ask_again(self, session: Session, submission: Submission) -> bool:
        """Whether every reviewer of the current step may be asked once more."""
        return all(
            may_ask_reviewer(session, task.rule, task.review.build_policy(self._max_rounds))
            for task in list_review_tasks(submission)
        )

    def _record_outcome(self, session: Session, outcome: Outcome) -> tuple[Session, Outcome]:
        """Record the rounds; raise if a person must decide now."""
        if not outcome.rounds and isinstance(outcome, Passed):
            return session, outcome
        rounds = {each.rule: each.round for each in outcome.rounds}
        allowed = max((each.policy.rounds for each in outcome.rounds), default=self._max_rounds)
        recorded = state.add_rounds(session, rounds, allowed, format_now())
        if isinstance(outcome, Passed):
            return recorded, outcome
        reason = _find_reason(recorded, outcome, allowed)
        if reason is None:
            is_news = bool(rounds) or outcome.is_self_review
            return self._state.save(recorded, SessionEvent.UPDATED) if is_news else session, outcome
        feedback = cut_feedback(outcome.feedback)
        closed = self._state.save(state.wait_for_person(recorded, reason, feedback), SessionEvent.UPDATED)
        raise build_gate_error(closed, feedback)

    def _record_self_review(
        self, session: Session, submission: Submission | None, submitted: Submitted
    ) -> tuple[Session, Outcome]:
        """Record the agent's own review; one that failed is saved at once, because the step does not end."""
        tasks = list(list_review_tasks(submission)) if submission else []
        verdicts = complete_verdicts(tasks, [to_result(each) for each in submitted.verdicts])
        service = self._service
        # With a reviewer that the server runs, only that one's reviews are attempts and rounds.
        counts = service is None or not service.has_reviewer
        rounds: tuple[JudgedRound, ...] = ()
        if counts and service:
            verdicts, rounds = service.judge_self_review(session, tasks, verdicts)
        outcome = decide_outcome(verdicts, rounds)
        results, passed = tuple(map(_to_record, verdicts)), isinstance(outcome, Passed)
        session = state.add_self_review(session, results, format_now(), passed=passed, counts=counts)
        if service:
            service.record_self_review(session, verdicts)
        if submitted.override:
            return session, outcome
        return self._record_outcome(session, outcome)


def _require_open_gate(session: Session) -> None:
    """Raise if only a person can decide about the current step."""
    progress = session.get_progress(session.current_step_id)
    if progress.person_reason:
        raise build_gate_error(session, progress.gate_feedback or "")


def _find_reason(session: Session, outcome: SentBack, allowed: int) -> PersonReason | None:
    """Return why a person must decide about a step that was sent back; None if work goes on."""
    progress = session.get_progress(session.current_step_id)
    granted = progress.granted_attempts
    limited = [each for each in outcome.rounds if not outcome.is_self_review or _is_limited(each)]
    reasons = [find_person_reason(each.policy, each.rounds, granted) for each in limited]
    if found := next(filter(None, reasons), None):
        return found
    if outcome.is_self_review or outcome.asks_for_review:
        return None
    # A reviewer that gave no verdict at times was asked more often than it has rounds.
    can_continue = progress.quality_attempts < allowed + granted and all(
        each.round.passed or may_ask_reviewer(session, each.rule, each.policy) for each in outcome.rounds
    )
    return None if can_continue else PersonReason.USED_UP


def _is_limited(judged: JudgedRound) -> bool:
    """Whether an agent's own review has a limit: if its definition says so, or it reports findings."""
    return judged.policy.is_explicit or any(each.findings for each in judged.rounds)


def _to_record(result: ReviewResult) -> dict[str, Any]:
    """Convert a result as sessions store it; its findings are stored with the round."""
    return {name: value for name, value in asdict(result).items() if name != "findings"}
