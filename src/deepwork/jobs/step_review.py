"""Reviews the outputs of a step: by a reviewer that the server runs, or by one that the agent starts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deepwork.call import current_call
from deepwork.database.transaction import Database
from deepwork.errors import StorageError
from deepwork.jobs.active_step import list_delivered_paths
from deepwork.jobs.quality_gate import (
    Outcome,
    Passed,
    QualityGate,
    ReviewResult,
    SentBack,
    Submission,
    compute_mark,
    list_review_tasks,
)
from deepwork.jobs.review_payload import ReviewFile
from deepwork.jobs.sessions.state import Session
from deepwork.jobs.step_outputs import StepOutputs
from deepwork.reviews.models import ReviewEvent
from deepwork.reviews.store import PassedReviews

log = logging.getLogger("deepwork")

_SELF_REVIEW_FEEDBACK = (
    'Quality review needed. Spawn a subagent with the prompt: "Read {file} and follow it." '
    "Fix what fails, and repeat until everything passes. Then call finished_step again with the same outputs "
    "and with its verdicts as review_results. (quality_review_override_reason is for skipping the review.)"
)


class StepReviewService:
    """Reviews the outputs of a step before the session moves on. It does not change the session."""

    def __init__(self, root: Path, tmp: Path, gate: QualityGate, database: Database) -> None:
        self._root, self._tmp, self._gate, self._database = root, tmp, gate, database

    def build_submission(
        self, session: Session, step_outputs: Sequence[StepOutputs], notes: str | None
    ) -> Submission | None:
        """Build what is to be reviewed; None if no step has reviews."""
        reviewed = [part for part in step_outputs if part.step.reviews]
        inputs = [
            ReviewFile(path, file_input.file)
            for part in reviewed
            for file_input in part.step.file_inputs
            for path in list_delivered_paths(session, file_input.from_step, file_input.file)
        ]
        submission = Submission(
            root=self._root,
            reviews=tuple(review for part in reviewed for review in part.step.reviews),
            outputs={name: value for part in reviewed for name, value in part.outputs.items()},
            inputs=tuple(dict.fromkeys(inputs)),
            notes=notes,
        )
        return submission if reviewed else None

    def review(self, session: Session, submission: Submission) -> Outcome:
        """Run the reviews, or send the work back with instructions for the agent's own reviewer."""
        if self._gate.cli is None:
            return self._request_self_review(session, submission)
        passed_before = self._find_passed(submission)
        call = current_call()
        outcome = self._gate.evaluate_reviews(submission, passed_before, call.is_wanted, call.report_progress)
        self._record_outcome(session, outcome)
        return outcome

    @property
    def has_reviewer(self) -> bool:
        """Whether the server runs a reviewer itself."""
        return self._gate.cli is not None

    def record_self_review(self, session: Session, verdicts: Sequence[ReviewResult]) -> None:
        """Emit the events of the agent's own review."""
        failed = [each for each in verdicts if not each.passed]
        events = [(ReviewEvent.FAILED, asdict(each)) for each in failed] or [
            (ReviewEvent.PASSED, {"reviews": len(verdicts)})
        ]
        about = {"session_id": session.session_id, "step_id": session.current_step_id, "self_review": True}
        self._emit(session, [(type, about | data) for type, data in events], frozenset())

    def _request_self_review(self, session: Session, submission: Submission) -> SentBack:
        file = self._tmp / f"quality_review_{session.session_id}_{session.current_step_id}.md"
        self._gate.write_instructions(submission, file)
        return SentBack(_SELF_REVIEW_FEEDBACK.format(file=file.relative_to(self._root)))

    # Passed reviews and events are optional: while the database is unavailable, work continues without them.

    def _find_passed(self, submission: Submission) -> set[str]:
        marks = [each for task in list_review_tasks(submission) if (each := compute_mark(submission, task))]
        try:
            with self._database.reading() as tx:
                return PassedReviews(tx).find_passed(marks)
        except StorageError as error:
            log.warning("Cannot look up whether a review already passed: %s", error)
            return set()

    def _record_outcome(self, session: Session, outcome: Outcome) -> None:
        about = {"session_id": session.session_id, "step_id": session.current_step_id}
        if isinstance(outcome, Passed):
            events = [(ReviewEvent.PASSED, about | {"reviews": len(outcome.marks)})]
        else:
            events = [(ReviewEvent.FAILED, about | asdict(result)) for result in outcome.failed]
        self._emit(session, events, outcome.marks)

    def _emit(
        self, session: Session, events: Sequence[tuple[ReviewEvent, dict[str, Any]]], marks: frozenset[str]
    ) -> None:
        try:
            with self._database.transaction() as tx:
                PassedReviews(tx).save(set(marks))
                for type, data in events:
                    tx.emit(type, data, session.session_id)
        except StorageError as error:
            log.warning("Could not publish a review of session %s: %s", session.session_id, error)
