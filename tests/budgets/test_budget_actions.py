"""Raising a budget is a person's act; what it does to claims, events, history and what waits for people."""

from __future__ import annotations

from pathlib import Path

import pytest

from access.make import list_entries
from application import Clock, call_tool, list_events, make_app
from budgets.make import claim, create_plan, end, report, set_budget, write_user_settings
from deepwork.edge.cli.main import deepwork
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.user_settings import CredentialKind
from deepwork.views.overview.inbox import list_inbox
from deepwork.views.overview.spending import build_spending
from deepwork.views.overview.states.view import StateView


@pytest.fixture
def agent(app: Application) -> str:
    registered: str = call_tool(app, "agent_register", name="a", runtime="custom")["id"]
    return registered


def test_a_person_raises_the_budget_of_a_plan(app: Application, agent: str):
    plan, first, second = create_plan(app, {"name": "a"}, {"name": "b"}, budget={"usd": 1})
    claim(app, first, agent)
    report(app, first, usd=1)
    assert claim(app, second, agent)["reason"] == "budget"

    answer = set_budget(app, plan, usd=2)

    assert (answer["budget"], answer["before"], answer["raised"]) == ({"usd": 2.0}, {"usd": 1}, True)
    assert claim(app, second, agent)["success"]
    changed = [event for event in list_events(app) if event.type == "budget:changed"]
    assert [event.data["after"] for event in changed] == [{"usd": 2.0}]
    history = call_tool(app, "workflow_get", id=plan, include_history=True)["history"]
    [line] = [line for line in history if line["what"] == "budget"]
    assert (line["before"], line["after"], line["by_whom"]) == ("$1.00", "$2.00", "human:ann")
    found = invoke(app.database, app.operations["list_approvals"], {"all": True, "workflow_id": plan}, Call())
    [approval] = found["approvals"]
    assert tuple(approval[key] for key in ("kind", "status", "decided_by", "method")) == (
        "budget",
        "used",
        "human:ann",
        "token",
    )
    [entry] = [each.entry for each in list_entries(app) if each.entry.tool == "set_budget"]
    assert entry.outcome == f"used:{approval['digest']}"


def test_doctor_names_plans_that_stopped_at_a_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    app = make_app(tmp_path, "")
    plan, first, second = create_plan(app, {"name": "a"}, {"name": "b"}, budget={"usd": 1})
    agent = call_tool(app, "agent_register", name="a", runtime="custom")["id"]
    claim(app, first, agent)
    report(app, first, usd=1)
    claim(app, second, agent)
    app.close()

    with pytest.raises(SystemExit):
        deepwork(["doctor", "--path", str(tmp_path)])

    [problem] = [line for line in capsys.readouterr().out.splitlines() if plan in line]
    assert problem.startswith(f'PROBLEM: Plan "release" ({plan}) waits: "release used up its budget".')
    assert problem.endswith(f"deepwork budget set {plan} --usd N")


def test_an_agent_cannot_raise_a_budget(app: Application, agent: str):
    plan, task = create_plan(app, {"name": "a", "budget": {"usd": 1}}, budget={"usd": 1})

    for subject in (plan, task):
        for given in ({"usd": 2}, {"tokens": 5, "remove_others": True}):
            with pytest.raises(NotAllowed, match="Only a person"):
                set_budget(app, subject, caller=agent, **given)


def test_lowering_a_budget_needs_no_proof(app: Application, agent: str):
    plan, _ = create_plan(app, {"name": "a"}, budget={"usd": 5})

    assert set_budget(app, plan, usd=1)["raised"] is False
    assert set_budget(app, plan, minutes=30)["budget"] == {"usd": 1.0, "minutes": 30.0}


def test_raising_needs_the_proof_that_the_settings_demand(
    app: Application, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    plan, _ = create_plan(app, {"name": "a"}, budget={"usd": 1})
    write_user_settings(tmp_path, monkeypatch, f"approvals: {{proof: {CredentialKind.PASSPHRASE}}}")

    with pytest.raises(NotAllowed, match="passphrase"):
        set_budget(app, plan, usd=2)

    assert set_budget(app, plan, usd=0.5)["budget"] == {"usd": 0.5}


def test_a_task_gets_more_when_a_person_raises_its_budget(app: Application, agent: str):
    _, task = create_plan(app, {"name": "a", "budget": {"tokens": 10}})
    claim(app, task, agent)
    report(app, task, tokens=10)
    call_tool(app, "task_release", task_id=task, agent_id=agent)
    assert claim(app, task, agent)["reason"] == "budget"

    set_budget(app, task, tokens=20)

    assert claim(app, task, agent)["success"]


def test_minutes_that_were_used_before_the_limit_was_set_count(app: Application, agent: str, clock: Clock):
    plan, first, second = create_plan(app, {"name": "a"}, {"name": "b"})
    claim(app, first, agent)
    clock.advance(seconds=60)
    end(app, first, agent)

    set_budget(app, plan, minutes=1)

    assert claim(app, second, agent)["reason"] == "budget"


def test_a_plan_that_stopped_at_its_budget_waits_for_a_person(app: Application, agent: str):
    plan, first, second = create_plan(app, {"name": "a"}, {"name": "b"}, budget={"usd": 1})
    claim(app, first, agent)
    report(app, first, usd=1)
    claim(app, second, agent)

    with app.database.reading() as tx:
        before, _ = list_inbox(StateView(tx, app.processes))
    set_budget(app, plan, usd=3)
    with app.database.reading() as tx:
        after, _ = list_inbox(StateView(tx, app.processes))

    assert [(need.kind, need.id, need.title) for need in before] == [
        ("budget", plan, "release used up its budget")
    ]
    assert after == []


def test_a_replan_cannot_raise_the_budget_of_a_task(app: Application, agent: str):
    plan, _ = create_plan(app, {"name": "a", "budget": {"usd": 1}})

    for tasks in ([{"name": "a", "budget": {"usd": 2}}], [{"name": "a"}]):
        with pytest.raises(NotAllowed, match="budget"):
            call_tool(app, "workflow_replan", workflow_id=plan, reason="More.", tasks=tasks)

    lower = [{"name": "a", "budget": {"usd": 0.5}}, {"name": "b", "budget": {"usd": 9}}]
    assert call_tool(app, "workflow_replan", workflow_id=plan, reason="Less.", tasks=lower)
    call_tool(
        app, "workflow_replan", "k", "human:ann", workflow_id=plan, reason="More.", tasks=[{"name": "a"}]
    )


def test_a_task_does_not_lose_its_minutes_by_a_replan(app: Application, agent: str, clock: Clock):
    plan, task = create_plan(app, {"name": "a", "budget": {"minutes": 1}})
    claim(app, task, agent)
    clock.advance(seconds=60)
    call_tool(app, "task_release", task_id=task, agent_id=agent)

    with pytest.raises(Exception, match="'a'"):
        call_tool(
            app,
            "workflow_replan",
            workflow_id=plan,
            reason="Again.",
            tasks=[{"name": "a", "budget": {"minutes": 1}}],
        )


def test_the_day_limits_all_plans_together(
    app: Application, agent: str, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_user_settings(tmp_path, monkeypatch, "budget: {day: {usd: 1.5}}")
    _, first = create_plan(app, {"name": "a", "budget": {"usd": 1}})
    _, second = create_plan(app, {"name": "b", "budget": {"usd": 1}})

    granted, refused = claim(app, first, agent), claim(app, second, agent)
    available = call_tool(app, "task_get_available", agent_id=agent)

    assert granted["success"]
    assert refused["reason"] == "budget"
    assert "The day's budget of $1.50 does not allow it" in refused["message"]
    assert "The day's budget" in available["reason"]
    report(app, first, usd=1.5)
    end(app, first, agent)
    clock.advance(seconds=24 * 3600)
    assert claim(app, second, agent)["success"]


def test_no_variable_leads_past_the_budget_of_the_day(
    app: Application, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "home" / ".config" / "deepwork"
    folder.mkdir(mode=0o700, parents=True)
    (folder / "config.yml").write_text("budget: {day: {usd: 1.5}}")
    monkeypatch.setattr("deepwork.kernel.environment._find_account_home", lambda: tmp_path / "home")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "elsewhere"))
    _, task = create_plan(app, {"name": "a", "budget": {"usd": 2}})

    refused = claim(app, task, agent)

    assert (refused["success"], refused["reason"]) == (False, "budget")


def test_a_day_that_is_used_up_waits_for_a_person_until_a_task_is_handed_out(
    app: Application, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_user_settings(tmp_path, monkeypatch, "budget: {day: {usd: 1}}")
    _, first, second = create_plan(app, {"name": "a"}, {"name": "b"})
    claim(app, first, agent)
    report(app, first, usd=1)
    claim(app, second, agent)

    with app.database.reading() as tx:
        before, total = list_inbox(StateView(tx, app.processes))
    (tmp_path / "user" / "deepwork" / "config.yml").write_text("budget: {day: {usd: 20}}")
    assert claim(app, second, agent)["success"]
    with app.database.reading() as tx:
        after, _ = list_inbox(StateView(tx, app.processes))

    [need] = before
    assert (need.kind, need.title, total) == ("budget", "Today's budget is used up", 1)
    assert "$1.00" in need.detail
    assert need.next == "deepwork spend --by day"
    assert after == []


def test_minutes_of_the_day_bind(
    app: Application, agent: str, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_user_settings(tmp_path, monkeypatch, "budget: {day: {minutes: 1}}")
    _, first = create_plan(app, {"name": "a"})
    _, second = create_plan(app, {"name": "b"})
    claim(app, first, agent)
    clock.advance(seconds=60)
    end(app, first, agent)

    assert claim(app, second, agent)["reason"] == "budget"


def test_spending_is_added_up_in_several_ways(app: Application, agent: str):
    plan, first, second = create_plan(app, {"name": "a"}, {"name": "b"}, budget={"usd": 9})
    claim(app, first, agent)
    report(app, first, usd=1, tokens=10, vendor="acme")
    report(app, second, input_tokens=1_000_000, output_tokens=0, model="claude-sonnet-4-5")

    with app.database.reading() as tx:
        by_task = build_spending(tx, "task", plan)
        by_vendor = build_spending(tx, "vendor")
        by_day = build_spending(tx, "day")
        by_agent = build_spending(tx, "agent")

    assert [(line["name"], line["usd"], line["sources"]) for line in by_task["spending"]] == [
        ("b", 3.0, ["priced"]),
        ("a", 1.0, ["unverified"]),
    ]
    assert by_task["plan"]["spent"]["usd"] == 4.0
    assert by_task["plan"]["sources"] == {"priced": 3.0, "unverified": 1.0}
    assert {line["vendor"]: line["usd"] for line in by_vendor["spending"]} == {"anthropic": 3.0, "acme": 1.0}
    assert [line["usd"] for line in by_day["spending"]] == [4.0]
    assert sum(line["tokens"] for line in by_agent["spending"]) == 1_000_010
