"""Reviews the outputs of a step: by a reviewer that the server runs, or by one that the agent starts."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from deepwork.gates.reviews.models import ReviewEvent
from deepwork.gates.reviews.round_trees import RoundTrees
from deepwork.gates.reviews.rounds import (
    DEFAULT_ROUNDS,
    Round,
    list_open_findings,
    may_dispute,
    settle_dispute,
)
from deepwork.gates.reviews.store import PassedReviews
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import NotAllowed, StorageError
from deepwork.kernel.files.private import write_atomically
from deepwork.work.jobs.active_step import list_delivered_paths
from deepwork.work.jobs.quality_gate import (
    JudgedReview,
    Outcome,
    Passed,
    QualityGate,
    ReviewResult,
    ReviewTask,
    SentBack,
    Submission,
    compute_mark,
    judge_result,
    list_review_tasks,
    open_round,
)
from deepwork.work.jobs.review_payload import ReviewFile
from deepwork.work.jobs.sessions.state import Session, list_rounds
from deepwork.work.jobs.step_outputs import StepOutputs
from deepwork.work.jobs.step_rounds import JudgedRound, StepRounds, find_disputed, may_ask_reviewer

log = logging.getLogger("deepwork")

SELF_REVIEWER = "self"
_TREES_SUFFIX = ".trees.json"

_SELF_REVIEW_FEEDBACK = (
    'Quality review needed. Spawn a subagent with the prompt: "Read {file} and follow it." '
    "Fix what fails, and repeat until everything passes. Then call finished_step again with the same outputs "
    "and with its verdicts as review_results. (quality_review_override_reason is for skipping the review.)"
)


class StepReviewService:
    """Reviews the outputs of a step before the session moves on. It does not change the session."""

    def __init__(
        self,
        root: Path,
        tmp: Path,
        gate: QualityGate,
        database: Database,
        max_rounds: int = DEFAULT_ROUNDS,
        find_actor: Callable[[Transaction], str | None] = lambda _: None,
    ) -> None:
        """`find_actor` returns the id of the agent that a call acts as; None if that is unknown."""
        self._find_actor = find_actor
        self._root, self._tmp, self._gate, self._database = root, tmp, gate, database
        self._trees, self._max_rounds = RoundTrees(root, tmp), max_rounds

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
        outcome = self._gate.evaluate_reviews(
            submission, self.open_rounds(session), passed_before, call.is_wanted, call.report_progress
        )
        self._record_outcome(session, outcome)
        return outcome

    def judge_self_review(
        self, session: Session, tasks: Sequence[ReviewTask], verdicts: Sequence[ReviewResult]
    ) -> tuple[tuple[ReviewResult, ...], tuple[JudgedRound, ...]]:
        """Judge the verdicts of the agent's own reviewer, which begin with those of the tasks, in order."""
        rounds = self.open_rounds(session)
        asked, author = self._load_request(session)
        if any(task.review.policy.by_other for task in tasks):
            _require_other(author, self._name_actor())
        self._build_path(session).with_suffix(_TREES_SUFFIX).unlink(missing_ok=True)
        judged: list[JudgedReview] = []
        for task, verdict in zip(tasks, verdicts, strict=False):
            opened = open_round(rounds, task)
            # The files may have changed since the reviewer was asked: the next round shows that.
            opened = replace(opened, tree_name=asked.get(task.rule, opened.tree_name))
            judged.append(judge_result(opened, verdict, SELF_REVIEWER))
        results = tuple(result for result, _ in judged)
        return (*results, *verdicts[len(tasks) :]), tuple(round for _, round in judged)

    def judge_disputes(self, session: Session, submission: Submission) -> dict[str, Round]:
        """Let a second reviewer judge what the author disputes; return the rounds that change, by review.

        Each review has one dispute; the agent's own reviewer has none: there a person decides.
        """
        changed: dict[str, Round] = {}
        for task in list_review_tasks(submission) if self._gate.cli else ():
            rounds = list_rounds(session, session.current_step_id, task.rule)
            disputed = find_disputed(submission.notes, list_open_findings(rounds))
            policy = task.review.build_policy(self._max_rounds)
            # A dispute must leave the reviewer of the next round its turn.
            has_room = may_ask_reviewer(session, task.rule, policy, times=2)
            if disputed and may_dispute(rounds) and has_room:
                upheld = self._gate.judge_dispute(submission, task, disputed, current_call().is_wanted)
                names = [each.fingerprint for each, _ in disputed]
                changed[task.rule] = settle_dispute(rounds[-1], names, upheld)
        return changed

    def open_rounds(self, session: Session) -> StepRounds:
        """Prepare the next round of the reviews of the current step."""
        step_id = session.current_step_id
        granted = session.get_progress(step_id).granted_attempts
        return StepRounds(self._trees, partial(list_rounds, session, step_id), self._max_rounds, granted)

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
        file = self._build_path(session)
        trees = self._gate.write_instructions(submission, self.open_rounds(session), file)
        is_by_other = any(review.policy.by_other for review in submission.reviews)
        asked = {"trees": trees, "asked": self._name_actor() if is_by_other else None}
        write_atomically(file.with_suffix(_TREES_SUFFIX), json.dumps(asked).encode(), is_durable=False)
        return SentBack(_SELF_REVIEW_FEEDBACK.format(file=file.relative_to(self._root)))

    def _build_path(self, session: Session) -> Path:
        return self._tmp / f"quality_review_{session.session_id}_{session.current_step_id}.md"

    def _load_request(self, session: Session) -> tuple[dict[str, str], str | None]:
        """Return, by review, the files that the agent's own reviewer is to judge, and the agent asked."""
        try:
            data = json.loads(self._build_path(session).with_suffix(_TREES_SUFFIX).read_bytes())
            return data["trees"], data["asked"]
        except (OSError, ValueError, KeyError, TypeError):  # it was not asked
            return {}, None

    def _name_actor(self) -> str:
        """Name the agent that calls, or the caller if that is unknown."""
        try:
            with self._database.reading() as tx:
                return self._find_actor(tx) or tx.caller
        except StorageError:
            return current_call().caller

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


def _require_other(author: str | None, reviewer: str) -> None:
    """Raise unless another agent than the author reports the verdicts."""
    if author is None or author == reviewer:
        raise NotAllowed(
            f"A review of this step must be done by another agent than the author, {author or reviewer}.",
            suggestion="Call {tool:finished_step} without review_results; then another registered agent "
            "reviews and calls it with session_id and review_results.",
        )
