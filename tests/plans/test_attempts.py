"""A task that failed as often as it may waits for a person, who can give it new attempts."""

from __future__ import annotations

from typing import Any

import pytest

from application import call_tool
from deepwork.kernel.errors import Code, DeepworkError
from deepwork.views.overview.inbox import list_inbox
from deepwork.views.overview.states.view import StateView
from plans.world import Plan, World

PERSON = "human:Ada"


def create_plan(world: World, *tasks: dict[str, Any], **keys: Any) -> Plan:
    """Create a plan with these tasks and further keys."""
    id = world.create_workflow(max_parallel_tasks=100)
    world.call("workflow_set_plan", id=id, plan={"summary": "s", "tasks": list(tasks), **keys})
    return Plan(world, id)


def fail(world: World, task: str, times: int = 1) -> None:
    for number in range(times):
        agent = world.register_agent()
        assert world.call("task_claim", task_id=task, agent_id=agent)["success"]
        world.call(
            "task_update_status", id=task, status="failed", error=f"It broke {number}.", agent_id=agent
        )


def list_available(world: World, plan: Plan, **given: Any) -> list[str]:
    found = world.call("task_get_available", agent_id=world.register_agent(), limit=200, **given)
    return [task["name"] for task in found["tasks"] if task["workflow_id"] == plan.id]


def test_a_task_is_offered_until_its_third_failure(world: World):
    plan = create_plan(world, {"name": "build"}, {"name": "test"})

    fail(world, plan["build"], 2)
    assert plan.list_offered() == ["test", "build"]
    fail(world, plan["build"])

    answer = world.call("workflow_next_tasks", workflow_id=plan.id)
    assert [task["name"] for task in answer["tasks"]] == ["test"]
    assert (answer["total_available"], answer["needs_person"]) == (1, [plan["build"]])
    assert list_available(world, plan, workflow_id=plan.id) == list_available(world, plan) == ["test"]
    shown = world.call("task_get", id=plan["build"])
    assert (shown["failures"], shown["max_attempts"], shown["waits_for_person"]) == (3, 3, True)


def test_if_nothing_else_can_start_the_reason_is_that_a_person_is_needed(world: World):
    plan = create_plan(world, {"name": "build"}, max_attempts=1)
    fail(world, plan["build"])

    answer = world.call("workflow_next_tasks", workflow_id=plan.id)

    assert (answer["tasks"], answer["recommended_count"], answer["all_complete"]) == ([], 0, False)
    assert f"wait for a person: {plan['build']}." in answer["reason"]


def test_a_claim_of_a_task_without_attempts_is_refused(world: World):
    plan = create_plan(world, {"name": "build"})
    fail(world, plan["build"], 3)

    refused = world.call("task_claim", task_id=plan["build"], agent_id=world.register_agent())

    assert (refused["success"], refused["reason"]) == (False, "attempts")
    assert refused["message"] == (
        "Task 'build' failed 3 times and has no attempts left; it waits for a person:"
        f" `deepwork tasks retry {plan['build']}`."
    )


@pytest.mark.parametrize("status", ["pending", "planning", "in_progress", "skipped"])
def test_an_agent_cannot_start_requeue_or_skip_it_in_another_way(world: World, status: str):
    plan = create_plan(world, {"name": "build"})
    fail(world, plan["build"], 3)

    for tool, more in (
        ("task_update_status", {"status": status}),
        ("task_replan", {"reason": "r", "new_plan": {"steps": ["s"]}}),
        ("task_set_plan", {"plan": {"steps": ["s"]}}),
    ):
        with pytest.raises(DeepworkError) as refused:
            world.call(tool, id=plan["build"], **more)
        assert (refused.value.code, refused.value.recoverable) == (Code.INVALID_STATE, True)
        assert "waits for a person" in refused.value.message


def test_a_person_can_skip_it(world: World):
    plan = create_plan(world, {"name": "build"}, max_attempts=1)
    fail(world, plan["build"])

    answer = call_tool(world.app, "task_update_status", caller=PERSON, id=plan["build"], status="skipped")

    assert answer["all_complete"]


def test_a_person_gives_it_new_attempts_and_a_hint_that_the_next_agent_reads(world: World):
    plan = create_plan(world, {"name": "build"})
    fail(world, plan["build"], 3)

    call_tool(
        world.app,
        "task_update_status",
        caller=PERSON,
        id=plan["build"],
        status="pending",
        outcome="Use make.",
    )

    assert plan.list_offered() == ["build"]
    newest = world.call("task_load_context", task_id=plan["build"])["current_task"]["checkpoints"][-1]
    assert (newest["type"], newest["summary"], newest["detail"]) == ("decision", "Use make.", {"by": PERSON})
    fail(world, plan["build"], 2)
    assert plan.list_offered() == ["build"]
    fail(world, plan["build"])
    assert plan.list_offered() == []


def test_a_task_or_its_plan_sets_the_limit_and_later_tasks_take_that_of_the_plan(world: World):
    plan = create_plan(world, {"name": "fragile", "max_attempts": 1}, {"name": "other"}, max_attempts=2)
    added = world.call("workflow_add_task", workflow_id=plan.id, task={"name": "late"})["task_id"]

    for task, most in ((plan["fragile"], 1), (plan["other"], 2), (added, 2)):
        fail(world, task, most - 1)
        assert "waits_for_person" not in world.call("task_get", id=task)
        fail(world, task)
        assert world.call("task_get", id=task)["waits_for_person"]


def test_an_expired_lease_does_not_count_as_a_failure_and_stays_visible(world: World):
    plan = create_plan(world, {"name": "build"}, max_attempts=1)
    for _ in range(3):
        agent = world.register_agent()
        world.call("task_claim", task_id=plan["build"], agent_id=agent)
        world.call("task_update_status", id=plan["build"], status="in_progress", agent_id=agent)
        world.let_leases_expire()

    assert plan.list_offered() == ["build"]
    world.call("task_claim", task_id=plan["build"], agent_id=world.register_agent())
    shown = world.call("task_get", id=plan["build"], include_checkpoints=True)
    assert (shown["attempts"], "failures" in shown) == (3, False)
    assert [each["type"] for each in shown["checkpoints"]] == ["recovery"] * 3


def test_it_is_the_first_failed_task_that_needs_a_person(world: World):
    plan = create_plan(world, {"name": "build"}, {"name": "test"})
    fail(world, plan["build"], 3)
    fail(world, plan["test"])

    with world.app.database.reading() as tx:
        needs, _ = list_inbox(StateView(tx, world.app.processes))

    titles = [part.title for need in needs if need.run_id == plan.id for part in need.members]
    assert titles == ["build failed 3 times and waits for you", "test failed"]


@pytest.mark.parametrize("wrong", [0, -1, 1001, "many"])
def test_an_impossible_limit_is_refused(world: World, wrong: Any):
    with pytest.raises(DeepworkError) as refused:
        create_plan(world, {"name": "build"}, max_attempts=wrong)

    assert refused.value.code is Code.INVALID_INPUT
