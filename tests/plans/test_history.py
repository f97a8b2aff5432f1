"""What is remembered and told of plans, on every database."""

from __future__ import annotations

from typing import Any

import pytest

from plans.world import Plan, World


def lines(plan: Plan, *keys: str) -> list[tuple[Any, ...]]:
    """The history from the beginning, as far as these keys go."""
    return [tuple(line.get(key) for key in keys) for line in reversed(plan.history())]


def test_every_change_of_status_is_remembered_with_its_reason(world: World):
    me = world.caller()
    plan = world.plan("a")
    world.ask("workflow_update_status", id=plan.id, status="paused", reason="Lunch.", caller=me)
    world.ask("workflow_update_status", id=plan.id, status="in_progress", caller=me)
    world.ask("workflow_update_status", id=plan.id, status="failed", reason="No money.", caller=me)

    assert lines(plan, "what", "before", "after", "reason", "by_whom") == [
        ("status", "planning", "ready", "1 tasks were planned", "nobody"),
        ("status", "ready", "paused", "Lunch.", me),
        ("status", "paused", "in_progress", None, me),
        ("status", "in_progress", "failed", "No money.", me),
    ]


def test_what_becomes_of_a_task_is_remembered_with_who_did_it(world: World):
    plan = world.plan("a")
    agent = world.agent()
    plan.claim("a", agent)
    plan.move("a", "in_progress", agent_id=agent)
    plan.move("a", "failed", error="No disk.", agent_id=agent)
    plan.move("a", "skipped", outcome="Not needed.")

    of_task = [
        line[:-1]
        for line in lines(plan, "what", "before", "after", "reason", "by_whom", "task_id")
        if line[-1]
    ]
    assert of_task == [
        ("claimed", "pending", "pending", None, agent),
        ("updated", "pending", "in_progress", None, agent),
        ("updated", "in_progress", "failed", "No disk.", agent),
        ("updated", "failed", "skipped", "Not needed.", "nobody"),
    ]
    assert lines(plan, "after", "reason")[-1] == ("completed", "every task is done")


def test_history_comes_newest_first_with_its_time(world: World):
    plan = world.plan("a")
    world.clock.advance(seconds=3)
    plan.move("a", "in_progress")

    times = [line["at"] for line in plan.history()]

    assert times[0] == world.clock.now
    assert times == sorted(times, reverse=True)


def test_history_has_an_end(world: World):
    plan = world.plan("a")
    for _ in range(40):
        plan.move("a", "planning")
        plan.move("a", "pending")

    assert len(plan.history()) == 50


def test_a_change_of_parallelism_is_remembered(world: World):
    plan = world.plan("a", max_parallel_tasks=1)

    world.ask("workflow_set_parallelism", id=plan.id, max_parallel_tasks=4, file_conflicts="refuse")

    line = plan.history()[0]
    assert line["what"] == "parallelism"
    assert (line["before"], line["after"]) == ("1 at once, files warn", "4 at once, files refuse")


def test_added_and_removed_tasks_are_remembered(world: World):
    plan = world.plan("a")
    added = world.ask("workflow_add_task", workflow_id=plan.id, task={"name": "b", "description": "Do b."})[
        "task_id"
    ]
    world.ask("workflow_remove_task", workflow_id=plan.id, task_id=added)

    removed, created = plan.history()[:2]
    assert (created["what"], created["task_id"]) == ("created", added)
    assert (removed["what"], removed["task_id"], removed["old_tasks"][0]["description"]) == (
        "removed",
        added,
        "Do b.",
    )
    assert "before" not in removed


def test_old_plans_do_not_make_the_history_endless(world: World):
    plan = world.plan(*(f"t{number}" for number in range(150)))
    for _ in range(2):
        tasks = [{"name": f"n{number}", "depends_on": []} for number in range(150)]
        world.ask("workflow_replan", workflow_id=plan.id, reason="r", tasks=tasks)

    newest, older = [line for line in plan.history() if line["what"] == "replanned"]

    assert (len(newest["old_tasks"]), newest["old_tasks_total"]) == (100, 150)
    assert (len(older["old_tasks"]), older["old_tasks_total"]) == (0, 150)


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (lambda world, plan: plan.claim("a", world.agent()), ["plan_task:claimed", "plan:updated"]),
        (lambda world, plan: plan.move("a", "in_progress"), ["plan_task:updated", "plan:updated"]),
        (lambda world, plan: plan.move("a", "failed"), ["plan_task:updated", "plan:updated"]),
        (
            lambda world, plan: world.ask("task_set_plan", id=plan["a"], plan={"steps": []}),
            ["checkpoint:created", "plan_task:updated", "plan:updated"],
        ),
        (
            lambda world, plan: world.ask("checkpoint_add", task_id=plan["a"], type="plan", summary="s"),
            ["checkpoint:created"],
        ),
        (lambda world, plan: world.ask("workflow_update_status", id=plan.id, status="paused"), ["plan:updated"]),
        (
            lambda world, plan: world.ask("workflow_set_parallelism", id=plan.id, max_parallel_tasks=3),
            ["plan:updated"],
        ),
        (
            lambda world, plan: world.ask("workflow_add_task", workflow_id=plan.id, task={"name": "c"}),
            ["plan_task:created"],
        ),
        (
            lambda world, plan: world.ask("workflow_remove_task", workflow_id=plan.id, task_id=plan["b"]),
            ["plan_task:removed"],
        ),
        (
            lambda world, plan: world.ask("workflow_replan", workflow_id=plan.id, reason="r", tasks=[{"name": "c"}]),
            ["plan_task:removed", "plan_task:removed", "plan_task:created", "plan:updated"],
        ),
    ],
    ids=["claim", "status", "failure", "plan", "checkpoint", "workflow", "parallelism", "add", "remove", "replan"],
)  # fmt: skip
def test_every_change_is_told(world: World, act: Any, told: list[str]):
    plan = world.plan("a", "b")
    before = len(plan.told())

    act(world, plan)

    assert plan.told()[before:] == told


def test_a_new_workflow_and_its_plan_are_told(world: World):
    plan = world.plan("a")

    assert plan.told() == ["plan:created", "plan:updated"]
    assert [event.data["status"] for event in plan.events()] == ["planning", "ready"]
    assert plan.events()[1].data == plan.get()


def test_an_event_shows_the_task_as_it_is_now(world: World):
    plan = world.plan("a")
    agent = world.agent()
    plan.claim("a", agent)

    [event] = [event for event in plan.events() if event.type == "plan_task:claimed"]

    assert (event.data["id"], event.data["workflow_id"]) == (plan["a"], plan.id)
    assert (event.data["status"], event.data["assigned_agent_id"]) == ("pending", agent)


def test_a_release_and_a_replan_of_a_task_are_told(world: World):
    plan = world.plan("a")
    agent = world.agent()
    plan.claim("a", agent)
    plan.move("a", "in_progress", agent_id=agent)
    before = len(plan.told())

    world.ask("task_replan", id=plan["a"], reason="r", new_plan={"steps": []}, agent_id=agent)
    world.ask("task_release", task_id=plan["a"], agent_id=agent)

    assert plan.told()[before:] == ["checkpoint:created", "plan_task:updated", "plan_task:released"]


def test_what_is_refused_is_not_told(world: World):
    plan = world.plan("a", {"name": "b", "depends_on": ["a"]})
    before = plan.told()

    plan.claim("b", world.agent())

    assert plan.told() == before
