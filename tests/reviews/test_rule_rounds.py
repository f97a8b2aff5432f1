"""Reviews of `.deepreview` rules end: rounds, findings and people, on every database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from application import Clock, call_tool, list_event_types, make_app
from deepwork.edge.cli.framework.applications import call_operation
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.gates.reviews.store import RoundStore
from deepwork.kernel.call import Call
from deepwork.kernel.errors import GateClosed, NotAllowed, NotFound
from deepwork.views.overview.inbox import list_inbox
from deepwork.views.overview.states.view import StateView
from reviews.make import FOLDER, ReviewProject, make_project, make_rule_data, parse_ids

LINES = ["one", "two", "three"]


@pytest.fixture
def project(tmp_path: Path) -> ReviewProject:
    project = make_project(
        tmp_path / "project", python=make_rule_data("*.py"), strict=make_rule_data("*.txt", by="other")
    )
    write(project, *LINES)
    return project


def write(project: ReviewProject, *lines: str, file: str = "a.py") -> None:
    (project.root / file).write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def app(project: ReviewProject, location: str, clock: Clock) -> Iterator[Application]:
    made = make_app(project.root, location, clock)
    yield made
    made.close()


def make_finding(claim: str = "It is wrong.", line: int = 1, **more: Any) -> dict[str, Any]:
    return {"severity": "major", "file": "a.py", "line": line, "claim": claim, **more}


def ask(app: Application, **more: Any) -> str:
    [id] = parse_ids(call_tool(app, "get_review_instructions", **more))
    return id


def report(app: Application, *findings: dict[str, Any], **more: Any) -> Any:
    return call_tool(app, "mark_review_passed", review_id=ask(app), findings=list(findings), **more)


def decide(app: Application, action: str, id: str) -> Any:
    return invoke(app.database, app.operations[action], {"review_id": id}, Call("human:ada", action))


def test_findings_that_block_keep_the_review_open_and_the_next_round_shows_what_changed(
    project: ReviewProject, app: Application
):
    first = ask(app)
    answer = report(app, make_finding("Two is wrong.", 2))
    assert "passed_at" not in answer
    assert (answer["round"], answer["rounds"]) == (1, 3)
    assert answer["findings"][0]["effect"] == "blocks"
    write(project, "one", "2", "three")

    second = ask(app)
    page = (project.root / FOLDER / f"{second}.md").read_text()

    assert first != second
    assert "round 2 of 3" in page
    assert "- major a.py:2: Two is wrong." in page
    assert "-two\n+2\n" in page
    assert "Only blocker and major findings send the work back. After 3 rounds" in page
    assert call_tool(app, "mark_review_passed", review_id=second)["passed_at"]
    assert list_event_types(app) == ["review:failed", "review:passed"]


def test_findings_that_do_not_block_let_the_review_pass_and_are_recorded(app: Application):
    answer = report(app, make_finding("A typo.", severity="minor"))

    assert answer["passed_at"]
    assert [each["effect"] for each in answer["findings"]] == ["noted"]
    with app.database.reading() as tx:
        [entry] = RoundStore(tx, str(app.reviews.planner.root)).list_entries()
    assert entry.round is not None
    assert (entry.rule, entry.round.passed, entry.round.findings[0].claim) == (
        ".deepreview:python:a.py", True, "A typo.",
    )  # fmt: skip


def test_a_late_finding_does_not_block(project: ReviewProject, app: Application):
    report(app, make_finding("One.", 1))
    write(project, "1", "two", "three")

    answer = report(app, make_finding("Three.", 3))

    assert answer["passed_at"]
    assert answer["findings"][0]["effect"] == "late"


def test_a_repeated_report_of_the_same_version_is_one_round(app: Application):
    answers = [report(app, make_finding()) for _ in range(4)]

    assert [each["round"] for each in answers] == [1] * 4


@pytest.fixture
def stuck(project: ReviewProject, app: Application) -> str:
    """A review about which a person must decide."""
    for number in range(2):
        write(project, f"version {number}", *LINES)
        answer = report(app, make_finding(f"Problem {number}.", 2))
    assert (answer["waiting_for"], answer["reason"]) == ("person", "stalled")
    return str(answer["review_id"])


def test_a_review_without_progress_waits_for_a_person_and_is_not_asked_for_again(
    project: ReviewProject, app: Application, stuck: str
):
    write(project, "changed", *LINES)

    text = call_tool(app, "get_review_instructions")

    assert parse_ids(text) == []
    assert "These reviews wait for a person" in text
    assert "python review of a.py (stalled)" in text
    with pytest.raises(GateClosed) as refused:
        call_tool(app, "mark_review_passed", review_id=stuck)
    assert refused.value.to_dict()["waiting_for"] == "person"


def test_what_waits_for_a_person_is_listed_until_they_decide(app: Application, stuck: str):
    with app.database.reading() as tx:
        [need], total = list_inbox(StateView(tx, app.processes))
    [shown] = call_operation(app, "get_home", {})["needs_you"]

    assert (total, need.kind, need.id, need.run) == (1, "review", stuck, None)
    assert need.title == "python — a.py makes no progress in review"
    assert "major a.py:2: Problem 1." in need.detail
    assert need.next == f"deepwork review pass {stuck}"
    offered = [each["tool"] for each in shown["actions"]]
    assert (shown["id"], offered) == (stuck, ["pass_review", "send_back_review", "grant_review_round"])
    decide(app, "grant_review_round", stuck)
    with app.database.reading() as tx:
        assert list_inbox(StateView(tx, app.processes)) == ([], 0)


def test_every_reviewer_ends_within_the_rounds(project: ReviewProject, app: Application):
    for number in range(10):
        write(project, f"version {number}")
        if not parse_ids(call_tool(app, "get_review_instructions")):
            break
        report(app, *(make_finding(f"{number}.{place}", 1, file=None) for place in range(9 - number)))

    assert number == 3


def test_a_person_can_pass_it(app: Application, stuck: str):
    assert decide(app, "pass_review", stuck)["by"] == "human:ada"

    assert "Nothing is left to review" in call_tool(app, "get_review_instructions")


def test_a_person_can_grant_a_round(project: ReviewProject, app: Application, stuck: str):
    decide(app, "grant_review_round", stuck)
    write(project, "better", "two", "three")

    assert call_tool(app, "mark_review_passed", review_id=ask(app))["passed_at"]


def test_a_person_can_send_it_back(project: ReviewProject, app: Application, stuck: str):
    decide(app, "send_back_review", stuck)

    answer = report(app, make_finding("Again.", 1))

    assert (answer["round"], answer.get("waiting_for")) == (1, None)


def test_there_is_nothing_to_decide_about_a_review_that_did_not_fail(app: Application):
    with pytest.raises(NotAllowed, match="nothing to decide"):
        decide(app, "pass_review", ask(app))
    with pytest.raises(NotFound):
        decide(app, "pass_review", "rv_000000000000")


def test_no_agent_is_offered_the_decisions(app: Application):
    assert not {"pass_review", "send_back_review", "grant_review_round"} & set(app.registry)


def test_by_other_refuses_the_agent_that_asked_and_accepts_another(project: ReviewProject, app: Application):
    (project.root / "a.py").unlink()
    write(project, *LINES, file="a.txt")
    for name in ("ada", "bob"):
        call_tool(app, "agent_register", caller=f"token-{name}", name=name, runtime="claude_code")
    id = ask(app, caller="token-ada")

    with pytest.raises(NotAllowed, match="another agent than the author"):
        call_tool(app, "mark_review_passed", caller="token-ada", review_id=id)

    assert call_tool(app, "mark_review_passed", caller="token-bob", review_id=id)["passed_at"]


def test_rounds_of_another_project_in_the_same_store_do_not_count(
    app: Application, stuck: str, tmp_path: Path, location: str, clock: Clock
):
    other = make_project(tmp_path / "other", python=make_rule_data("*.py"))
    write(other, *LINES)
    second = make_app(other.root, location, clock)

    assert len(parse_ids(call_tool(second, "get_review_instructions"))) == 1
    second.close()


def test_old_files_that_are_not_ours_stay(project: ReviewProject, app: Application):
    others = [project.root / f".deepwork/tmp/{name}/notes" for name in ("review_requests", "review_trees")]
    for file in others:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("kept")
        os.utime(file, (0, 0))

    report(app, make_finding())

    assert [file.read_text() for file in others] == ["kept", "kept"]


@pytest.mark.parametrize("file", [".deepreview", ".deepwork/tmp/review_requests"])
def test_a_review_whose_rule_or_request_is_hidden_is_passed_by_nobody(
    project: ReviewProject, app: Application, file: str
):
    write(project, "text", file="a.txt")
    (project.root / "a.py").unlink()
    id = ask(app)
    with pytest.raises(NotAllowed):
        call_tool(app, "mark_review_passed", review_id=id)
    (project.root / file).rename(project.root / "hidden")

    with pytest.raises(NotFound):
        call_tool(app, "mark_review_passed", review_id=id)

    (project.root / "hidden").rename(project.root / file)
    assert ask(app) == id
