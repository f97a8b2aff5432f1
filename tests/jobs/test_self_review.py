"""An agent's own review is recorded as such; an override stays an override."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import list_events
from deepwork.edge.server.application import Application
from deepwork.work.jobs.definitions.models import StepReview
from deepwork.work.jobs.quality_gate import CriterionResult, Passed, ReviewResult, ReviewTask, SentBack
from deepwork.work.jobs.review_payload import ReviewFile, render_payload
from deepwork.work.jobs.step_gate import complete_verdicts, decide_outcome
from jobs.project import make_files_output, make_review, make_step, write_files, write_job
from jobs.reviewer import Reviewer, make_failing_verdict
from jobs.runs import call_job_tool, finish_step, get_session, open_app, start_job


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_files(tmp_path, "a.md", "b.md")
    review = make_review(Short="Is it short?", Clear="Is it clear?")
    write_job(tmp_path, "chain", [make_step("a", reviews=[review]), make_step("b")])
    files = make_step("a", {"docs": make_files_output()}, [make_review("docs", Short="Is it short?")])
    write_job(tmp_path, "many", [files])
    return tmp_path


@pytest.fixture
def app(root: Path) -> Application:
    return open_app(root)


def make_verdict(run_each: str = "step", target: str | None = None, **wrong: str) -> dict[str, Any]:
    """A verdict in the shape of seed 001; each criterion has feedback, empty if it is met."""
    results = [
        {"criterion": name, "passed": not text, "feedback": text or None} for name, text in wrong.items()
    ]
    passed = not any(wrong.values())
    return {
        "review_run_each": run_each, "target_file": target, "passed": passed,
        "feedback": "" if passed else "Not yet.", "criteria_results": results,
    }  # fmt: skip


def test_a_passed_self_review_is_recorded_as_one_and_not_as_an_override(app: Application):
    id = start_job(app)
    finish_step(app, "a.md")

    answer = finish_step(app, "a.md", review_results=[make_verdict(Short="", Clear="")])

    assert (answer["status"], answer["review"]) == ("next_step", "self_review")
    session = get_session(app, id)
    assert session["overrides"] == []
    [own] = session["self_reviews"]
    assert (own["step_id"], own["passed"]) == ("a", True)
    assert [each["criterion"] for each in own["results"][0]["criteria_results"]] == ["Short", "Clear"]
    assert session["step_progress"]["a"]["quality_attempts"] == 1
    [event] = [each for each in list_events(app) if each.type == "review:passed"]
    assert event.data["self_review"] is True


def test_a_self_review_with_a_failure_sends_the_step_back(app: Application):
    id = start_job(app)
    finish_step(app, "a.md")

    for _ in range(4):  # as often as needed: only a reviewer that the server runs has a limit
        answer = finish_step(app, "a.md", review_results=[make_verdict(Short="Ten pages.", Clear="")])

    assert (answer["status"], answer.get("review")) == ("needs_work", None)
    assert answer["feedback"] == "Not yet.; Short: Ten pages."
    [failed] = answer["failed_reviews"]
    assert (failed["passed"], len(failed["criteria_results"])) == (False, 2)
    assert [each["passed"] for each in get_session(app, id)["self_reviews"]] == [False] * 4
    done = finish_step(app, "a.md", review_results=[make_verdict(Short="", Clear="")])
    assert done["status"] == "next_step"


@pytest.mark.parametrize(
    "verdicts",
    [
        [make_verdict(Short="")],
        [make_verdict()],
        [make_verdict("other", Short="", Clear="")],
        [{**make_verdict(Short="", Clear=""), "passed": False}],
        [{**make_verdict(Short="long", Clear=""), "passed": True}],
        [make_verdict(Short="", Clear="", Kind="No.")],
    ],
)
def test_a_self_review_passes_only_if_every_criterion_was_judged_and_met(
    app: Application, verdicts: list[dict[str, Any]]
):
    start_job(app)

    assert finish_step(app, "a.md", review_results=verdicts)["status"] == "needs_work"


def test_each_file_needs_its_verdict(app: Application):
    start_job(app, "many")
    outputs = {"docs": ["a.md", "b.md"]}
    first, second = (make_verdict("docs", name, Short="") for name in ("a.md", "b.md"))

    answer = call_finish(app, outputs, [first])
    assert answer["feedback"] == "Short: The reviewer did not judge this."
    assert answer["failed_reviews"][0]["target_file"] == "b.md"
    assert call_finish(app, outputs, [first, second])["status"] == "workflow_complete"


def call_finish(app: Application, outputs: dict[str, Any], verdicts: list[dict[str, Any]]) -> Any:
    return call_job_tool(app, "finished_step", outputs=outputs, review_results=verdicts)


def test_an_override_stays_an_override_and_is_shown_as_one(app: Application):
    id = start_job(app)

    answer = finish_step(
        app, "a.md", quality_review_override_reason="Urgent.", review_results=[make_verdict(Short="long")]
    )

    assert (answer["status"], answer["review"]) == ("next_step", "override")
    session = get_session(app, id)
    assert session["overrides"][0]["reason"] == "Urgent."
    assert session["self_reviews"][0]["passed"] is False


def test_a_self_review_does_not_replace_the_reviewer_of_the_server(
    root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    reviewer = Reviewer(
        tmp_path_factory.mktemp("bin") / "reviewer", make_failing_verdict("Murky.", Clear="x")
    )
    for name, value in reviewer.environment.items():
        monkeypatch.setenv(name, value)
    app = open_app(root, external_runner="claude")
    start_job(app)

    honest = finish_step(app, "a.md", review_results=[make_verdict(Short="Ten pages.", Clear="")])
    assert (honest["status"], len(reviewer.calls)) == ("needs_work", 0)
    answer = finish_step(app, "a.md", review_results=[make_verdict(Short="", Clear="")])

    assert (answer["feedback"], len(reviewer.calls)) == ("Murky.", 1)


def test_the_instructions_contain_the_form_of_the_verdicts(root: Path, app: Application):
    id = start_job(app)
    answer = finish_step(app, "a.md")

    page = (root / ".deepwork" / "tmp" / f"quality_review_{id}_a.md").read_text()
    assert "review_results" in answer["feedback"]
    assert '"review_run_each": "step"' in page
    assert '"criterion": "Clear"' in page
    assert "[1 file, named here and not copied: read it]\n- a.md  (output: a.md), 4 bytes" in page


@pytest.mark.parametrize(
    ("count", "limit", "said"),
    [
        (1, 0, "[1 file, named here and not copied: read it]"),
        (2, 0, "[2 files, named here and not copied: read them]"),
        (6, 5, "[6 files, too many to include inline (at most 5): read them]"),
    ],
)
def test_a_payload_says_why_files_are_left_out(tmp_path: Path, count: int, limit: int, said: str):
    files = [ReviewFile(f"{number}.md", "docs") for number in range(count)]
    write_files(tmp_path, *(file.path for file in files))

    assert said in render_payload(tmp_path, [], files, None, limit)


def test_a_large_file_is_left_out_with_its_size(tmp_path: Path):
    (tmp_path / "big.md").write_text("x" * (3 * 1024 * 1024 // 2))

    page = render_payload(tmp_path, [], [ReviewFile("big.md", "docs")], None, 5)

    assert f"[1 file, 1.5 MB, larger than 1.0 MB — not included in review. Read from: {tmp_path}" in page


def test_the_file_of_a_verdict_may_be_left_out_if_there_is_only_one():
    task = ReviewTask(StepReview("docs", {"Short": "?"}, None), (ReviewFile("a.md", "docs"),), "a.md")
    given = ReviewResult("docs", None, True, "", (CriterionResult(" short ", True),))

    [verdict] = complete_verdicts([task], [given])

    assert (verdict.target_file, verdict.passed) == ("a.md", True)
    assert decide_outcome([verdict]) == Passed(how="self_review")
    assert isinstance(decide_outcome(complete_verdicts([task], [])), SentBack)
