"""Whether a step's work may pass: it is reviewed, sent back, or let through with a reason."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from deepwork.database.call import current_call
from deepwork.database.transaction import Database
from deepwork.errors import Code, DeepworkError, StorageError, ToolError
from deepwork.jobs import progress
from deepwork.jobs.briefing import delivered
from deepwork.jobs.models import Step
from deepwork.jobs.progress import Outputs, Session, SessionEvent, now
from deepwork.jobs.quality_gate import QualityGate, ReviewResult, Submission, mark, tasks
from deepwork.jobs.responses import FinishedStep, ReviewAnswer
from deepwork.jobs.review_payload import ReviewFile
from deepwork.jobs.sessions import StateManager
from deepwork.reviews.models import ReviewEvent
from deepwork.reviews.store import PassedReviews

log = logging.getLogger("deepwork")

_SELF_REVIEW = (
    'Quality review needed. Spawn a subagent with the prompt: "Read {file} and follow it." '
    "Fix what fails, and repeat until everything passes. Then call finished_step again with the same outputs "
    "and quality_review_override_reason, saying what was reviewed and found."
)


@dataclass(frozen=True)
class Share:
    """What was submitted for one step."""

    step: Step
    outputs: Outputs


class Gatekeeper:
    """Stands between two steps of a session."""

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

    def pass_gate(
        self,
        session: Session,
        shares: list[Share],
        notes: str | None,
        override: str | None,
        wanted: Callable[[], bool],
    ) -> tuple[Session, FinishedStep | None]:
        """The session past its gate, or the answer that sends the work back."""
        reviewed = [share for share in shares if share.step.reviews]
        if override:
            return progress.overridden(session, session.current_step_id, override, now()), None
        if self._gate is None or not reviewed:
            return session, None
        submission = self._submission(session, reviewed, notes)
        if self._gate.cli is None:
            return self._ask_for_self_review(session, submission)
        return self._ask_reviewer(session, submission, wanted)

    def _submission(self, session: Session, reviewed: list[Share], notes: str | None) -> Submission:
        inputs = [
            ReviewFile(path, given.file)
            for share in reviewed
            for given in share.step.file_inputs
            for path in delivered(session, given.from_step, given.file)
        ]
        return Submission(
            root=self._root,
            reviews=tuple(review for share in reviewed for review in share.step.reviews),
            outputs={name: value for share in reviewed for name, value in share.outputs.items()},
            inputs=tuple(dict.fromkeys(inputs)),
            notes=notes,
        )

    def _ask_for_self_review(
        self, session: Session, submission: Submission
    ) -> tuple[Session, FinishedStep | None]:
        assert self._gate is not None
        name = f"quality_review_{session.session_id}_{session.current_step_id}.md"
        self._gate.write_instructions(submission, self._tmp / name)
        session = self._state.save(progress.attempted(session, session.current_step_id), SessionEvent.UPDATED)
        shown_path = (self._tmp / name).relative_to(self._root)
        return session, FinishedStep(
            status="needs_work",
            feedback=_SELF_REVIEW.format(file=shown_path),
            stack=self._state.get_stack(current_call().caller, session),
        )

    def _ask_reviewer(
        self, session: Session, submission: Submission, wanted: Callable[[], bool]
    ) -> tuple[Session, FinishedStep | None]:
        assert self._gate is not None
        step_id = session.current_step_id
        session = self._state.save(progress.attempted(session, step_id), SessionEvent.UPDATED)
        try:
            failed, passed = self._gate.evaluate_reviews(submission, self._passed_before(submission), wanted)
        except DeepworkError:
            self._state.save(progress.attempted(session, step_id, by=-1), SessionEvent.UPDATED)
            raise
        self._remember(session, passed, failed)
        if not failed:
            return session, None
        feedback = "; ".join(result.feedback for result in failed)
        if session.progress(step_id).quality_attempts >= self._max_attempts:
            raise ToolError(
                f"Quality gate failed after {self._max_attempts} attempts. Feedback: {feedback}",
                code=Code.REVIEW_FAILED,
                recoverable=True,
                suggestion="Mend what the feedback names and call finished_step again, or ask a human.",
            )
        return session, FinishedStep(
            status="needs_work",
            feedback=feedback,
            failed_reviews=[ReviewAnswer.model_validate(asdict(result)) for result in failed],
            stack=self._state.get_stack(current_call().caller, session),
        )

    # What is only remembered or told stops nobody's work while the database is away.

    def _passed_before(self, submission: Submission) -> set[str]:
        marks = [each for task in tasks(submission) if (each := mark(submission, task))]
        try:
            with self._database.reading() as tx:
                return PassedReviews(tx).among(marks)
        except StorageError as error:
            log.warning("Whether a review passed before cannot be looked up: %s", error)
            return set()

    def _remember(self, session: Session, passed: set[str], failed: list[ReviewResult]) -> None:
        try:
            self._keep(session, passed, failed)
        except StorageError as error:
            log.warning("A review of session %s could not be told of: %s", session.session_id, error)

    def _keep(self, session: Session, passed: set[str], failed: list[ReviewResult]) -> None:
        with self._database.transaction() as tx:
            PassedReviews(tx).remember(passed)
            about = {"session_id": session.session_id, "step_id": session.current_step_id}
            for result in failed:
                tx.emit(ReviewEvent.FAILED, about | asdict(result), session.session_id)
            if not failed:
                tx.emit(ReviewEvent.PASSED, about | {"reviews": len(passed)}, session.session_id)
