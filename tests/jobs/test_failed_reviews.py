"""What a reviewer says is cut to the size of an answer, failures first."""

from __future__ import annotations

import json

from call_counter import count_calls
from deepwork.work.jobs.definitions.models import StepReview
from deepwork.work.jobs.quality_gate import CriterionResult, ReviewResult, ReviewTask
from deepwork.work.jobs.step_gate import complete_verdicts
from deepwork.work.jobs.step_outputs import MAX_FEEDBACK, MAX_REVIEWS_BYTES, cut_failed_reviews, cut_feedback


def fail(file: str | None = None, feedback: str = "Bad.", *criteria: CriterionResult) -> ReviewResult:
    return ReviewResult("docs", file, False, feedback, criteria)


def test_reviews_that_fit_are_shown_as_they_are():
    [shown] = cut_failed_reviews([fail("a.md", "Bad.", CriterionResult("Short", False, "Too long."))])

    assert shown.model_dump() == {
        "review_run_each": "docs", "target_file": "a.md", "passed": False, "feedback": "Bad.",
        "criteria_results": [{"criterion": "Short", "passed": False, "feedback": "Too long."}],
    }  # fmt: skip


def test_a_huge_review_is_cut_and_says_so():
    criteria = [CriterionResult("c" * 5000, number % 2 == 0, "f" * 9000) for number in range(1000)]

    [shown] = cut_failed_reviews([fail("a.md", "x" * 5_000_000, *criteria)])

    assert shown.truncated is True
    assert len(shown.feedback) == MAX_FEEDBACK
    assert len(json.dumps(shown.model_dump(), ensure_ascii=False).encode()) < MAX_REVIEWS_BYTES


def test_criteria_that_failed_are_kept_before_those_that_passed():
    passed = [CriterionResult(f"good {number}", True) for number in range(500)]

    [shown] = cut_failed_reviews([fail("a.md", "Bad.", *passed, CriterionResult("Short", False, "No."))])

    assert shown.criteria_results[-1].criterion == "Short"
    assert shown.truncated is True


def test_many_reviews_are_cut_to_the_size_of_an_answer():
    shown = cut_failed_reviews([fail(f"{number}.md", "x" * 15_000) for number in range(1000)])

    assert 1 <= len(shown) < 5


def test_a_review_with_a_long_name_is_still_shown():
    [shown] = cut_failed_reviews([fail("ü" * 60_000, "x" * 40_000)])

    assert shown.truncated is True


def test_long_feedback_is_cut():
    assert len(cut_feedback("x" * 1_000_000)) == MAX_FEEDBACK
    assert cut_feedback("short") == "short"


def test_joining_the_verdicts_of_many_files_costs_as_much_as_there_are():
    def join(count: int) -> int:
        review = StepReview("docs", {"Short": "Is it?"}, None)
        tasks = [ReviewTask(review, (), f"{number}.md") for number in range(count)]
        given = [fail(f"{number}.md") for number in range(count)]
        return count_calls(lambda: complete_verdicts(tasks, given))

    assert join(80) < 2.5 * join(40)  # cubic: 8
