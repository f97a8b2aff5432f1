"""Lets a submitted step pass its reviews: those of a reviewer, or of the agent's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from deepwork.gates.reviews.rounds import DEFAULT_ROUNDS, PersonReason, find_person_reason, read_findings
from deepwork.kernel.call import current_call
from deepwork.kernel.errors import DeepworkError, ReviewerError
from deepwork.kernel.records import dataclass
from deepwork.work.jobs.quality_gate import (
    CriterionResult,
    Outcome,
    Passed,
    ReviewResult,
    ReviewTask,
    SentBack,
    Submission,
    find_unjudged,
    list_review_tasks,
)
from deepwork.work.jobs.rules import build_gate_error, build_reviewer_error
from deepwork.work.jobs.sessions import state
from deepwork.work.jobs.sessions.state import Session, SessionEvent, format_now
from deepwork.work.jobs.sessions.state_manager import StateManager
from deepwork.work.jobs.step_outputs import StepOutputs, cut_feedback
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


def to_result(verdict: ReviewVerdict) -> ReviewResult:
    """Convert a verdict that the agent submitted."""
    given = verdict.model_dump()
    criteria = tuple(CriterionResult(**each) for each in given.pop("criteria_results"))
    findings = read_findings(given.pop("findings"))
    return ReviewResult(
        **given | {"feedback": verdict.feedback or "", "criteria_results": criteria, "findings": findings}
    )


def complete_verdicts(tasks: Sequence[ReviewTask], given: Sequence[ReviewResult]) -> tuple[ReviewResult, ...]:
    """Return a result for every review: what was not judged has failed. Verdicts of no review are kept."""
    places = _group_by_review(given)
    files = _find_files(tasks)
    taken: set[int] = set()
    completed = []
    for task in tasks:
        kind = task.review.run_each
        # The file may be left out if there is only one.
        found = places.of_kind(kind) if len(files[kind]) == 1 else places.of_file(kind, task.target_file)
        taken.update(found)
        completed.append(_complete(task, [given[place] for place in found]))
    others = [each for place, each in enumerate(given) if place not in taken]
    return (*completed, *map(_check_criteria, others))


def decide_outcome(verdicts: Iterable[ReviewResult], rounds: tuple[JudgedRound, ...] = ()) -> Outcome:
    """Decide whether the step passed."""
    failed = tuple(each for each in verdicts if not each.passed)
    if not failed:
        return Passed(how="self_review", rounds=rounds)
    return SentBack("; ".join(map(_format_feedback, failed)), failed, is_self_review=True, rounds=rounds)


class _VerdictPlaces:
    """Where the verdicts of a review are, so that no review has to search all verdicts."""

    def __init__(self) -> None:
        self._by_kind: dict[str, list[int]] = {}
        self._by_file: dict[tuple[str, str | None], list[int]] = {}

    def add(self, place: int, verdict: ReviewResult) -> None:
        self._by_kind.setdefault(verdict.review_run_each, []).append(place)
        self._by_file.setdefault((verdict.review_run_each, verdict.target_file), []).append(place)

    def of_kind(self, kind: str) -> Sequence[int]:
        return self._by_kind.get(kind, ())

    def of_file(self, kind: str, file: str | None) -> Sequence[int]:
        return self._by_file.get((kind, file), ())


def _group_by_review(given: Sequence[ReviewResult]) -> _VerdictPlaces:
    places = _VerdictPlaces()
    for place, verdict in enumerate(given):
        places.add(place, verdict)
    return places


def _find_files(tasks: Sequence[ReviewTask]) -> dict[str, set[str | None]]:
    """Return the files under review by what the reviews run for."""
    files: dict[str, set[str | None]] = {}
    for task in tasks:
        files.setdefault(task.review.run_each, set()).add(task.target_file)
    return files


def _complete(task: ReviewTask, verdicts: Sequence[ReviewResult]) -> ReviewResult:
    """Join the verdicts of one review, and add the criteria that none of them judged."""
    wanted = {name.strip().casefold() for name in task.review.quality_criteria}
    judged = [each for verdict in verdicts for each in verdict.criteria_results]
    # Two reviews of the same output get each other's verdicts; they differ in their criteria.
    own = tuple(each for each in judged if each.criterion.strip().casefold() in wanted)
    results = own + find_unjudged(task, own)
    passed = all(each.passed for each in (*results, *judged)) and all(verdict.passed for verdict in verdicts)
    feedback = "; ".join(verdict.feedback for verdict in verdicts if verdict.feedback)
    findings = tuple(each for verdict in verdicts for each in verdict.findings)
    return ReviewResult(task.review.run_each, task.target_file, passed, feedback, results, findings)


def _check_criteria(verdict: ReviewResult) -> ReviewResult:
    passed = verdict.passed and all(each.passed for each in verdict.criteria_results)
    return replace(verdict, passed=passed)


def _format_feedback(failed: ReviewResult) -> str:
    """Format what is wrong: the feedback of the review, else of the criteria that failed."""
    wrong = [each for each in failed.criteria_results if not each.passed]
    parts = [failed.feedback, *(f"{each.criterion}: {each.feedback or 'failed'}" for each in wrong)]
    return "; ".join(filter(None, parts)) or f"The review of {failed.review_run_each} failed."
