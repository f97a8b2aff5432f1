"""A step that was sent back after its minutes are used up waits for a person, whatever the agent tries.

No test waits: a limit of a nanosecond is always used up, and one of a thousand hours never is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from checks.make import run_git
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.errors import DeepworkError
from deepwork.views.overview.inbox import list_inbox
from deepwork.views.overview.states.view import StateView
from deepwork.work.jobs import tools as job_tools
from deepwork.work.jobs.sessions.state import PinnedEntry, Session, SessionEvent
from deepwork.work.jobs.step_checks import ProvenStep, StepChecks
from deepwork.work.jobs.step_rounds import (
    compute_minutes_left,
    count_time,
    find_overrun,
    renew_minutes,
    start_clock,
    stop_clock,
)
from gated_project import GatedProject, any_gated, gated, own_trust
from jobs.project import make_review, make_step, write_files, write_job
from jobs.runs import finish_step, get_session, get_session_file, open_app, start_job

__all__ = ["any_gated", "gated", "own_trust"]

NOTHING = {"minutes": 1.5e-9}
PLENTY: dict[str, float] = {"minutes": 60_000}
PASSED: dict[str, Any] = {
    "review_run_each": "step",
    "passed": True,
    "criteria_results": [{"criterion": "Good", "passed": True}],
}
FAILED: dict[str, Any] = {"review_run_each": "step", "passed": False, "feedback": "It is too short."}
NINE, TEN, ELEVEN = (f"2026-01-01T{hour}:00:00.000Z" for hour in ("09", "10", "11"))


def write_chain(root: Path, *budgets: Mapping[str, float] | None) -> None:
    names = [chr(ord("a") + place) for place in range(len(budgets))]
    write_files(root, *(f"{name}.md" for name in names))
    limits: list[dict[str, Any]] = [{"budget": budget} if budget else {} for budget in budgets]
    steps = [
        make_step(name, reviews=[make_review()], **limit) for name, limit in zip(names, limits, strict=True)
    ]
    write_job(root, "chain", steps)


def fail_review(app: Application, name: str = "a.md") -> dict[str, Any]:
    """Submit a step, and then a review that found something; return the error of that."""
    assert finish_step(app, name)["status"] == "needs_work"  # it asks for a review
    return refuse(app, "finished_step", outputs={name: name}, review_results=[FAILED])


def refuse(app: Application, tool: str, **arguments: Any) -> dict[str, Any]:
    with pytest.raises(DeepworkError) as refused:
        call_tool(app, tool, **arguments)
    return refused.value.to_dict()


def decide(app: Application, action: str, session_id: str, **given: Any) -> Any:
    call = Call("human:ada", action, None)
    return invoke(app.database, app.operations[action], {"session_id": session_id, **given}, call)


def make_session(**given: Any) -> Session:
    entries = (PinnedEntry(("a", "b"), is_concurrent=True), PinnedEntry(("c",)))
    return replace(
        Session("s", "job", "main", "goal", entries, "a", NINE, "local", "me", minutes={"a": 90.0, "c": 5.0}),
        **given,
    )


# The clock


def test_time_counts_for_the_current_steps_while_the_clock_runs():
    running = start_clock(make_session(), NINE)

    counted = count_time(running, TEN)

    assert compute_minutes_left(running, TEN) == compute_minutes_left(counted, TEN) == 30
    assert compute_minutes_left(stop_clock(counted), ELEVEN) == 30
    assert compute_minutes_left(counted, ELEVEN) == 0
    assert compute_minutes_left(replace(counted, current_entry_index=1), NINE) == 5


def test_a_step_whose_minutes_are_used_up_is_named():
    twice = count_time(count_time(start_clock(make_session(), NINE), TEN), ELEVEN)

    found = find_overrun(twice, ["b", "a", "c"], ELEVEN)

    assert found == "Step 'a': The step's budget of 90 minutes is used up: 120 minutes spent."
    assert find_overrun(renew_minutes(twice), ["a"], ELEVEN) is None


def test_a_clock_that_was_set_back_counts_nothing():
    counted = count_time(start_clock(make_session(), TEN), NINE)

    assert counted.worked_ms["a"] == 0


def test_without_limits_nothing_is_counted():
    free = make_session(minutes={})

    assert start_clock(free, NINE) is free
    assert count_time(free, TEN) is free
    assert compute_minutes_left(free, TEN) is None


# What agents and people see


def test_a_step_with_limits_says_how_many_minutes_are_left(tmp_path: Path):
    write_chain(tmp_path, PLENTY, None)
    app = open_app(tmp_path)

    begun = call_tool(app, "start_workflow", goal="g", job_name="chain", workflow_name="main")["begin_step"]
    finish_step(app, "a.md", quality_review_override_reason="sure")
    after = call_tool(app, "get_session")["begin_step"]

    assert 0 < begun["minutes_left"] <= PLENTY["minutes"]
    assert "minutes_left" not in after


def test_work_that_passes_is_accepted_however_long_it_took(tmp_path: Path):
    write_chain(tmp_path, NOTHING)
    app = open_app(tmp_path)
    start_job(app)

    asked = finish_step(app, "a.md")
    passed = finish_step(app, "a.md", review_results=[PASSED])

    assert asked["status"] == "needs_work"
    assert passed["status"] == "workflow_complete"


def test_a_step_that_is_sent_back_within_its_minutes_is_worked_on(tmp_path: Path):
    write_chain(tmp_path, PLENTY)
    app = open_app(tmp_path)
    id = start_job(app)
    finish_step(app, "a.md")

    sent_back = finish_step(app, "a.md", review_results=[FAILED])

    assert sent_back["status"] == "needs_work"
    assert get_session(app, id)["working_since"] is not None


def test_a_step_that_is_sent_back_without_minutes_waits_for_a_person(tmp_path: Path):
    write_chain(tmp_path, NOTHING, None)
    app = open_app(tmp_path)
    id = start_job(app)

    error = fail_review(app)
    again = refuse(
        app, "finished_step", outputs={"a.md": "a.md"}, quality_review_override_reason="It is fine."
    )
    back = refuse(app, "go_to_step", step_id="a")

    assert (error["code"], error["waiting_for"], error["reason"]) == ("BUDGET_USED_UP", "person", "budget")
    assert error["message"].startswith("Step 'a': The step's budget of 0 minutes is used up")
    assert "It is too short." in error["message"]
    assert f"deepwork sessions pass {id}" in error["suggestion"]
    assert (again["code"], again["message"]) == ("BUDGET_USED_UP", error["message"])
    assert "waits for a person" in back["message"]
    assert refuse(app, "abort_workflow", explanation="Again.")["code"] == "BUDGET_USED_UP"
    with app.database.reading() as tx:
        [need] = list_inbox(StateView(tx, app.processes))[0]
    assert (need.kind, need.title) == ("gate", "a used up its minutes")


@pytest.mark.parametrize("action", ["send_back_step", "grant_round"])
def test_a_person_gives_the_minutes_again(tmp_path: Path, action: str):
    write_chain(tmp_path, NOTHING, None)
    app = open_app(tmp_path)
    id = start_job(app)
    fail_review(app)

    decide(app, action, id, **({"text": "Longer."} if action == "send_back_step" else {}))

    session = get_session(app, id)
    assert session["step_progress"]["a"]["person_reason"] is None
    assert (session["worked_ms"], session["working_since"]) == ({}, None)
    handed_out = finish_step(app, "a.md")
    assert (handed_out["status"], get_session(app, id)["working_since"] is None) == ("needs_work", False)


def test_a_person_lets_the_step_pass(tmp_path: Path):
    write_chain(tmp_path, NOTHING, None)
    app = open_app(tmp_path)
    id = start_job(app)
    fail_review(app)

    decide(app, "pass_step", id)

    session = get_session(app, id)
    assert (session["current_step_id"], session["working_since"]) == ("b", None)


def test_the_clock_runs_on_after_every_answer_that_lets_the_agent_work(gated: GatedProject):
    write_job(gated.folder, "report", [make_step("write", checks=["tests"], budget=PLENTY)])
    commit_job(gated)
    gated.write("write.md", "text\n")
    gated.call("start_workflow", goal="g", job_name="report", workflow_name="main")
    gated.write("guarded/x", "mine\n")
    gated.fix()

    answers = [report(gated)]
    (gated.folder / "guarded" / "x").unlink()
    (gated.folder / "good").unlink()
    answers += [report(gated) for _ in range(4)]

    assert [each.get("code") or each["status"] for each, _ in answers] == [
        *["needs_work"] * 3,
        *["CHECKS_FAILED"] * 2,  # a person has to decide now, but it can still be fixed
    ]
    assert all(is_running for _, is_running in answers)


def test_minutes_bind_after_the_last_red_check_too(gated: GatedProject):
    write_job(gated.folder, "report", [make_step("write", checks=["tests"], budget=PLENTY)])
    commit_job(gated)
    gated.write("write.md", "text\n")
    id = gated.call("start_workflow", goal="g", job_name="report", workflow_name="main")["begin_step"][
        "session_id"
    ]
    codes = [report(gated)[0].get("code") for _ in range(3)]
    sessions = gated.app.sessions
    sessions.save(replace(sessions.load(id), minutes={"write": NOTHING["minutes"]}), SessionEvent.UPDATED)

    last, _ = report(gated)

    assert codes == [None, None, "CHECKS_FAILED"]
    assert last["code"] == "BUDGET_USED_UP"


def test_the_time_of_a_check_is_not_the_agents(gated: GatedProject, monkeypatch: pytest.MonkeyPatch):
    write_job(gated.folder, "report", [make_step("write", checks=["tests"], budget={"minutes": 90})])
    commit_job(gated)
    gated.write("write.md", "text\n")
    now = [NINE]
    monkeypatch.setattr(job_tools, "format_now", lambda: now[0])
    prove = StepChecks.prove

    def prove_slowly(checks: StepChecks, session: Session) -> ProvenStep:
        now[0] = ELEVEN
        return prove(checks, session)

    monkeypatch.setattr(StepChecks, "prove", prove_slowly)
    gated.call("start_workflow", goal="g", job_name="report", workflow_name="main")

    red, _ = report(gated)

    assert red["status"] == "needs_work"
    assert gated.call("get_session")["session"]["worked_ms"] == {"write": 0}


def test_a_pending_approval_stops_the_clock_and_a_refused_one_starts_it(gated: GatedProject):
    write_job(gated.folder, "report", [make_step("write", approval={}, budget=PLENTY)])
    commit_job(gated)
    gated.write("write.md", "text\n")
    gated.call("start_workflow", goal="g", job_name="report", workflow_name="main")

    pending, is_running = report(gated)
    decision = {"approval_id": pending["approval"]["id"], "comment": "Longer."}
    refuse_approval = gated.app.operations["refuse_approval"]
    invoke(gated.app.database, refuse_approval, decision, Call("human:ada", "refuse_approval"))
    refused, is_running_again = report(gated)

    assert (pending["waiting_for"], is_running) == ("approval", False)
    assert "Longer." in refused["feedback"]
    assert is_running_again


def commit_job(project: GatedProject) -> None:
    run_git(project.folder, "add", "-A", "-f", ".deepwork/jobs")
    run_git(project.folder, "commit", "-q", "-m", "job")


def report(project: GatedProject) -> tuple[dict[str, Any], bool]:
    """Report the step; return the answer or the error, and whether the clock runs afterwards."""
    try:
        answer = project.call("finished_step", outputs={"write.md": "write.md"})
    except DeepworkError as error:
        answer = error.to_dict()
    return answer, project.call("get_session")["session"]["working_since"] is not None


def test_a_red_check_sends_no_work_back_without_minutes(any_gated: GatedProject):
    project = any_gated
    write_job(project.folder, "report", [make_step("write", checks=["tests"], budget=NOTHING)])
    commit_job(project)
    project.write("write.md", "text\n")
    project.call("start_workflow", goal="g", job_name="report", workflow_name="main")

    error = project.close("finished_step", outputs={"write.md": "write.md"})
    project.fix()
    again = project.close("finished_step", outputs={"write.md": "write.md"})

    assert error["code"] == again["code"] == "BUDGET_USED_UP"
    assert "there is no good" in error["message"]


# Ways around it


def test_going_back_gives_no_new_minutes(tmp_path: Path):
    write_chain(tmp_path, None, NOTHING)
    app = open_app(tmp_path)
    start_job(app)
    finish_step(app, "a.md", quality_review_override_reason="sure")

    refused = [refuse(app, "go_to_step", step_id=step) for step in ("a", "b")]

    assert [each["code"] for each in refused] == ["BUDGET_USED_UP"] * 2
    assert "Step 'b'" in refused[0]["message"]


def test_going_back_keeps_what_was_worked(tmp_path: Path):
    write_chain(tmp_path, PLENTY, PLENTY)
    app = open_app(tmp_path)
    id = start_job(app)
    finish_step(app, "a.md", quality_review_override_reason="sure")

    call_tool(app, "go_to_step", step_id="a")

    assert set(get_session(app, id)["worked_ms"]) == {"a", "b"}


def test_editing_the_job_raises_nothing(gated: GatedProject):
    write_chain(gated.folder, NOTHING)
    commit_job(gated)
    write_chain(gated.folder, PLENTY)  # in the file only

    id = start_job(gated.app)

    assert get_session(gated.app, id)["minutes"] == {"a": NOTHING["minutes"]}


def test_a_step_that_was_renamed_keeps_no_limit_out(gated: GatedProject):
    write_chain(gated.folder, NOTHING)
    commit_job(gated)
    write_job(gated.folder, "chain", [make_step("other")])

    error = refuse(gated.app, "start_workflow", goal="g", job_name="chain", workflow_name="main")

    assert error["code"] == "INVALID_INPUT"
    assert "'a'" in error["message"]


def test_a_session_of_an_earlier_version_goes_on(tmp_path: Path):
    write_chain(tmp_path, None, None)
    app = open_app(tmp_path)
    id = start_job(app)
    stored = json.loads(get_session_file(tmp_path, id).read_bytes())

    answer = finish_step(app, "a.md", quality_review_override_reason="sure")

    assert (stored["minutes"], stored["worked_ms"], stored["working_since"]) == ({}, {}, None)
    assert answer["status"] == "next_step"
