"""Decides whether a step may be completed: by review, or by an override with a reason."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from deepwork.call import current_call
from deepwork.database.transaction import Database
from deepwork.errors import Code, DeepworkError, StorageError, ToolError
from deepwork.jobs.active_step import list_delivered_paths
from deepwork.jobs.definitions.models import Step
from deepwork.jobs.quality_gate import QualityGate, ReviewResult, Submission, compute_mark, list_review_tasks
from deepwork.jobs.responses import FinishedStep, ReviewAnswer
from deepwork.jobs.review_payload import ReviewFile
from deepwork.jobs.sessions import state
from deepwork.jobs.sessions.state import Outputs, Session, SessionEvent, format_now
from deepwork.jobs.sessions.state_manager import StateManager
from deepwork.reviews.models import ReviewEvent
from deepwork.reviews.store import PassedReviews

log = logging.getLogger("deepwork")

_SELF_REVIEW = (
    'Quality review needed. Spawn a subagent with the prompt: "Read {file} and follow it." '
    "Fix what fails, and repeat until everything passes. Then call finished_step again with the same outputs "
    "and quality_review_override_reason, saying what was reviewed and found."
)


@dataclass(frozen=True)
class StepOutputs:
    """The outputs submitted for one step."""

    step: Step
    outputs: Outputs


class StepReviewService:
    """Reviews the outputs of a step before the session moves on."""

    def __init__(
        self,
        root: Path,
        tmp: Path,
        gate: QualityGate | None,
        state: StateManager,
        database: Database,
        max_attempts: int,
    ) -> None:
        self._root, self._tmp, self._gate = root, tmp, gate
        self._state, self._database, self._max_attempts = state, database, max_attempts

    def review(
        self,
        session: Session,
        step_outputs: list[StepOutputs],
        notes: str | None,
        override: str | None,
        is_wanted: Callable[[], bool],
    ) -> tuple[Session, FinishedStep | None]:
        """Review the outputs; return the session, and an answer only if the work must be improved."""
        reviewed = [part for part in step_outputs if part.step.reviews]
        if override:
            return state.add_override(session, session.current_step_id, override, format_now()), None
        if self._gate is None or not reviewed:
            return session, None
        submission = self._build_submission(session, reviewed, notes)
        if self._gate.cli is None:
            return self._request_self_review(session, submission)
        return self._run_reviewer(session, submission, is_wanted)

    def _build_submission(
        self, session: Session, reviewed: list[StepOutputs], notes: str | None
    ) -> Submission:
        inputs = [
            ReviewFile(path, file_input.file)
            for part in reviewed
            for file_input in part.step.file_inputs
            for path in list_delivered_paths(session, file_input.from_step, file_input.file)
        ]
        return Submission(
            root=self._root,
            reviews=tuple(review for part in reviewed for review in part.step.reviews),
            outputs={name: value for part in reviewed for name, value in part.outputs.items()},
            inputs=tuple(dict.fromkeys(inputs)),
            notes=notes,
        )

    def _request_self_review(
        self, session: Session, submission: Submission
    ) -> tuple[Session, FinishedStep | None]:
        assert self._gate is not None
        name = f"quality_review_{session.session_id}_{session.current_step_id}.md"
        self._gate.write_instructions(submission, self._tmp / name)
        session = self._state.save(state.add_attempt(session, session.current_step_id), SessionEvent.UPDATED)
        relative_path = (self._tmp / name).relative_to(self._root)
        return session, FinishedStep(
            status="needs_work",
            feedback=_SELF_REVIEW.format(file=relative_path),
            stack=self._state.get_stack(current_call().caller, session),
        )

    def _run_reviewer(
        self, session: Session, submission: Submission, is_wanted: Callable[[], bool]
    ) -> tuple[Session, FinishedStep | None]:
        assert self._gate is not None
        step_id = session.current_step_id
        session = self._state.save(state.add_attempt(session, step_id), SessionEvent.UPDATED)
        try:
            failed, passed = self._gate.evaluate_reviews(submission, self._find_passed(submission), is_wanted)
        except DeepworkError:
            self._state.save(state.add_attempt(session, step_id, by=-1), SessionEvent.UPDATED)
            raise
        self._record_results(session, passed, failed)
        if not failed:
            return session, None
        feedback = "; ".join(result.feedback for result in failed)
        if session.get_progress(step_id).quality_attempts >= self._max_attempts:
            raise ToolError(
                f"Quality gate failed after {self._max_attempts} attempts. Feedback: {feedback}",
                code=Code.REVIEW_FAILED,
                recoverable=True,
                suggestion="Fix what the feedback names and call {tool:finished_step} again, or ask "
                "a person.",
            )
        return session, FinishedStep(
            status="needs_work",
            feedback=feedback,
            failed_reviews=[ReviewAnswer.model_validate(asdict(result)) for result in failed],
            stack=self._state.get_stack(current_call().caller, session),
        )

    # Passed reviews and events are optional: while the database is unavailable, work continues without them.

    def _find_passed(self, submission: Submission) -> set[str]:
        marks = [each for task in list_review_tasks(submission) if (each := compute_mark(submission, task))]
        try:
            with self._database.reading() as tx:
                return PassedReviews(tx).find_passed(marks)
        except StorageError as error:
            log.warning("Cannot look up whether a review already passed: %s", error)
            return set()

    def _record_results(self, session: Session, passed: set[str], failed: list[ReviewResult]) -> None:
        try:
            self._save_results(session, passed, failed)
        except StorageError as error:
            log.warning("Could not publish a review of session %s: %s", session.session_id, error)

    def _save_results(self, session: Session, passed: set[str], failed: list[ReviewResult]) -> None:
        with self._database.transaction() as tx:
            PassedReviews(tx).save(passed)
            about = {"session_id": session.session_id, "step_id": session.current_step_id}
            for result in failed:
                tx.emit(ReviewEvent.FAILED, about | asdict(result), session.session_id)
            if not failed:
                tx.emit(ReviewEvent.PASSED, about | {"reviews": len(passed)}, session.session_id)
