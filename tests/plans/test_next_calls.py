"""Answers spare the next call: a claim can start the task, and the end of a task names what comes next."""

from __future__ import annotations

import threading

import pytest

from plans.world import Plan, World


@pytest.fixture
def plan(world: World) -> Plan:
    return world.create_plan("a", "b", {"name": "c", "depends_on": ["a"]}, max_parallel_tasks=3)


@pytest.fixture
def agent(world: World) -> str:
    return world.register_agent(name="Ada")


def test_a_claim_says_that_the_task_is_not_started_and_what_to_call(plan: Plan, agent: str):
    claimed = plan.claim("a", agent)

    assert (claimed["success"], claimed["status"]) == (True, "pending")
    assert "task_update_status" in claimed["next_step"]
    assert "context" not in claimed


def test_a_claim_can_start_the_task(plan: Plan, agent: str):
    claimed = plan.claim("a", agent, start=True)

    assert (claimed["status"], claimed.get("next_step")) == ("in_progress", None)
    task = plan.get_task("a")
    assert (task["status"], task["attempts"], task["assigned_agent_id"]) == ("in_progress", 1, agent)
    assert plan.status == "in_progress"


def test_starting_twice_changes_nothing(plan: Plan, agent: str):
    first = plan.claim("a", agent, start=True)
    again = plan.claim("a", agent, start=True)

    assert (again["status"], again["claim_epoch"]) == ("in_progress", first["claim_epoch"])
    assert plan.get_task("a")["attempts"] == 1


def test_a_claim_of_a_failed_task_can_start_it_again(plan: Plan, agent: str):
    plan.set_status("a", "failed")

    assert plan.claim("a", agent, start=True)["status"] == "in_progress"
    assert plan.get_task("a")["attempts"] == 2


def test_a_refused_claim_starts_nothing(plan: Plan, agent: str):
    refused = plan.claim("c", agent, start=True, include_context=True)

    assert (refused["success"], refused["reason"]) == (False, "blocked")
    assert "status" not in refused
    assert "context" not in refused
    assert plan.get_task("c")["status"] == "pending"


def test_a_claim_can_include_the_context(world: World, plan: Plan, agent: str):
    claimed = plan.claim("a", agent, start=True, include_context=True)

    loaded = world.call("task_load_context", task_id=plan["a"])
    del loaded["token_estimate"], loaded["current_task"]["claim"]  # the claim itself says who holds it
    assert claimed["context"] == loaded
    assert claimed["context"]["current_task"]["status"] == "in_progress"


def test_a_later_claim_does_not_repeat_the_request_and_the_plan(plan: Plan, agent: str):
    plan.claim("a", agent, include_context=True)

    context = plan.claim("b", agent, include_context=True)["context"]

    assert not {"source_summary", "plan_summary", "plan"} & context["workflow"].keys()
    assert context["truncated"] == [
        {"section": "request, plan and earlier tasks, as before", "how": "task_load_context"}
    ]
    assert context["current_task"]["name"] == "b"


def test_a_later_claim_shows_what_others_finished_since_the_last_one(world: World, agent: str):
    other = world.register_agent(name="Bob")
    plan = world.create_plan(
        {"name": "early", "sequence": 1}, {"name": "own", "sequence": 1}, {"name": "late", "sequence": 1},
        {"name": "middle", "sequence": 2}, {"name": "last", "sequence": 3, "depends_on": ["middle"]},
        max_parallel_tasks=5,
    )  # fmt: skip
    finish(plan, "early", other)
    world.clock.advance(seconds=1)
    finish(plan, "own", agent)
    world.clock.advance(seconds=1)
    finish(plan, "late", other)
    finish(plan, "middle", other)

    context = plan.claim("last", agent, include_context=True)["context"]

    assert [task["name"] for task in context["prior_tasks"]] == ["late"]
    assert [task["task_name"] for task in context["dependency_outcomes"]] == ["middle"]


def finish(plan: Plan, name: str, agent: str) -> None:
    plan.claim(name, agent, start=True)
    plan.set_status(name, "completed", agent_id=agent)


def test_the_end_of_a_task_names_the_tasks_to_claim_next(plan: Plan, agent: str):
    plan.claim("a", agent, start=True)

    done = plan.set_status("a", "completed", agent_id=agent)

    assert done == {
        "success": True,
        "next_tasks": [{"id": plan["b"], "name": "b"}, {"id": plan["c"], "name": "c"}],
    }


def test_other_statuses_name_no_next_tasks(plan: Plan):
    assert plan.set_status("a", "in_progress") == {"success": True}


def test_no_next_tasks_are_named_at_the_parallel_limit(world: World):
    plan = world.create_plan("a", "b", "c", max_parallel_tasks=1)
    plan.set_status("a", "in_progress")

    assert plan.set_status("b", "skipped") == {"success": True}


def test_at_most_three_next_tasks_are_named(world: World):
    plan = world.create_plan(*"abcdefg")

    assert [task["name"] for task in plan.set_status("a", "completed")["next_tasks"]] == ["b", "c", "d"]


def test_the_end_of_the_last_task_says_that_all_are_done(world: World):
    plan = world.create_plan("a")

    assert plan.set_status("a", "completed") == {"success": True, "all_complete": True}


def test_an_empty_list_names_the_tasks_it_waits_for_and_their_holders(world: World, agent: str):
    plan = world.create_plan("a", {"name": "b", "depends_on": ["a"]})
    plan.claim("a", agent)

    reason = plan.get_next_tasks()["reason"]

    assert reason == "1 task waits for 'a' (held by Ada). wait_seconds waits for a change."


def test_an_empty_list_says_that_all_tasks_are_done(world: World):
    plan = world.create_plan("a", "b")
    plan.set_status("a", "completed")
    plan.set_status("b", "skipped")

    assert plan.get_next_tasks()["reason"] == "The workflow is completed; its tasks cannot be claimed."


def test_an_empty_list_says_that_tasks_failed(world: World):
    plan = world.create_plan("a", {"name": "b", "depends_on": ["a"]})
    plan.set_status("a", "failed")

    assert "1 failed" in plan.get_next_tasks(include_failed=False)["reason"]
    assert "reason" not in plan.get_next_tasks()


def test_an_empty_list_names_who_paused_the_workflow(world: World):
    plan = world.create_plan("a")
    world.call("workflow_update_status", id=plan.id, status="paused", caller="human:Eve", reason="lunch")

    assert plan.get_next_tasks()["reason"].startswith("Workflow 'release' was paused by human:Eve (lunch).")


def test_waiting_ends_when_a_task_can_be_claimed(world: World):
    plan = world.create_plan("a", {"name": "b", "depends_on": ["a"]})
    plan.set_status("a", "in_progress")
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(plan.list_offered(wait_seconds=30)))

    waiting.start()
    plan.set_status("a", "completed")
    waiting.join()

    assert answers == [["b"]]


def test_waiting_ends_at_once_if_the_workflow_is_paused(world: World):
    plan = world.create_plan("a")
    world.call("workflow_update_status", id=plan.id, status="paused")

    assert "paused" in plan.get_next_tasks(wait_seconds=30)["reason"]
