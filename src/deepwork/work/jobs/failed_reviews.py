"""Cuts what reviewers say to the size of an answer: a reviewer may write megabytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from deepwork.gates.reviews.rounds import Finding, FindingEffect
from deepwork.kernel.text_budget.list_cutting import cut_list, measure_json
from deepwork.work.jobs.quality_gate import CriterionResult, ReviewResult
from deepwork.work.jobs.responses import CriterionAnswer, FindingAnswer, ReviewAnswer

MAX_FEEDBACK = 20_000
MAX_REVIEWS_BYTES = 64 * 1024
_MAX_CRITERIA = 100
_MAX_CRITERIA_BYTES = 24 * 1024
_MAX_CRITERION = 500
_MAX_CRITERION_FEEDBACK = 4000
_MAX_FINDINGS = 20
_MAX_FINDINGS_BYTES = 12 * 1024


def cut_feedback(feedback: str) -> str:
    """Return the beginning of a long feedback."""
    return _cut_text(feedback, MAX_FEEDBACK)


def cut_failed_reviews(failed: Sequence[ReviewResult]) -> list[ReviewAnswer]:
    """Return the failed reviews that fit into an answer, each cut to its share; at least one."""
    shown = cut_list(
        # One review is small enough for the limit, so that the first always fits.
        [_cut_review(result) for result in failed[:_MAX_CRITERIA]],
        max_bytes=MAX_REVIEWS_BYTES,
        measure=lambda answer: measure_json(answer.model_dump()),
    )
    return shown or [_cut_review(result) for result in failed[:1]]


def _cut_review(result: ReviewResult) -> ReviewAnswer:
    criteria = [_cut_criterion(each) for each in _select_criteria(result.criteria_results)]
    feedback = cut_feedback(result.feedback)
    is_whole = feedback == result.feedback and [asdict(each) for each in result.criteria_results] == [
        each.model_dump() for each in criteria
    ]
    return ReviewAnswer(
        review_run_each=result.review_run_each,
        target_file=result.target_file,
        passed=result.passed,
        feedback=feedback,
        criteria_results=criteria,
        truncated=None if is_whole else True,
        findings=cut_findings(result.findings) or None,
    )


def cut_findings(findings: Sequence[Finding]) -> list[FindingAnswer]:
    """Return the findings that fit into an answer; those that block come first."""
    shown = [_to_answer(each) for each in findings[:_MAX_FINDINGS]]
    return cut_list(
        shown, max_bytes=_MAX_FINDINGS_BYTES, measure=lambda answer: measure_json(answer.model_dump())
    )


def _to_answer(finding: Finding) -> FindingAnswer:
    return FindingAnswer(
        severity=finding.severity.value,
        file=finding.file,
        line=finding.line,
        claim=_cut_text(finding.claim, _MAX_CRITERION),
        failure=finding.failure and _cut_text(finding.failure, _MAX_CRITERION),
        effect=None if finding.effect is FindingEffect.BLOCKS else finding.effect.value,
    )


def _select_criteria(results: Sequence[CriterionResult]) -> list[CriterionResult]:
    """Return the criteria that fit, in their order; those that failed have precedence."""
    by_need = sorted(range(len(results)), key=lambda place: results[place].passed)
    places = cut_list(
        by_need,
        max_entries=_MAX_CRITERIA,
        max_bytes=_MAX_CRITERIA_BYTES,
        measure=lambda place: measure_json(_cut_criterion(results[place]).model_dump()),
    )
    return [results[place] for place in sorted(places)]


def _cut_criterion(result: CriterionResult) -> CriterionAnswer:
    return CriterionAnswer(
        criterion=_cut_text(result.criterion, _MAX_CRITERION),
        passed=result.passed,
        feedback=None if result.feedback is None else _cut_text(result.feedback, _MAX_CRITERION_FEEDBACK),
    )


def _cut_text(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
