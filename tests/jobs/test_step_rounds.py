"""Reviews of a step end, whatever the reviewer says: a real program that follows a script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.run import run_deepwork
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.errors import GateClosed, ToolError
from deepwork.views.overview.inbox import list_inbox
from deepwork.views.overview.run_store import WorkListStore, parse_session_row
from deepwork.views.overview.session_views import build_session_part
from deepwork.views.overview.states.view import StateView
from deepwork.views.overview.states.work_rules import SessionFacts
from deepwork.work.jobs.sessions.files import SessionFiles
from jobs.project import make_files_output, make_review, make_step, write_job
from jobs.reviewer import Reviewer
from jobs.runs import call_job_tool, finish_step, get_session, open_app, start_job

Review = Callable[..., Application]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.md").write_text("one\ntwo\nthree\n")
    write_job(root, "chain", [make_step("a", reviews=[make_review()]), make_step("b")])
    return root


@pytest.fixture
def reviewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reviewer:
    made = Reviewer(tmp_path / "reviewer")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def app(root: Path, reviewer: Reviewer) -> Application:
    return open_app(root, external_runner="claude")


def make_verdict(*findings: dict[str, Any], passed: bool = False) -> dict[str, Any]:
    return {"passed": passed, "feedback": "As found.", "findings": list(findings)}


def make_finding(claim: str = "It is wrong.", line: int | None = 1, **more: Any) -> dict[str, Any]:
    return {"severity": "major", "file": "a.md", "line": line, "claim": claim, "failure": "It fails.", **more}


def decide(app: Application, action: str, id: str, **more: Any) -> Any:
    return invoke(app.database, app.operations[action], {"session_id": id, **more}, Call("human:ada", action))


def work_until_it_ends(
    app: Application, root: Path, limit: int = 30, **more: Any
) -> tuple[str, ToolError | None]:
    """Change the file and submit it again, until it passes or a person must decide."""
    for number in range(limit):
        with (root / "a.md").open("a") as file:
            file.write(f"changed {number}\n")
        try:
            answer = finish_step(app, "a.md", **more)
        except ToolError as error:
            if "until a person decides" in error.suggestion:
                return "person", error
            continue
        if answer["status"] != "needs_work":
            return answer["status"], None
    return "endless", None


# What a verdict with findings does


def test_findings_that_do_not_block_let_the_step_pass_and_are_recorded(app: Application, reviewer: Reviewer):
    reviewer.set_plan(make_verdict(make_finding("A typo.", severity="minor")))
    id = start_job(app)

    answer = finish_step(app, "a.md")

    assert (answer["status"], answer["review"]) == ("next_step", "reviewer")
    noted = {"severity": "minor", "file": "a.md", "line": 1, "claim": "A typo.", "failure": "It fails."}
    assert answer["findings"] == [noted | {"effect": "noted"}]
    [round] = get_session(app, id)["review_rounds"]
    assert (round["rule"], round["round"], round["passed"], round["reviewer"]) == ("step", 1, True, "claude")
    assert round["findings"] == answer["findings"]


def test_a_finding_that_blocks_sends_back_with_its_place(app: Application, reviewer: Reviewer):
    reviewer.set_plan(make_verdict(make_finding("Two is wrong.", 2), passed=True))
    start_job(app)

    answer = finish_step(app, "a.md")

    assert answer["status"] == "needs_work"
    [failed] = answer["failed_reviews"]
    assert failed["findings"] == [
        {"severity": "major", "file": "a.md", "line": 2, "claim": "Two is wrong.", "failure": "It fails."}
    ]


@pytest.mark.parametrize("findings", ["none", [5], [{"severity": "major"}]])
def test_findings_that_are_none_are_no_verdict(app: Application, reviewer: Reviewer, findings: Any):
    reviewer.set_plan({"passed": True, "feedback": "x", "findings": findings}, "pass")
    id = start_job(app)

    assert finish_step(app, "a.md")["status"] == "next_step"  # it was asked again

    assert len(reviewer.calls) == 2
    assert len(get_session(app, id)["review_rounds"]) == 1


# What a round shows


def test_the_second_round_shows_only_what_changed_and_the_open_findings(
    app: Application, root: Path, reviewer: Reviewer
):
    reviewer.set_plan(make_verdict(make_finding("Two is wrong.", 2), make_finding("So is three.", 3)), "pass")
    start_job(app)
    finish_step(app, "a.md")
    (root / "a.md").write_text("one\n2\nthree\n")

    assert finish_step(app, "a.md")["status"] == "next_step"

    first, second = reviewer.prompts
    assert "one\ntwo\nthree" in first
    assert "CHANGES" not in first
    assert "one\n2\nthree" not in second
    assert "@@ line 2 @@\n one\n-two\n+2\n three\n" in second
    assert "- major a.md:2: Two is wrong. (It fails.)" in second
    assert "round 2 of 3" in second


def test_after_a_failure_without_findings_a_round_shows_everything_and_nothing_is_late(
    app: Application, root: Path, reviewer: Reviewer
):
    reviewer.set_plan({"passed": False, "feedback": "No."}, make_verdict(make_finding("Three.", 3)))
    start_job(app)
    finish_step(app, "a.md")
    (root / "a.md").write_text("1\ntwo\nthree\n")

    answer = finish_step(app, "a.md")

    assert answer["status"] == "needs_work"
    assert "1\ntwo\nthree" in reviewer.prompts[1]
    assert "CHANGES" not in reviewer.prompts[1]
    assert "Judge everything again" in reviewer.prompts[1]


def test_with_scope_whole_every_round_shows_everything(app: Application, root: Path, reviewer: Reviewer):
    write_job(root, "whole", [make_step("a", reviews=[{**make_review(), "scope": "whole"}])])
    reviewer.set_plan(make_verdict(make_finding("Two is wrong.", 2)), "pass")
    start_job(app, "whole")
    finish_step(app, "a.md")
    (root / "a.md").write_text("one\n2\nthree\n")

    finish_step(app, "a.md")

    assert "one\n2\nthree" in reviewer.prompts[1]
    assert "CHANGES" not in reviewer.prompts[1]


def test_a_late_finding_does_not_block(app: Application, root: Path, reviewer: Reviewer):
    reviewer.set_plan(make_verdict(make_finding("One.", 1)), make_verdict(make_finding("Three.", 3)))
    id = start_job(app)
    finish_step(app, "a.md")
    (root / "a.md").write_text("1\ntwo\nthree\n")

    answer = finish_step(app, "a.md")

    assert answer["status"] == "next_step"
    assert [(each["claim"], each["effect"]) for each in answer["findings"]] == [("Three.", "late")]
    assert [each["passed"] for each in get_session(app, id)["review_rounds"]] == [False, True]


def test_each_file_has_rounds_of_its_own(app: Application, root: Path, reviewer: Reviewer):
    (root / "b.md").write_text("b\n")
    write_job(root, "many", [make_step("a", {"docs": make_files_output()}, [make_review("docs")])])
    reviewer.set_plan(make_verdict(make_finding()))
    id = start_job(app, "many")

    call_job_tool(app, "finished_step", outputs={"docs": ["a.md", "b.md"]})

    assert sorted(each["rule"] for each in get_session(app, id)["review_rounds"]) == [
        "docs: a.md", "docs: b.md",
    ]  # fmt: skip


# The end

SCRIPTS: dict[str, list[Any]] = {
    "always new": [make_verdict(make_finding(f"Problem {number}.", None)) for number in range(20)],
    "flip-flop": [make_verdict(make_finding(word, None)) for word in ("Too long.", "Too short.")] * 10,
    "rephrasing": [make_verdict(make_finding(f"{'Very ' * number}wrong.", 1)) for number in range(20)],
    "crashing": ["exit 1"],
    "nonsense": ["nonsense"],
    "huge": [make_verdict(*(make_finding(f"{n} " + "x" * 2000, n) for n in range(1, 1500)))],
    "empty": [{}],
    "no findings": [{"passed": False, "feedback": "No."}],
    "crashing at times": ["exit 1", make_verdict(make_finding("Once.", None)), "exit 1", "exit 1"] * 5,
    "crashing, then always new": ["exit 1"] * 6
    + [make_verdict(make_finding(f"Problem {number}.", None)) for number in range(20)],
    "only blockers": [make_verdict(make_finding(f"{n}", 1, severity="blocker")) for n in range(20)],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_reviewer_ends_within_the_bound(app: Application, root: Path, reviewer: Reviewer, script: str):
    reviewer.set_plan(*SCRIPTS[script])
    id = start_job(app)

    end, error = work_until_it_ends(app, root)

    assert end == "person"
    assert len(reviewer.calls) <= 2 * (3 + 1)
    assert isinstance(error, GateClosed)
    assert error.to_dict()["waiting_for"] == "person"
    calls = len(reviewer.calls)
    with pytest.raises(GateClosed):
        finish_step(app, "a.md")
    assert len(reviewer.calls) == calls
    assert SessionFiles(root / ".deepwork" / "tmp").load(id).is_at_gate


def test_the_same_problem_twice_is_a_stall(app: Application, root: Path, reviewer: Reviewer):
    reviewer.set_plan(make_verdict(make_finding("Unclear.", 1)), make_verdict(make_finding("Say more.", 2)))
    start_job(app)
    finish_step(app, "a.md")
    (root / "a.md").write_text("zero\none\ntwo\nthree\n")

    with pytest.raises(GateClosed, match="after 2 attempts without progress") as closed:
        finish_step(app, "a.md")

    assert closed.value.to_dict()["reason"] == "stalled"


def test_a_definition_can_allow_other_rounds_and_severities(app: Application, root: Path, reviewer: Reviewer):
    strict = {**make_review(), "rounds": 1, "blocks": ["minor"]}
    write_job(root, "strict", [make_step("a", reviews=[strict])])
    reviewer.set_plan(make_verdict(make_finding("A typo.", severity="minor")))
    start_job(app, "strict")

    with pytest.raises(GateClosed, match="after 1 attempts"):
        finish_step(app, "a.md")


# A person decides


@pytest.fixture
def stuck(app: Application, root: Path, reviewer: Reviewer) -> str:
    reviewer.set_plan(*(make_verdict(make_finding(word, 1)) for word in "AB"), "pass")
    id = start_job(app)
    finish_step(app, "a.md")
    with pytest.raises(GateClosed):
        finish_step(app, "a.md")
    return id


def test_a_person_can_let_it_pass(app: Application, stuck: str):
    decide(app, "pass_step", stuck)

    answer = finish_step(app, "a.md", step_id="a")

    assert (answer["status"], answer["review"]) == ("next_step", "person")


def test_a_person_can_grant_another_round(app: Application, stuck: str, reviewer: Reviewer):
    assert decide(app, "grant_round", stuck)["attempts_left"] == 2

    assert finish_step(app, "a.md")["status"] == "next_step"
    assert len(reviewer.calls) == 3


def test_a_person_can_send_it_back_and_rounds_begin_again(
    app: Application, root: Path, stuck: str, reviewer: Reviewer
):
    decide(app, "send_back_step", stuck, text="Write it again.")
    reviewer.set_plan(make_verdict(make_finding("A", 1)), "pass")
    assert finish_step(app, "a.md")["feedback"] == "human:ada sent this step back: Write it again."

    assert finish_step(app, "a.md")["status"] == "needs_work"  # no stall: the rounds before are over
    assert finish_step(app, "a.md")["status"] == "next_step"

    assert "CHANGES" not in reviewer.prompts[0]
    rounds = get_session(app, stuck)["review_rounds"]
    assert [(each["round"], each["is_over"]) for each in rounds] == [
        (1, True),
        (2, True),
        (1, False),
        (2, False),
    ]


def test_an_agent_cannot_begin_the_step_again_instead(app: Application, stuck: str):
    with pytest.raises(ToolError, match="'a' waits for a person"):
        call_job_tool(app, "go_to_step", step_id="a")

    assert call_job_tool(app, "go_to_step", step_id="a", session_id=stuck, caller="human:ada")["status"]


def test_an_override_still_passes_and_is_shown_as_one(app: Application, stuck: str):
    answer = finish_step(app, "a.md", quality_review_override_reason="Urgent.")

    assert (answer["status"], answer["review"]) == ("next_step", "override")


# A reviewer without a verdict


def test_a_reviewer_that_fails_once_is_asked_again_in_its_round(app: Application, reviewer: Reviewer):
    reviewer.set_plan("exit 1", "pass")
    id = start_job(app)

    assert finish_step(app, "a.md")["status"] == "next_step"

    assert len(reviewer.calls) == 2
    assert [each["round"] for each in get_session(app, id)["review_rounds"]] == [1]


def test_a_reviewer_that_fails_twice_costs_no_round_and_a_person_may_decide(
    app: Application, reviewer: Reviewer
):
    reviewer.set_plan("exit 1")
    id = start_job(app)

    with pytest.raises(GateClosed, match="quota exceeded") as failed:
        finish_step(app, "a.md")

    assert failed.value.to_dict()["code"] == "REVIEWER_ERROR"
    assert failed.value.to_dict()["waiting_for"] == "person"
    assert len(reviewer.calls) == 2
    assert get_session(app, id)["step_progress"]["a"]["quality_attempts"] == 0
    assert decide(app, "pass_step", id)["status"] == "next_step"


def test_a_step_whose_reviewer_gives_no_verdict_needs_a_person(
    app: Application, root: Path, reviewer: Reviewer
):
    reviewer.set_plan("exit 1")
    id = start_job(app)
    work_until_it_ends(app, root)

    with app.database.reading() as tx:
        needs, total = list_inbox(StateView(tx, app.processes))

    assert (total, needs[0].kind, needs[0].title) == (1, "gate", "a got no verdict from its reviewer")
    assert "quota exceeded" in needs[0].detail
    decide(app, "grant_round", id)
    with app.database.reading() as tx:
        assert list_inbox(StateView(tx, app.processes)) == ([], 0)


# The agent's own reviewer


def submit_own(app: Application, *findings: dict[str, Any], passed: bool = False) -> Any:
    verdict = {
        "review_run_each": "step", "passed": passed, "findings": list(findings),
        "criteria_results": [{"criterion": "Good", "passed": passed}],
    }  # fmt: skip
    return finish_step(app, "a.md", review_results=[verdict])


def test_an_agents_own_review_with_findings_ends_too(root: Path):
    app = open_app(root)
    id = start_job(app)
    page = read_instructions(root, finish_step(app, "a.md"))
    assert '"findings"' in page
    assert submit_own(app, make_finding("A", 1), make_finding("B", 2))["status"] == "needs_work"
    (root / "a.md").write_text("1\ntwo\nthree\n")

    again = read_instructions(root, finish_step(app, "a.md"))
    with pytest.raises(GateClosed, match="without progress"):
        submit_own(app, make_finding("B again", 2))

    assert "- major a.md:1: A" in again
    assert "-one\n+1\n" in again
    with pytest.raises(GateClosed) as closed:
        finish_step(app, "a.md")
    assert closed.value.to_dict()["findings"] == ["major a.md:2: B again (It fails.)"]
    assert decide(app, "pass_step", id)["status"] == "next_step"


def test_an_agents_own_review_passes_with_findings_that_do_not_block(root: Path):
    app = open_app(root)
    start_job(app)

    answer = submit_own(app, make_finding("A typo.", severity="minor"))

    assert (answer["status"], answer["review"]) == ("next_step", "self_review")
    assert answer["findings"][0]["effect"] == "noted"


def test_what_changed_after_the_reviewer_was_asked_is_in_the_next_round(root: Path):
    app = open_app(root)
    start_job(app)
    finish_step(app, "a.md")
    (root / "a.md").write_text("one\n2\nthree\n")  # the reviewer may not have seen it
    submit_own(app, make_finding("Three.", 3))

    page = read_instructions(root, finish_step(app, "a.md"))

    assert "-two\n+2\n" in page


def read_instructions(root: Path, answer: Any) -> str:
    file: str = answer["feedback"].partition('"Read ')[2].partition(" and follow")[0]
    return (root / file).read_text()


# What people see


def test_the_command_line_and_rest_show_rounds_findings_and_who_is_waited_for(
    app: Application, root: Path, stuck: str
):
    shown = run_deepwork(root, "sessions", "show", stuck, "--db", "deepwork.db")

    assert shown.code == 0
    assert "a person (stalled)" in shown.out
    assert "major a.md:1: A (It fails.)" in shown.out
    with app.database.reading() as tx:
        row = parse_session_row(WorkListStore(tx).list_active_sessions(1)[0])
    [step, _] = build_session_part(SessionFacts(row), (), ()).steps
    assert (step.waiting_for, step.waiting_reason) == ("person", "stalled")
    assert [(each.round, each.findings[0].effect) for each in step.rounds or ()] == [
        (1, "blocks"),
        (2, "blocks"),
    ]


# Disputes


def test_a_second_reviewer_judges_all_disputed_findings_at_once_and_only_once(
    app: Application, root: Path, reviewer: Reviewer
):
    first = make_verdict(make_finding("Wrong.", 1), make_finding("Right.", 2), make_finding("Right too.", 3))
    second = make_verdict(make_finding("Wrong, I insist.", 1, severity="blocker"), make_finding("New.", 4))
    reviewer.set_plan(first, {"upheld": [2, 3]}, second, "pass")
    id = start_job(app)
    finish_step(app, "a.md")
    (root / "a.md").write_text("one\n2\n3\nfour\n")

    answer = finish_step(app, "a.md", notes="dispute all: It is as the style guide says.")

    assert answer["status"] == "needs_work"  # the new finding; the rejected one does not block
    found = answer["failed_reviews"][0]["findings"]
    assert [(each["claim"], each.get("effect")) for each in found] == [
        ("New.", None), ("Wrong, I insist.", "rejected"),
    ]  # fmt: skip
    dispute = reviewer.prompts[1]
    assert "1. Reviewer: major a.md:1: Wrong." in dispute
    assert "Author: It is as the style guide says." in dispute
    assert finish_step(app, "a.md", notes="dispute a.md:4: No.")["status"] == "next_step"
    assert len(reviewer.calls) == 4
    assert [each["disputed"] for each in get_session(app, id)["review_rounds"]] == [True, False, False]


def test_disputes_and_a_failing_reviewer_stay_within_the_bound(
    app: Application, root: Path, reviewer: Reviewer
):
    def found(*claims: str) -> dict[str, Any]:
        return make_verdict(*(make_finding(each, None) for each in claims))

    reviewer.set_plan(
        "exit 1", "exit 1", "exit 1", found(*"ABC"), "exit 1", {"upheld": []}, "exit 1", found(*"DE"),
        *(found(each) for each in "FGHI"),
    )  # fmt: skip
    start_job(app)

    end, _ = work_until_it_ends(app, root, notes="dispute all: No.")

    assert (end, len(reviewer.calls)) == ("person", 2 * (3 + 1))


def test_a_reviewer_that_crashes_ends_by_the_rounds_of_its_definition(
    app: Application, root: Path, reviewer: Reviewer
):
    write_job(root, "strict", [make_step("a", reviews=[{**make_review(), "rounds": 1}])])
    reviewer.set_plan("exit 1")
    start_job(app, "strict")

    end, error = work_until_it_ends(app, root)

    assert (end, len(reviewer.calls)) == ("person", 2 * (1 + 1))
    assert isinstance(error, GateClosed)
    assert error.to_dict()["reason"] == "reviewer_error"


def test_a_finding_that_is_upheld_and_comes_back_is_a_persons_turn(app: Application, reviewer: Reviewer):
    reviewer.set_plan(
        make_verdict(make_finding("Wrong.", 1)), {"upheld": [1]}, make_verdict(make_finding("Still.", 1))
    )
    start_job(app)
    finish_step(app, "a.md")

    with pytest.raises(GateClosed, match="without progress"):
        finish_step(app, "a.md", notes="dispute a.md:1: No.")


def test_a_second_reviewer_without_a_verdict_is_asked_again_and_costs_no_round(
    app: Application, reviewer: Reviewer
):
    reviewer.set_plan(make_verdict(make_finding("Wrong.", 1)), "nonsense", {"upheld": "all"})
    id = start_job(app)
    finish_step(app, "a.md")

    with pytest.raises(GateClosed, match="upheld") as failed:
        finish_step(app, "a.md", notes="dispute a.md: No.")

    assert failed.value.to_dict()["code"] == "REVIEWER_ERROR"
    assert get_session(app, id)["step_progress"]["a"]["quality_attempts"] == 1


def test_by_other_refuses_the_authors_own_verdicts_and_accepts_those_of_another_agent(root: Path):
    write_job(root, "other", [make_step("a", reviews=[{**make_review(), "by": "other"}])])
    app = open_app(root)
    for name in ("ada", "bob"):
        call_job_tool(app, "agent_register", caller=f"token-{name}", name=name, runtime="claude_code")
    begun = call_job_tool(
        app, "start_workflow", caller="token-ada", goal="x", job_name="other", workflow_name="main"
    )
    given = {"session_id": begun["begin_step"]["session_id"]}
    met = [{"criterion": "Good", "passed": True}]
    verdicts = [{"review_run_each": "step", "passed": True, "criteria_results": met}]
    finish_step(app, "a.md", caller="token-ada", **given)

    with pytest.raises(ToolError, match="another agent than the author"):
        finish_step(app, "a.md", caller="token-ada", review_results=verdicts, **given)
    answer = finish_step(app, "a.md", caller="token-bob", review_results=verdicts, **given)

    assert (answer["status"], answer["review"]) == ("workflow_complete", "self_review")
