"""How many statements a call executes depends on what it returns, not on the size of the plan."""

from __future__ import annotations

from typing import Any

import pytest

from plans.world import Plan, World
from statement_counter import count_statements


def write_tasks(count: int) -> list[dict[str, Any]]:
    """Write a plan in layers of four; in each, the last task names what it waits for."""
    tasks: list[dict[str, Any]] = [
        {"name": f"task {n}", "description": "Build it.", "sequence": n // 4 + 1, "parallel_group": f"group {n // 4}",
         "files_likely_affected": [f"src/{n}.py"], "required_capabilities": ["python"]}
        for n in range(count)
    ]  # fmt: skip
    for n in range(3, count, 4):
        tasks[n]["depends_on"] = [f"task {n - 1}", f"task {n - 2}"]
    return tasks


def create_started_plan(world: World, count: int) -> Plan:
    plan = world.create_plan(*write_tasks(count))
    for n in range(4):
        world.call("task_update_status", id=plan[f"task {n}"], status="completed", outcome="It is built.")
    world.call("task_update_status", id=plan["task 4"], status="in_progress")
    world.call("task_update_status", id=plan["task 5"], status="failed", error="It broke.")
    world.call("checkpoint_add", task_id=plan["task 4"], type="progress", summary="Begun.")
    return plan


def count_for_call(world: World, tool: str, **arguments: Any) -> int:
    with count_statements() as counter:
        world.call(tool, **arguments)
    return counter.count


@pytest.mark.parametrize("name", ["task 2", "task 4", "task 7", "task 11"])
def test_reading_a_task_takes_as_many_statements_in_a_large_plan_as_in_a_small_one(world: World, name: str):
    small, large = create_started_plan(world, 12), create_started_plan(world, 120)

    assert count_for_call(world, "task_get", id=large[name]) == count_for_call(
        world, "task_get", id=small[name]
    )


def test_reading_one_task_does_not_count_the_plan(world: World, monkeypatch: pytest.MonkeyPatch):
    plan = create_started_plan(world, 12)
    monkeypatch.setattr("deepwork.work.plans.stores.task_store.TaskStore.count_by_status", None)

    first, follower, started = (
        world.call("task_get", id=plan[name]) for name in ("task 0", "task 8", "task 4")
    )

    assert "follows_sequence" not in first
    assert (follower["follows_sequence"], follower["blocked"]) == (2, True)
    assert started["follows_sequence"] == 1
    assert "blocked" not in started


def test_loading_a_context_takes_as_many_statements_in_a_large_plan_as_in_a_small_one(world: World):
    small, large = create_started_plan(world, 12), create_started_plan(world, 120)

    for name in ("task 2", "task 4", "task 7"):
        in_large = count_for_call(world, "task_load_context", task_id=large[name])
        assert in_large == count_for_call(world, "task_load_context", task_id=small[name])


@pytest.mark.parametrize("shape", ["json", "markdown"])
def test_a_summary_takes_hardly_more_statements_for_a_large_plan(world: World, shape: str):
    small, large = create_started_plan(world, 12), create_started_plan(world, 120)

    in_large = count_for_call(world, "workflow_get_summary", id=large.id, format=shape)

    # One more where a list is full, so that its total must be counted.
    assert in_large <= count_for_call(world, "workflow_get_summary", id=small.id, format=shape) + 1


def test_setting_a_plan_takes_as_many_statements_for_many_tasks_as_for_few(world: World):
    few, many = world.create_workflow(), world.create_workflow()

    for_few = count_for_call(
        world, "workflow_set_plan", id=few, plan={"summary": "Short.", "tasks": write_tasks(4)}
    )
    for_many = count_for_call(
        world, "workflow_set_plan", id=many, plan={"summary": "Long.", "tasks": write_tasks(400)}
    )

    assert for_many == for_few
