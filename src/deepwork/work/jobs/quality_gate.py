"""The quality gate between two steps: a reviewer evaluates the outputs of a step."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from deepwork.gates.reviews.rounds import Finding, RoundVerdict, read_findings
from deepwork.kernel.call import ReportProgress, ignore_progress
from deepwork.kernel.errors import InvalidInput, ReviewerError
from deepwork.kernel.files.paths import read_confined
from deepwork.kernel.files.private import write_atomically
from deepwork.kernel.records import dataclass
from deepwork.work.jobs import review_payload
from deepwork.work.jobs.definitions.models import StepReview
from deepwork.work.jobs.review_payload import ReviewFile
from deepwork.work.jobs.reviewer_program import IsWanted, Reviewer
from deepwork.work.jobs.sessions.state import Outputs
from deepwork.work.jobs.step_rounds import (
    DISPUTE_SYSTEM_PROMPT,
    DISPUTE_VERDICT,
    JudgedRound,
    OpenRound,
    ReviewCounter,
    StepRounds,
    parse_upheld,
    render_dispute,
)

Answer = TypeVar("Answer")
SECONDS_PER_FILE = 30
FILES_INCLUDED = 5
MAX_FEEDBACK = 20_000
POLL_SECONDS = 0.2
UNJUDGED = "The reviewer did not judge this."

SYSTEM_PROMPT = (
    "You are an editor who reviews the outputs of one step of a workflow against given criteria. "
    "Answer with the JSON object that the schema describes: passed, feedback, one entry in criteria_results "
    "for every criterion, and one in findings for every problem."
)
VERDICT: dict[str, Any] = {
    "type": "object",
    "required": ["passed", "feedback"],
    "properties": {
        "passed": {"type": "boolean"},
        "feedback": {"type": "string"},
        "criteria_results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["criterion", "passed"],
                "properties": {
                    "criterion": {"type": "string"},
                    "passed": {"type": "boolean"},
                    "feedback": {"type": ["string", "null"]},
                },
            },
        },
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["severity", "claim"],
                "properties": {
                    "severity": {"enum": ["blocker", "major", "minor"]},
                    "file": {"type": ["string", "null"]},
                    "line": {"type": ["integer", "null"]},
                    "claim": {"type": "string"},
                    "failure": {"type": ["string", "null"]},
                },
            },
        },
    },
}


@dataclass(frozen=True)
class Submission:
    """The outputs of a step, submitted for review."""

    root: Path
    reviews: tuple[StepReview, ...]
    outputs: Outputs
    inputs: tuple[ReviewFile, ...] = ()
    notes: str | None = None


@dataclass(frozen=True)
class CriterionResult:
    criterion: str
    passed: bool
    feedback: str | None = None


@dataclass(frozen=True)
class ReviewResult:
    """The result of one review."""

    review_run_each: str
    target_file: str | None
    passed: bool
    feedback: str
    criteria_results: tuple[CriterionResult, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Passed:
    """The step may be completed."""

    marks: frozenset[str] = frozenset()
    """Marks of the reviews that passed now, which need not run again."""
    how: Literal["reviewer", "self_review", "override", "person"] | None = None
    """What it passed; None if it has no reviews."""
    rounds: tuple[JudgedRound, ...] = ()


@dataclass(frozen=True)
class SentBack:
    """The work on the step must be improved first."""

    feedback: str
    failed: tuple[ReviewResult, ...] = ()
    marks: frozenset[str] = frozenset()
    """Marks of the reviews that passed now, which need not run again."""
    is_self_review: bool = False
    """Whether the agent's own reviewer found it."""
    rounds: tuple[JudgedRound, ...] = ()

    @property
    def asks_for_review(self) -> bool:
        """Whether nothing was found yet: the agent is to start a reviewer of its own."""
        return not self.failed and not self.is_self_review


Outcome = Passed | SentBack
JudgedReview = tuple[ReviewResult, JudgedRound]


@dataclass(frozen=True)
class ReviewTask:
    """One review to run: of all outputs, of one output, or of one file."""

    review: StepReview
    files: tuple[ReviewFile, ...]
    target_file: str | None = None
    rule: str = ""
    """Names the review among those of the step, in every round."""


class QualityGate:
    """Runs an external reviewer, or writes instructions for a reviewer that the agent starts itself."""

    def __init__(
        self, cli: Reviewer | None, max_inline_files: int, *, timeout: int = 120, max_parallel: int = 4
    ) -> None:
        self.cli = cli
        self.max_inline_files = max_inline_files
        self.timeout = timeout
        self._max_parallel = max_parallel
        self._slots = threading.BoundedSemaphore(max_parallel)

    def evaluate_reviews(
        self,
        submission: Submission,
        rounds: StepRounds,
        passed_before: set[str],
        is_wanted: IsWanted,
        report_progress: ReportProgress = ignore_progress,
    ) -> Outcome:
        """Run a round of the reviews that have not passed before."""
        marked = [(task, compute_mark(submission, task)) for task in list_review_tasks(submission)]
        pending = [(task, each) for task, each in marked if each not in passed_before]
        counter = ReviewCounter(len(pending), report_progress)
        judged = self._run_reviews(submission, rounds, [task for task, _ in pending], is_wanted, counter)
        marks = frozenset(
            before
            for (task, before), (result, _) in zip(pending, judged, strict=True)
            # If a file changed during the review, it is unknown which version was reviewed: do not record it.
            if result.passed and before and before == compute_mark(submission, task)
        )
        made = tuple(round for _, round in judged)
        failed = tuple(result for result, _ in judged if not result.passed)
        if not failed:
            return Passed(marks, "reviewer", made)
        return SentBack("; ".join(result.feedback for result in failed), failed, marks, rounds=made)

    def _run_reviews(
        self,
        submission: Submission,
        rounds: StepRounds,
        pending: Sequence[ReviewTask],
        is_wanted: IsWanted,
        counter: ReviewCounter,
    ) -> list[JudgedReview]:
        """Run reviews in parallel; return their results in order. The first error stops the others."""
        failures: list[ReviewerError] = []
        interrupted = threading.Event()

        def can_continue() -> bool:
            return is_wanted() and not failures and not interrupted.is_set()

        def run(task: ReviewTask) -> JudgedReview | None:
            try:
                with self._acquire_slot(can_continue) as still_wanted, counter.count():
                    return self._run_round(submission, task, open_round(rounds, task), still_wanted)
            except ReviewerError as error:
                failures.append(error)
                return None

        with ThreadPoolExecutor(self._max_parallel) as reviewers:
            try:
                results = list(reviewers.map(run, pending))
            except BaseException:  # Ctrl-C at a shell; leaving the block waits for the reviewers
                interrupted.set()
                raise
        if failures:
            raise failures[0]
        return [result for result in results if result is not None]

    @contextmanager
    def _acquire_slot(self, is_wanted: IsWanted) -> Iterator[IsWanted]:
        """Wait for one of the slots that limit parallel reviewers across all calls."""
        acquired = self._slots.acquire(timeout=POLL_SECONDS)
        while not acquired and is_wanted():
            acquired = self._slots.acquire(timeout=POLL_SECONDS)
        try:
            if not is_wanted():
                raise ReviewerError("The reviewer was not started: the call was cancelled.", recoverable=True)
            yield is_wanted
        finally:
            if acquired:
                self._slots.release()

    def write_instructions(self, submission: Submission, rounds: StepRounds, file: Path) -> dict[str, str]:
        """Write instructions for a reviewer that the agent starts itself; return the trees that it judges."""
        files = {name: list(_to_paths(value)) for name, value in submission.outputs.items()}
        opened = [open_round(rounds, task) for task in list_review_tasks(submission)]
        body = review_payload.render_payload(
            submission.root,
            submission.inputs,
            _list_files(submission),
            None,
            self.max_inline_files,
            {each.rule: each.changes for each in opened if each.changes is not None},
        )
        page = review_payload.render_instructions(
            body,
            review_payload.render_criteria(submission.reviews, files),
            submission.notes,
            _build_verdict_form(submission),
            _join_guidelines(opened),
        )
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(file, page.encode())
        return {each.rule: each.tree_name for each in opened if each.tree_name}

    def _run_round(
        self, submission: Submission, task: ReviewTask, opened: OpenRound, is_wanted: IsWanted
    ) -> JudgedReview:
        """Run one round; a reviewer that gives no verdict is asked once more."""
        given = _ask_twice(lambda: self._run_review(submission, task, opened, is_wanted), is_wanted)
        assert self.cli is not None
        return judge_result(opened, given, self.cli.name)

    def _run_review(
        self, submission: Submission, task: ReviewTask, opened: OpenRound, is_wanted: IsWanted
    ) -> ReviewResult:
        assert self.cli is not None
        changes = opened.changes
        body = review_payload.render_payload(
            submission.root,
            submission.inputs,
            task.files,
            submission.notes,
            self.max_inline_files if changes is None else 0,
            {} if changes is None else {"": changes},
        )
        criteria = review_payload.render_criteria([task.review], {})
        rules = f"{review_payload.GUIDELINES}\n{opened.guidelines}"
        verdict = self.cli.run(
            f"{criteria}\n\n## Guidelines\n\n{rules}\n\n{body}",
            SYSTEM_PROMPT,
            VERDICT,
            cwd=submission.root,
            timeout=self.time_for(len(task.files)),
            is_wanted=is_wanted,
        )
        return parse_verdict(task, verdict)

    def judge_dispute(
        self,
        submission: Submission,
        task: ReviewTask,
        disputed: Sequence[tuple[Finding, str]],
        is_wanted: IsWanted,
    ) -> list[str]:
        """Ask a second reviewer about disputed findings; return the fingerprints of those that it upholds."""
        assert self.cli is not None
        run = self.cli.run
        body = review_payload.render_payload(
            submission.root, submission.inputs, task.files, None, self.max_inline_files
        )
        prompt, timeout = f"{render_dispute(disputed)}\n\n{body}", self.time_for(len(task.files))

        def ask() -> list[str]:
            verdict = run(
                prompt,
                DISPUTE_SYSTEM_PROMPT,
                DISPUTE_VERDICT,
                cwd=submission.root,
                timeout=timeout,
                is_wanted=is_wanted,
            )
            return parse_upheld(disputed, verdict)

        return _ask_twice(ask, is_wanted)

    def time_for(self, files: int) -> int:
        """Return the timeout in seconds of a review of this many files."""
        return self.timeout + SECONDS_PER_FILE * max(0, files - FILES_INCLUDED)


def _ask_twice(ask: Callable[[], Answer], is_wanted: IsWanted) -> Answer:
    """Ask a reviewer once more if it gives no verdict."""
    try:
        return ask()
    except ReviewerError:
        if not is_wanted():
            raise
        return ask()


def list_review_tasks(submission: Submission) -> Iterator[ReviewTask]:
    """Yield the reviews to run; an output of several files gets one review per file."""
    for place, review in enumerate(submission.reviews):
        same = sum(each.run_each == review.run_each for each in submission.reviews[:place])
        rule = f"{review.run_each} {same + 1}" if same else review.run_each
        if review.run_each == "step":
            yield ReviewTask(review, _list_files(submission), rule=rule)
        else:
            for path in _to_paths(submission.outputs.get(review.run_each, [])):
                yield ReviewTask(review, (ReviewFile(path, review.run_each),), path, f"{rule}: {path}")


def open_round(rounds: StepRounds, task: ReviewTask) -> OpenRound:
    """Open the next round of a review."""
    return rounds.open(task.rule, task.review, [file.path for file in task.files])


def judge_result(opened: OpenRound, given: ReviewResult, reviewer: str) -> JudgedReview:
    """Judge a result by its findings, if it has any: those that do not block let it pass."""
    is_complete = not any(each.feedback == UNJUDGED for each in given.criteria_results)
    judged = opened.judge(RoundVerdict(given.passed, given.findings, is_complete), reviewer)
    return replace(given, passed=judged.round.passed, findings=judged.round.findings), judged


def parse_verdict(task: ReviewTask, verdict: Mapping[str, Any]) -> ReviewResult:
    """Parse a verdict strictly: a review fails if any criterion failed or, if any was judged, was skipped."""
    try:
        results = tuple(
            CriterionResult(
                str(each["criterion"]), each["passed"] is True, _format_feedback(each.get("feedback"))
            )
            for each in verdict.get("criteria_results") or ()
        )
        findings = read_findings(verdict.get("findings"))
    except (TypeError, KeyError, AttributeError):
        raise ReviewerError(
            "The reviewer failed: its criteria_results or findings do not match the schema.",
            recoverable=True,
            suggestion="This attempt does not count. Call {tool:finished_step} again.",
        ) from None
    results += find_unjudged(task, results) if results else ()
    passed = verdict.get("passed") is True and all(each.passed for each in results)
    feedback = _format_feedback(verdict.get("feedback")) or "The reviewer gave no feedback."
    return ReviewResult(task.review.run_each, task.target_file, passed, feedback, results, findings)


def find_unjudged(task: ReviewTask, results: Sequence[CriterionResult]) -> tuple[CriterionResult, ...]:
    """Find criteria that the reviewer skipped."""
    named = {each.criterion.strip().casefold() for each in results}
    missing = [name for name in task.review.quality_criteria if name.strip().casefold() not in named]
    return tuple(CriterionResult(name, passed=False, feedback=UNJUDGED) for name in missing)


def _format_feedback(feedback: object) -> str | None:
    """Convert feedback of any type to text of bounded length."""
    if feedback is None:
        return None
    text = feedback if isinstance(feedback, str) else json.dumps(feedback)
    return text.strip()[:MAX_FEEDBACK]


def compute_mark(submission: Submission, task: ReviewTask) -> str | None:
    """Hash everything that a review depends on: its criteria, its files and the inputs they were made from.

    Return None if a file is missing or too large to compare; such a review is always run again.
    """
    content = hashlib.sha256(
        json.dumps(
            [task.review.run_each, dict(task.review.quality_criteria), task.review.additional_review_guidance]
        ).encode()
    )
    for file in (*submission.inputs, *task.files):
        content.update(f"\0{file.output}\0{file.path}\0".encode())
        try:
            content.update(read_confined(submission.root, file.path, max_bytes=review_payload.MAX_INLINED))
        except InvalidInput:
            return None
    return content.hexdigest()


def _build_verdict_form(submission: Submission) -> list[dict[str, Any]]:
    """Build the verdicts that a reviewer fills in, in the form that `finished_step` takes."""
    return [
        {
            "review_run_each": task.review.run_each,
            "target_file": task.target_file,
            "passed": "true or false",
            "feedback": "…",
            "criteria_results": [
                {"criterion": name, "passed": "true or false", "feedback": "… or null"}
                for name in task.review.quality_criteria
            ],
            "findings": [
                {"severity": "…", "file": "…", "line": 0, "claim": "what is wrong", "failure": "how it fails"}
            ],
        }
        for task in list_review_tasks(submission)
    ]


def _join_guidelines(opened: Sequence[OpenRound]) -> str:
    """Join what a reviewer must know about the rounds of several reviews."""
    if len({each.guidelines for each in opened}) == 1:
        return opened[0].guidelines
    return "\n\n".join(f"### Rounds of the review of {each.rule}\n\n{each.guidelines}" for each in opened)


def _list_files(submission: Submission) -> tuple[ReviewFile, ...]:
    return tuple(
        ReviewFile(path, name) for name, value in submission.outputs.items() for path in _to_paths(value)
    )


def _to_paths(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
