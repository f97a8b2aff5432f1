"""The gate between two steps: somebody else looks at what was delivered."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepwork.errors import InvalidInput, ReviewerError
from deepwork.files.atomic import write_atomically
from deepwork.files.paths import read_confined
from deepwork.jobs import review_payload
from deepwork.jobs.claude_cli import ClaudeCLI
from deepwork.jobs.models import Review
from deepwork.jobs.progress import Outputs
from deepwork.jobs.review_payload import ReviewFile

SECONDS_PER_FILE = 30
FILES_INCLUDED = 5
MAX_FEEDBACK = 20_000
LOOK_EVERY = 0.2

SYSTEM_PROMPT = (
    "You are an editor who reviews the outputs of one step of a workflow against given criteria. "
    "Answer with the JSON object that the schema describes: passed, feedback, and one entry in "
    "criteria_results for every criterion."
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
    },
}


@dataclass(frozen=True)
class Submission:
    """A step's work, as it comes to the gate."""

    root: Path
    reviews: tuple[Review, ...]
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
    """What one review said."""

    review_run_each: str
    target_file: str | None
    passed: bool
    feedback: str
    criteria_results: tuple[CriterionResult, ...] = ()


@dataclass(frozen=True)
class ReviewTask:
    """One review to be made: of everything, of one output, or of one file."""

    review: Review
    files: tuple[ReviewFile, ...]
    target_file: str | None = None


class QualityGate:
    """Asks a reviewer, or writes down what the agent's own reviewer should look at."""

    def __init__(
        self, cli: ClaudeCLI | None, max_inline_files: int, *, timeout: int = 120, max_parallel: int = 4
    ) -> None:
        self.cli = cli
        self.max_inline_files = max_inline_files
        self.timeout = timeout
        self._max_parallel = max_parallel
        self._slots = threading.BoundedSemaphore(max_parallel)

    def evaluate_reviews(
        self, submission: Submission, passed_before: set[str], is_wanted: Callable[[], bool]
    ) -> tuple[list[ReviewResult], set[str]]:
        """Every review that failed, and the marks of those that passed; what passed before is not asked."""
        marked = [(task, mark(submission, task)) for task in tasks(submission)]
        asked = [(task, each) for task, each in marked if each not in passed_before]
        results = self._ask_all(submission, [task for task, _ in asked], is_wanted)
        passed = {
            before
            for (task, before), result in zip(asked, results, strict=True)
            # A file that changed meanwhile may have been reviewed as it was or as it is: ask again next time.
            if result.passed and before and before == mark(submission, task)
        }
        return [result for result in results if not result.passed], passed

    def _ask_all(
        self, submission: Submission, asked: Sequence[ReviewTask], is_wanted: Callable[[], bool]
    ) -> list[ReviewResult]:
        """The results in order; the first reviewer that fails ends the others, and is the one named."""
        failures: list[ReviewerError] = []

        def ask(task: ReviewTask) -> ReviewResult | None:
            try:
                with self._slot(lambda: is_wanted() and not failures) as still_wanted:
                    return self._ask(submission, task, still_wanted)
            except ReviewerError as error:
                failures.append(error)
                return None

        with ThreadPoolExecutor(self._max_parallel) as reviewers:
            results = list(reviewers.map(ask, asked))
        if failures:
            raise failures[0]
        return [result for result in results if result is not None]

    @contextmanager
    def _slot(self, is_wanted: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
        """A place among the reviewers that may run at once, whichever calls they are for."""
        came = self._slots.acquire(timeout=LOOK_EVERY)
        while not came and is_wanted():
            came = self._slots.acquire(timeout=LOOK_EVERY)
        try:
            if not is_wanted():
                raise ReviewerError("The reviewer was not asked: the call was cancelled.", recoverable=True)
            yield is_wanted
        finally:
            if came:
                self._slots.release()

    def write_instructions(self, submission: Submission, file: Path) -> None:
        """Write what a reviewer of the agent's own should do."""
        files = {name: list(_paths(value)) for name, value in submission.outputs.items()}
        body = review_payload.payload(
            submission.root, submission.inputs, _all_files(submission), None, self.max_inline_files
        )
        page = review_payload.instructions(
            body, review_payload.criteria(submission.reviews, files), submission.notes
        )
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(file, page.encode())

    def _ask(self, submission: Submission, task: ReviewTask, is_wanted: Callable[[], bool]) -> ReviewResult:
        assert self.cli is not None
        body = review_payload.payload(
            submission.root, submission.inputs, task.files, submission.notes, self.max_inline_files
        )
        criteria = review_payload.criteria([task.review], {})
        prompt = f"{criteria}\n\n## Guidelines\n\n{review_payload.GUIDELINES}\n\n{body}"
        verdict = self.cli.run(
            prompt, SYSTEM_PROMPT, VERDICT,
            cwd=submission.root, timeout=self.time_for(len(task.files)), is_wanted=is_wanted,
        )  # fmt: skip
        return judged(task, verdict)

    def time_for(self, files: int) -> int:
        """How long a review may take: more for more files."""
        return self.timeout + SECONDS_PER_FILE * max(0, files - FILES_INCLUDED)


def tasks(submission: Submission) -> Iterator[ReviewTask]:
    """The reviews to be made, one for each file where an output has several."""
    for review in submission.reviews:
        if review.run_each == "step":
            yield ReviewTask(review, _all_files(submission))
        else:
            for path in _paths(submission.outputs.get(review.run_each, [])):
                yield ReviewTask(review, (ReviewFile(path, review.run_each),), path)


def judged(task: ReviewTask, verdict: Mapping[str, Any]) -> ReviewResult:
    """A verdict, taken at its strictest: one criterion that failed, or was passed over, fails it."""
    try:
        results = tuple(
            CriterionResult(str(each["criterion"]), each["passed"] is True, _words(each.get("feedback")))
            for each in verdict.get("criteria_results") or ()
        )
    except (TypeError, KeyError, AttributeError):
        raise ReviewerError(
            "The reviewer failed: its criteria_results are not what was asked for.", recoverable=True,
            suggestion="This attempt does not count. Call finished_step again.",
        ) from None  # fmt: skip
    results += _not_judged(task, results)
    passed = verdict.get("passed") is True and all(each.passed for each in results)
    feedback = _words(verdict.get("feedback")) or "The reviewer gave no feedback."
    return ReviewResult(task.review.run_each, task.target_file, passed, feedback, results)


def _not_judged(task: ReviewTask, results: Sequence[CriterionResult]) -> tuple[CriterionResult, ...]:
    """Criteria that a reviewer who went through them one by one passed over."""
    named = {each.criterion.strip().casefold() for each in results}
    criteria = task.review.quality_criteria if results else ()
    missing = [name for name in criteria if name.strip().casefold() not in named]
    return tuple(
        CriterionResult(name, passed=False, feedback="The reviewer did not judge this.") for name in missing
    )


def _words(feedback: object) -> str | None:
    """Feedback as a bounded text, whatever the reviewer wrote."""
    if feedback is None:
        return None
    text = feedback if isinstance(feedback, str) else json.dumps(feedback)
    return text.strip()[:MAX_FEEDBACK]


def mark(submission: Submission, task: ReviewTask) -> str | None:
    """What a review depends on, as one text: its criteria, its files and the inputs they were made from.

    None when a file is too large to be compared, or gone: then nothing is known to be unchanged.
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


def _all_files(submission: Submission) -> tuple[ReviewFile, ...]:
    return tuple(
        ReviewFile(path, name) for name, value in submission.outputs.items() for path in _paths(value)
    )


def _paths(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
