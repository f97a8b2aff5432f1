"""History and events of plans, on every database."""

from __future__ import annotations

from typing import Any

import pytest

from plans.world import Plan, World


def list_lines(plan: Plan, *keys: str) -> list[tuple[Any, ...]]:
    """Return these keys of the history, oldest entry first."""
    return [tuple(line.get(key) for key in keys) for line in reversed(plan.list_history())]


def test_every_status_change_is_recorded_with_its_reason(world: World):
    me = world.new_caller()
    plan = world.create_plan("a")
    world.call("workflow_update_status", id=plan.id, status="paused", reason="Lunch.", caller=me)
    world.call("workflow_update_status", id=plan.id, status="in_progress", caller=me)
    world.call("workflow_update_status", id=plan.id, status="failed", reason="No money.", caller=me)

    assert list_lines(plan, "what", "before", "after", "reason", "by_whom") == [
        ("status", "planning", "ready", "1 tasks were planned", "nobody"),
        ("status", "ready", "paused", "Lunch.", me),
        ("status", "paused", "in_progress", None, me),
        ("status", "in_progress", "failed", "No money.", me),
    ]


def test_every_change_of_a_task_is_recorded_with_its_author(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    plan.claim("a", agent)
    plan.set_status("a", "in_progress", agent_id=agent)
    plan.set_status("a", "failed", error="No disk.", agent_id=agent)
    plan.set_status("a", "skipped", outcome="Not needed.")

    of_task = [
        line[:-1]
        for line in list_lines(plan, "what", "before", "after", "reason", "by_whom", "task_id")
        if line[-1]
    ]
    assert of_task == [
        ("claimed", "pending", "pending", None, agent),
        ("updated", "pending", "in_progress", None, agent),
        ("updated", "in_progress", "failed", "No disk.", agent),
        ("updated", "failed", "skipped", "Not needed.", "nobody"),
    ]
    assert list_lines(plan, "after", "reason")[-1] == ("completed", "every task is done")


def test_history_is_listed_newest_first_with_timestamps(world: World):
    plan = world.create_plan("a")
    world.clock.advance(seconds=3)
    plan.set_status("a", "in_progress")

    times = [line["at"] for line in plan.list_history()]

    assert times[0] == world.clock.now
    assert times == sorted(times, reverse=True)


def test_history_returns_at_most_fifty_lines(world: World):
    plan = world.create_plan("a")
    for _ in range(40):
        plan.set_status("a", "planning")
        plan.set_status("a", "pending")

    assert len(plan.list_history()) == 50


def test_a_change_of_parallelism_is_recorded(world: World):
    plan = world.create_plan("a", max_parallel_tasks=1)

    world.call("workflow_set_parallelism", id=plan.id, max_parallel_tasks=4, file_conflicts="refuse")

    line = plan.list_history()[0]
    assert line["what"] == "parallelism"
    assert (line["before"], line["after"]) == ("1 in parallel, files warn", "4 in parallel, files refuse")


def test_added_and_removed_tasks_are_recorded(world: World):
    plan = world.create_plan("a")
    added = world.call("workflow_add_task", workflow_id=plan.id, task={"name": "b", "description": "Do b."})[
        "task_id"
    ]
    world.call("workflow_remove_task", workflow_id=plan.id, task_id=added)

    removed, created = plan.list_history()[:2]
    assert (created["what"], created["task_id"]) == ("created", added)
    assert (removed["what"], removed["task_id"], removed["old_tasks"][0]["description"]) == (
        "removed",
        added,
        "Do b.",
    )
    assert "before" not in removed


def test_the_history_contains_a_limited_number_of_replaced_tasks(world: World):
    plan = world.create_plan(*(f"t{number}" for number in range(150)))
    for _ in range(2):
        tasks = [{"name": f"n{number}", "depends_on": []} for number in range(150)]
        world.call("workflow_replan", workflow_id=plan.id, reason="r", tasks=tasks)

    newest, older = [line for line in plan.list_history() if line["what"] == "replanned"]

    assert (len(newest["old_tasks"]), newest["old_tasks_total"]) == (100, 150)
    assert (len(older["old_tasks"]), older["old_tasks_total"]) == (0, 150)


@pytest.mark.parametrize(
    ("act", "emitted"),
    [
        (lambda world, plan: plan.claim("a", world.register_agent()), ["plan_task:claimed", "plan:updated"]),
        (lambda world, plan: plan.set_status("a", "in_progress"), ["plan_task:updated", "plan:updated"]),
        (lambda world, plan: plan.set_status("a", "failed"), ["plan_task:updated", "plan:updated"]),
        (
            lambda world, plan: world.call("task_set_plan", id=plan["a"], plan={"steps": []}),
            ["checkpoint:created", "plan_task:updated", "plan:updated"],
        ),
        (
            lambda world, plan: world.call("checkpoint_add", task_id=plan["a"], type="plan", summary="s"),
            ["checkpoint:created"],
        ),
        (lambda world, plan: world.call("workflow_update_status", id=plan.id, status="paused"), ["plan:updated"]),
        (
            lambda world, plan: world.call("workflow_set_parallelism", id=plan.id, max_parallel_tasks=3),
            ["plan:updated"],
        ),
        (
            lambda world, plan: world.call("workflow_add_task", workflow_id=plan.id, task={"name": "c"}),
            ["plan_task:created"],
        ),
        (
            lambda world, plan: world.call("workflow_remove_task", workflow_id=plan.id, task_id=plan["b"]),
            ["plan_task:removed"],
        ),
        (
            lambda world, plan: world.call("workflow_replan", workflow_id=plan.id, reason="r", tasks=[{"name": "c"}]),
            ["plan_task:removed", "plan_task:removed", "plan_task:created", "plan:updated"],
        ),
    ],
    ids=["claim", "status", "failure", "plan", "checkpoint", "workflow", "parallelism", "add", "remove", "replan"],
)  # fmt: skip
def test_every_change_emits_events(world: World, act: Any, emitted: list[str]):
    plan = world.create_plan("a", "b")
    before = len(plan.list_event_types())

    act(world, plan)

    assert plan.list_event_types()[before:] == emitted


def test_a_new_workflow_and_its_plan_emit_events(world: World):
    plan = world.create_plan("a")

    assert plan.list_event_types() == ["plan:created", "plan:updated"]
    assert [event.data["status"] for event in plan.list_events()] == ["planning", "ready"]
    assert plan.list_events()[1].data == plan.get()


def test_an_event_contains_the_current_task(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    plan.claim("a", agent)

    [event] = [event for event in plan.list_events() if event.type == "plan_task:claimed"]

    assert (event.data["id"], event.data["workflow_id"]) == (plan["a"], plan.id)
    assert (event.data["status"], event.data["assigned_agent_id"]) == ("pending", agent)


def test_a_release_and_a_replan_of_a_task_emit_events(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    plan.claim("a", agent)
    plan.set_status("a", "in_progress", agent_id=agent)
    before = len(plan.list_event_types())

    world.call("task_replan", id=plan["a"], reason="r", new_plan={"steps": []}, agent_id=agent)
    world.call("task_release", task_id=plan["a"], agent_id=agent)

    assert plan.list_event_types()[before:] == [
        "checkpoint:created",
        "plan_task:updated",
        "plan_task:released",
    ]


def test_a_refused_claim_emits_no_event(world: World):
    plan = world.create_plan("a", {"name": "b", "depends_on": ["a"]})
    before = plan.list_event_types()

    plan.claim("b", world.register_agent())

    assert plan.list_event_types() == before


def test_a_removed_task_is_recorded_with_the_attempts_that_differ_from_its_plan(world: World):
    id = world.call("workflow_create", name="P", source_type="prompt", source_content="c")["id"]
    tasks = [{"name": "own", "max_attempts": 3}, {"name": "of_the_plan"}]
    world.call("workflow_set_plan", id=id, plan={"summary": "s", "tasks": tasks, "max_attempts": 5})

    world.call("workflow_replan", workflow_id=id, reason="r", tasks=[{"name": "n", "max_attempts": 1}])

    history = world.call("workflow_get", id=id, include_history=True)["history"]
    [old] = [line["old_tasks"] for line in history if line["what"] == "replanned"]
    assert [task.get("max_attempts") for task in old] == [3, None]
