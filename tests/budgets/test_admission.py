"""Budgets and the backlog of reviews, in the claim's transaction."""

from __future__ import annotations

from typing import Any

import pytest

from application import Clock, call_tool, list_events
from budgets.make import claim, create_plan, end, report
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.gates.budgets.models import SubjectKind
from deepwork.gates.budgets.service import BudgetService
from deepwork.kernel.call import Call
from deepwork.kernel.errors import GateClosed
from statement_counter import count_statements


@pytest.fixture
def agents(app: Application) -> list[str]:
    return [call_tool(app, "agent_register", name=name, runtime="custom")["id"] for name in ("a", "b", "c")]


def test_the_reserve_of_a_running_task_is_not_given_twice(app: Application, agents: list[str]):
    _, first, second = create_plan(
        app, {"name": "a", "budget": {"usd": 1}}, {"name": "b", "budget": {"usd": 1}}, budget={"usd": 1.5}
    )

    granted = claim(app, first, agents[0])
    refused = claim(app, second, agents[1])

    assert granted["success"]
    assert not refused["success"]
    assert refused["reason"] == "budget"
    assert "$1.00 reserved by running tasks" in refused["message"]
    assert "A running task that ends frees what it did not spend." in refused["message"]


def test_a_task_that_ends_frees_what_it_did_not_spend(app: Application, agents: list[str]):
    _, first, second = create_plan(
        app, {"name": "a", "budget": {"usd": 1}}, {"name": "b", "budget": {"usd": 1}}, budget={"usd": 1.5}
    )
    claim(app, first, agents[0])
    report(app, first, usd=0.25)

    end(app, first, agents[0])

    assert claim(app, second, agents[1])["success"]


def test_what_a_running_task_spent_is_not_counted_twice(app: Application, agents: list[str]):
    _, first, second = create_plan(
        app, {"name": "a", "budget": {"usd": 1}}, {"name": "b", "budget": {"usd": 0.5}}, budget={"usd": 1.5}
    )
    claim(app, first, agents[0])
    report(app, first, usd=0.8)

    assert claim(app, second, agents[1])["success"]


def test_a_running_task_over_its_budget_counts_with_what_it_spent(app: Application, agents: list[str]):
    _, first, second = create_plan(
        app, {"name": "a", "budget": {"usd": 1}}, {"name": "b", "budget": {"usd": 0.5}}, budget={"usd": 1.5}
    )
    claim(app, first, agents[0])
    report(app, first, usd=1.2)

    assert claim(app, second, agents[1])["reason"] == "budget"


def test_a_plan_that_spent_its_tokens_hands_out_nothing(app: Application, agents: list[str]):
    plan, first, second = create_plan(app, {"name": "a"}, {"name": "b"}, budget={"tokens": 1000})
    claim(app, first, agents[0])
    report(app, first, tokens=1000)

    refused = claim(app, second, agents[1])

    assert refused["reason"] == "budget"
    assert refused["message"] == (
        "The plan's budget of 1,000 tokens is used up: 1,000 tokens spent."
        f" A person raises it: `deepwork budget set {plan} --tokens N`."
    )


def test_minutes_bind_without_any_report(app: Application, agents: list[str], clock: Clock):
    _, first, second = create_plan(app, {"name": "a"}, {"name": "b"}, budget={"minutes": 10})
    claim(app, first, agents[0])
    clock.advance(seconds=60)
    call_tool(app, "agent_heartbeat", agent_id=agents[0])
    assert claim(app, second, agents[1])["success"]
    call_tool(app, "task_release", task_id=second, agent_id=agents[1])
    for _ in range(9):
        clock.advance(seconds=60)
        call_tool(app, "agent_heartbeat", agent_id=agents[0])

    assert claim(app, second, agents[1])["reason"] == "budget"


def test_minutes_of_ended_claims_stay_counted(app: Application, agents: list[str], clock: Clock):
    _, first, second = create_plan(app, {"name": "a"}, {"name": "b"}, budget={"minutes": 1})
    claim(app, first, agents[0])
    clock.advance(seconds=60)
    end(app, first, agents[0])

    assert claim(app, second, agents[1])["reason"] == "budget"


def test_the_time_of_a_silent_agent_counts_until_its_lease_ended(
    app: Application, agents: list[str], clock: Clock
):
    _, first, second = create_plan(app, {"name": "a"}, {"name": "b"}, budget={"minutes": 5})
    claim(app, first, agents[0])
    clock.advance(seconds=3600)

    assert claim(app, second, agents[1])["success"]


def test_a_task_over_its_own_minutes_is_not_claimed_again(app: Application, agents: list[str], clock: Clock):
    _, task = create_plan(app, {"name": "a", "budget": {"minutes": 1.5}})
    claim(app, task, agents[0])
    clock.advance(seconds=80)
    call_tool(app, "agent_heartbeat", agent_id=agents[0])
    clock.advance(seconds=10)
    call_tool(app, "task_release", task_id=task, agent_id=agents[0])

    refused = claim(app, task, agents[1])

    assert refused["reason"] == "budget"
    assert "The task's budget of 1.5 minutes is used up: 1.5 minutes spent." in refused["message"]


def test_an_agent_cannot_start_a_task_over_its_budget_instead_of_claiming_it(
    app: Application, agents: list[str]
):
    _, task = create_plan(app, {"name": "a", "budget": {"usd": 1}})
    claim(app, task, agents[0], start=True)
    report(app, task, usd=1)
    call_tool(app, "task_update_status", id=task, status="failed", error="Too big.", agent_id=agents[0])

    for caller in ({"agent_id": agents[0]}, {"agent_id": agents[1]}):
        with pytest.raises(Exception, match="is used up"):
            call_tool(app, "task_update_status", id=task, status="in_progress", **caller)


def test_a_caller_without_an_agent_cannot_start_a_task_past_the_budget(app: Application, clock: Clock):
    _, first, second = create_plan(app, {"name": "a"}, {"name": "b"}, budget={"minutes": 1})
    call_tool(app, "task_update_status", id=first, status="in_progress")
    clock.advance(seconds=61)

    with pytest.raises(Exception, match="is used up"):
        call_tool(app, "task_update_status", id=second, status="in_progress")


def test_an_agent_learns_in_its_answers_that_the_budget_ended(app: Application, agents: list[str]):
    plan, task = create_plan(app, {"name": "a"}, budget={"usd": 1})
    claim(app, task, agents[0])

    before, after = report(app, task, usd=0.5), report(app, task, usd=0.5)

    assert "warning" not in before
    assert "is used up" in after["warning"]
    assert [event.type for event in list_events(app) if event.workflow_id == plan].count(
        "budget:reached"
    ) == 1


def test_a_reached_budget_is_announced_once(app: Application, agents: list[str]):
    plan, first, second = create_plan(app, {"name": "a"}, {"name": "b"}, budget={"usd": 1})
    claim(app, first, agents[0])
    report(app, first, usd=2)

    for agent in agents:
        claim(app, second, agent)

    assert [event.type for event in list_events(app) if event.workflow_id == plan].count(
        "budget:reached"
    ) == 1


def test_answers_say_why_nothing_is_offered(app: Application, agents: list[str]):
    plan, first, _ = create_plan(app, {"name": "a"}, {"name": "b"}, budget={"usd": 1})
    claim(app, first, agents[0])
    report(app, first, usd=1)

    following = call_tool(app, "workflow_next_tasks", workflow_id=plan)
    available = call_tool(app, "task_get_available", agent_id=agents[1], workflow_id=plan)
    anywhere = call_tool(app, "task_get_available", agent_id=agents[1])
    progress = call_tool(app, "workflow_progress", workflow_id=plan)

    assert (following["tasks"], following["recommended_count"], following["total_available"]) == ([], 0, 0)
    assert available["tasks"] == anywhere["tasks"] == []
    for answer in (following, available, anywhere, progress):
        assert "budget of $1.00 is used up" in answer["reason"]


def test_only_tasks_that_fit_are_offered(app: Application, agents: list[str]):
    plan, _, small = create_plan(
        app, {"name": "big", "budget": {"usd": 5}}, {"name": "small", "budget": {"usd": 1}}, budget={"usd": 2}
    )

    following = call_tool(app, "workflow_next_tasks", workflow_id=plan)
    available = call_tool(app, "task_get_available", agent_id=agents[0])

    assert [task["id"] for task in following["tasks"]] == [small]
    assert [task["id"] for task in available["tasks"]] == [small]


def test_results_that_wait_for_a_person_hold_back_new_tasks(app: Application, agents: list[str]):
    plan, first, second, third = create_plan(
        app, {"name": "a"}, {"name": "b"}, {"name": "c"}, max_unreviewed=2
    )
    for task in (first, second):
        with app.database.transaction() as tx:
            tx.execute("UPDATE plan_tasks SET waits_for = 'approval' WHERE id = :id", id=task)

    refused = claim(app, third, agents[0])

    assert refused["reason"] == "review_backlog"
    assert "2 results wait for a person, and the plan allows 2." in refused["message"]
    assert "deepwork approvals list" in call_tool(app, "workflow_progress", workflow_id=plan)["reason"]
    with app.database.transaction() as tx:
        tx.execute("UPDATE plan_tasks SET waits_for = NULL WHERE id = :id", id=first)
    assert claim(app, third, agents[0])["success"]


def test_a_claim_costs_the_same_whatever_the_ledger_has(app: Application, agents: list[str], clock: Clock):
    plan, first, second, third = create_plan(
        app, {"name": "a"}, {"name": "b"}, {"name": "c"}, budget={"usd": 1000, "minutes": 1000}
    )
    claim(app, first, agents[0])
    clock.advance(seconds=1)
    with count_statements() as few:
        claim(app, second, agents[1])
    for _ in range(30):
        report(app, first, usd=1, tokens=5)
    clock.advance(seconds=1)

    with count_statements() as many:
        claim(app, third, agents[2])

    assert many.count <= few.count
    assert not [sql for sql in many.statements if "FROM spending " in sql]
    assert plan


def test_work_that_waits_for_approval_counts_as_unreviewed_and_its_clock_stands(
    app: Application, agents: list[str], clock: Clock
):
    plan, first, second = create_plan(
        app,
        {"name": "a", "approval": "after"},
        {"name": "b"},
        budget={"minutes": 2, "usd": 9},
        max_unreviewed=1,
    )
    claim(app, first, agents[0], start=True)
    clock.advance(seconds=60)
    done: dict[str, Any] = {
        "id": first,
        "status": "completed",
        "outcome": "Done.",
        "outcome_detail": {"usage": {"usd": 1}},
    }
    with pytest.raises(GateClosed) as closed:
        call_tool(app, "task_update_status", agent_id=agents[0], **done)
    clock.advance(seconds=3600)

    refused = claim(app, second, agents[1])
    approval = closed.value.evidence["approval"]["id"]
    person = Call("human:ann", "refuse_approval")
    invoke(app.database, app.operations["refuse_approval"], {"approval_id": approval}, person)

    assert refused["reason"] == "review_backlog"
    assert claim(app, second, agents[1])["success"]
    with app.database.reading() as tx:
        total = BudgetService(tx).find_total(SubjectKind.PLAN, plan).cost
    assert (total.active_ms, total.usd_micros) == (60_000, 1_000_000)
