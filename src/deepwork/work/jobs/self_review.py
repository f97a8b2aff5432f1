"""Judges the verdicts of a reviewer that the agent started itself: each criterion must have passed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deepwork.gates.reviews.rounds import read_findings
from deepwork.work.jobs.quality_gate import (
    CriterionResult,
    Outcome,
    Passed,
    ReviewResult,
    ReviewTask,
    SentBack,
    find_unjudged,
)
from deepwork.work.jobs.step_rounds import JudgedRound

if TYPE_CHECKING:
    from deepwork.work.jobs.inputs import ReviewVerdict


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
