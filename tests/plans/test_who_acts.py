"""Who may change a task that an agent holds: its holder and people, never a call that names nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from application import call_tool, make_app
from deepwork.kernel.errors import Code
from plans.world import Plan, World, expect_error

CHANGES: dict[str, dict[str, Any]] = {
    "task_update_status": {"status": "completed", "outcome": "Done."},
    "task_set_plan": {"plan": {"steps": ["one"]}},
    "task_replan": {"reason": "Too slow.", "new_plan": {"steps": ["two"]}},
}
"""A change by each tool that only the holder and people may use on a held task."""


def change(world: World, plan: Plan, tool: str, **given: Any) -> Any:
    return world.call(tool, id=plan["a"], **CHANGES[tool], **given)


def start_for_change(plan: Plan, tool: str, agent: str) -> None:
    """Bring the task into a status in which this tool can change it."""
    plan.claim("a", agent)
    if tool == "task_replan":
        plan.set_status("a", "in_progress", agent_id=agent)


@pytest.mark.parametrize("tool", CHANGES)
@pytest.mark.parametrize("caller", ["nobody", "local", "anonymous", "session:other", "client:other"])
def test_a_caller_without_an_agent_cannot_change_a_held_task(world: World, tool: str, caller: str):
    plan = world.create_plan("a")
    holder = world.register_agent()
    start_for_change(plan, tool, holder)

    with expect_error(Code.NOT_ASSIGNED, "names no agent"):
        change(world, plan, tool, caller=caller)

    assert plan.get_task("a")["assigned_agent_id"] == holder


@pytest.mark.parametrize("tool", CHANGES)
def test_the_holder_changes_its_task_from_any_caller_by_naming_itself(world: World, tool: str):
    plan = world.create_plan("a")
    holder = world.register_agent()
    start_for_change(plan, tool, holder)

    assert change(world, plan, tool, agent_id=holder, caller=world.new_caller())


@pytest.mark.parametrize("tool", CHANGES)
def test_a_caller_with_one_agent_acts_as_that_agent(world: World, tool: str):
    plan = world.create_plan("a")
    caller = world.new_caller()
    start_for_change(plan, tool, world.register_agent(caller=caller))

    assert change(world, plan, tool, caller=caller)


@pytest.mark.parametrize("tool", CHANGES)
def test_a_caller_with_several_agents_is_not_taken_for_the_holder(world: World, tool: str):
    plan = world.create_plan("a")
    caller = world.new_caller()
    holder, _ = world.register_agent(caller=caller), world.register_agent(caller=caller)
    start_for_change(plan, tool, holder)

    with expect_error(Code.NOT_ASSIGNED, "names no agent"):
        change(world, plan, tool, caller=caller)


def test_an_epoch_alone_does_not_name_the_holder(world: World):
    plan = world.create_plan("a")
    epoch = plan.claim("a", world.register_agent())["claim_epoch"]

    with expect_error(Code.NOT_ASSIGNED, "names no agent"):
        plan.set_status("a", "completed", claim_epoch=epoch)


def test_an_agent_that_lost_its_claim_cannot_close_the_task_without_its_id(world: World):
    plan = world.create_plan("a")
    caller = world.new_caller()
    loser, winner = world.register_agent(caller=caller), world.register_agent()
    plan.claim("a", loser)
    world.let_leases_expire()
    plan.claim("a", winner)

    with expect_error(Code.STALE_CLAIM, winner):
        plan.set_status("a", "completed", caller=caller)

    assert plan.get_task("a")["assigned_agent_id"] == winner


@pytest.mark.parametrize("tool", CHANGES)
def test_a_person_may_change_a_held_task_and_is_in_the_history(world: World, tool: str):
    plan = world.create_plan("a")
    start_for_change(plan, tool, world.register_agent())

    change(world, plan, tool, caller="human:ada")

    assert "human:ada" in {line["by_whom"] for line in plan.list_history()}


def test_a_person_with_an_agent_for_messages_still_acts_as_a_person(world: World):
    plan = world.create_plan("a")
    caller = f"human:{world.new_caller()[8:]}"
    world.register_agent(caller=caller)
    holder = world.register_agent()
    plan.claim("a", holder)

    plan.set_status("a", "in_progress", caller=caller)

    assert plan.get_task("a")["assigned_agent_id"] == holder


def test_the_error_asks_for_the_agent_id(world: World):
    plan = world.create_plan("a")
    plan.claim("a", world.register_agent())

    with pytest.raises(Exception, match="names no agent") as caught:
        plan.set_status("a", "completed")

    assert "pass agent_id" in caught.value.suggestion  # type: ignore[attr-defined]


def test_a_checkpoint_of_an_unnamed_caller_is_nobodys(world: World):
    plan = world.create_plan("a")
    plan.claim("a", world.register_agent())

    world.call("checkpoint_add", task_id=plan["a"], type="progress", summary="Half.")

    assert "agent_id" not in plan.list_checkpoints("a")[0]


# Two processes on one store are the same caller, `local`, but different actors


@pytest.fixture
def second(world: World, tmp_path: Path) -> Any:
    """Another process on the same store: an application with its own memory."""
    app = make_app(tmp_path, world.app.settings.database, world.clock)
    yield lambda tool, **given: call_tool(app, tool, **given)
    app.close()


def register_local(call: Callable[..., Any]) -> str:
    id: str = call("agent_register", name="worker", runtime="custom")["id"]
    return id


def test_a_process_acts_as_the_one_agent_that_it_registered(world: World, second: Callable[..., Any]):
    plan = world.create_plan("a", "b")
    mine = register_local(second)
    other = world.register_agent(caller="local")
    plan.claim("a", mine)
    plan.claim("b", other)

    second("task_update_status", id=plan["a"], status="completed", outcome="Done.")
    with expect_error(Code.NOT_ASSIGNED, mine):
        second("task_update_status", id=plan["b"], status="completed", outcome="Done.")
    world.call("agent_unregister", id=other)


def test_a_process_that_lost_its_claim_to_another_cannot_close_the_task(
    world: World, second: Callable[..., Any]
):
    plan = world.create_plan("a")
    mine = register_local(second)
    winner = world.register_agent(caller="local")
    plan.claim("a", mine)
    world.let_leases_expire()
    plan.claim("a", winner)

    with expect_error(Code.STALE_CLAIM, winner):
        second("task_update_status", id=plan["a"], status="completed", outcome="Done.")
    world.call("agent_unregister", id=winner)


def test_a_restarted_process_has_to_name_its_agent(world: World, second: Callable[..., Any]):
    plan = world.create_plan("a")
    mine = world.register_agent(caller="local")
    plan.claim("a", mine)
    report = {"id": plan["a"], "status": "completed", "outcome": "Done."}

    with expect_error(Code.NOT_ASSIGNED, "names no agent"):
        second("task_update_status", **report)
    assert second("task_update_status", **report, agent_id=mine)["success"]
    world.call("agent_unregister", id=mine)


def test_an_unregistered_agent_no_longer_counts(world: World, second: Callable[..., Any]):
    plan = world.create_plan("a")
    first, mine = register_local(second), register_local(second)
    plan.claim("a", mine)
    world.call("agent_unregister", id=first)

    assert second("task_update_status", id=plan["a"], status="completed", outcome="Done.")
