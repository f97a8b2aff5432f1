"""What an agent can still do when its plan is paused, or after its claim was taken away."""

from __future__ import annotations

from typing import Any

import pytest

from deepwork.kernel.errors import Code
from plans.world import Plan, World, expect_error


def pause(world: World, plan: Plan, **given: Any) -> None:
    world.call("workflow_update_status", id=plan.id, status="paused", caller="human:ada", **given)


def add_checkpoint(world: World, plan: Plan, **given: Any) -> Any:
    return world.call("checkpoint_add", task_id=plan["a"], type="progress", summary="Half.", **given)


def create_held_plan(world: World, *way: str) -> tuple[Plan, str]:
    """A plan whose task `a` is claimed and has gone this way, and the agent that holds it."""
    plan, agent = world.create_plan("a", "b"), world.register_agent(caller=world.new_caller())
    plan.claim("a", agent)
    for status in way:
        plan.set_status("a", status, agent_id=agent)
    return plan, agent


# A paused plan


def test_a_claim_in_a_paused_plan_is_refused_with_who_paused_it_and_why(world: World):
    plan = world.create_plan("a")
    pause(world, plan, reason="Wait for the contract.")

    answer = plan.claim("a", world.register_agent())

    assert (answer["success"], answer["reason"]) == (False, "workflow")
    assert "paused by human:ada (Wait for the contract.)" in answer["message"]


@pytest.mark.parametrize("way", [(), ("planning",), ("in_progress", "paused")])
@pytest.mark.parametrize("who", ["holder", "person"])
def test_a_task_of_a_paused_plan_cannot_be_started(world: World, way: tuple[str, ...], who: str):
    plan, agent = create_held_plan(world, *way)
    pause(world, plan, reason="Wait for the contract.")

    given = {"agent_id": agent} if who == "holder" else {"caller": "human:ada"}
    with expect_error(Code.INVALID_STATE, r"paused by human:ada \(Wait for the contract\.\)"):
        plan.set_status("a", "in_progress", **given)

    assert plan.get_task("a")["status"] == (way[-1] if way else "pending")


def test_a_task_of_a_paused_plan_cannot_be_planned(world: World):
    plan, agent = create_held_plan(world)
    pause(world, plan)

    with expect_error(Code.INVALID_STATE, "paused by human:ada"):
        plan.set_status("a", "planning", agent_id=agent)
    with expect_error(Code.INVALID_STATE, "paused by human:ada"):
        world.call("task_set_plan", id=plan["a"], plan={"steps": []}, agent_id=agent)

    assert plan.list_checkpoints("a") == []


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_finished_work_is_reported_although_the_plan_is_paused(world: World, status: str):
    plan, agent = create_held_plan(world, "in_progress")
    pause(world, plan)

    assert world.call("agent_heartbeat", agent_id=agent)["success"]
    assert set(add_checkpoint(world, plan, agent_id=agent)) == {"id", "sequence"}
    assert plan.set_status("a", "in_progress", agent_id=agent) == {"success": True}, "it is that already"
    assert plan.set_status("a", status, agent_id=agent)["success"]


def test_work_goes_on_when_the_plan_is_resumed(world: World):
    plan, agent = create_held_plan(world)
    pause(world, plan)

    world.call("workflow_update_status", id=plan.id, status="in_progress")

    assert plan.set_status("a", "in_progress", agent_id=agent)["success"]


# A claim that was taken away


def test_the_act_of_a_person_is_no_sign_of_life_of_the_holder(world: World):
    plan, agent = create_held_plan(world, "in_progress")
    before = world.call("agent_get", id=agent)
    world.let_leases_expire()

    release(world, plan, agent)

    after = world.call("agent_get", id=agent)
    assert (after["last_heartbeat"], after["status"]) == (before["last_heartbeat"], "offline")
    assert "current_task_id" not in after


def release(world: World, plan: Plan, agent: str) -> None:
    world.call("task_release", task_id=plan["a"], agent_id=agent, caller="human:ada")


def replan(world: World, plan: Plan, _: str) -> None:
    world.call("task_replan", id=plan["a"], reason="r", new_plan={"steps": []}, caller="human:ada")


@pytest.mark.parametrize("take_away", [release, replan])
@pytest.mark.parametrize("how", ["by name", "by epoch", "by caller"])
def test_a_former_holder_cannot_change_a_released_task(world: World, take_away: Any, how: str):
    plan, me = world.create_plan("a", "b"), world.new_caller()
    agent = world.register_agent(caller=me)
    epoch = plan.claim("a", agent)["claim_epoch"]
    plan.set_status("a", "in_progress", agent_id=agent)
    take_away(world, plan, agent)

    proof = {"by name": {"agent_id": agent}, "by epoch": {"claim_epoch": epoch}, "by caller": {"caller": me}}
    for status in ("completed", "failed", "in_progress"):
        with expect_error(Code.NOT_ASSIGNED, "was released"):
            plan.set_status("a", status, **proof[how])

    assert plan.get_task("a")["status"] == "pending"
    assert add_checkpoint(world, plan, **proof[how])["late"] is True


def test_the_refusal_names_who_released_the_task_and_why(world: World):
    plan, agent = create_held_plan(world, "in_progress")
    world.call("task_release", task_id=plan["a"], agent_id=agent, reason="Bob is faster", caller="human:ada")

    with expect_error(Code.NOT_ASSIGNED, r"was released by human:ada \(Bob is faster\); the task is pending"):
        plan.set_status("a", "completed", agent_id=agent)


def test_the_refusal_says_that_the_agent_released_the_task_itself(world: World):
    plan, agent = create_held_plan(world, "in_progress")
    world.call("task_release", task_id=plan["a"], agent_id=agent, reason="No time")

    with expect_error(
        Code.NOT_ASSIGNED, r"^You released your claim on task 'a' \(No time\); the task is pending"
    ):
        plan.set_status("a", "completed", agent_id=agent)


def test_the_refusal_says_that_the_plan_was_abandoned(world: World):
    plan, agent = create_held_plan(world, "in_progress")
    given = {"status": "abandoned", "reason": "No budget.", "caller": "human:ada"}
    world.call("workflow_update_status", id=plan.id, **given)

    with expect_error(Code.NOT_ASSIGNED, r"was set to abandoned by human:ada \(No budget\.\)"):
        plan.set_status("a", "completed", agent_id=agent)


def test_a_released_task_that_another_agent_took_is_stale_for_its_former_holder(world: World):
    plan, agent = create_held_plan(world, "in_progress")
    release(world, plan, agent)
    plan.claim("a", other := world.register_agent())

    with expect_error(Code.STALE_CLAIM, other):
        plan.set_status("a", "completed", agent_id=agent)


def test_a_former_holder_may_claim_the_task_again(world: World):
    plan, agent = create_held_plan(world, "in_progress")
    release(world, plan, agent)

    epoch = plan.claim("a", agent)["claim_epoch"]

    assert epoch == 2
    assert plan.set_status("a", "completed", agent_id=agent, claim_epoch=epoch)["success"]


def test_anyone_else_may_move_a_released_task(world: World):
    plan, agent = create_held_plan(world, "in_progress")
    release(world, plan, agent)

    assert plan.set_status("a", "completed")["success"]


def test_an_agent_may_repeat_its_own_report(world: World):
    plan, agent = create_held_plan(world, "in_progress", "completed")

    assert plan.set_status("a", "completed", agent_id=agent)["success"]
    assert "late" not in add_checkpoint(world, plan, agent_id=agent)


@pytest.mark.parametrize("how", ["by name", "by epoch", "by caller"])
def test_a_checkpoint_of_a_late_holder_is_stored_and_marked(world: World, how: str):
    plan, me = world.create_plan("a"), world.new_caller()
    late = world.register_agent(caller=me)
    epoch = plan.claim("a", late)["claim_epoch"]
    world.let_leases_expire()
    plan.claim("a", other := world.register_agent())
    proof = {"by name": {"agent_id": late}, "by epoch": {"claim_epoch": epoch}, "by caller": {"caller": me}}

    answer = add_checkpoint(world, plan, detail={"n": 1}, **proof[how])

    assert answer["late"] is True
    assert plan.list_checkpoints("a", type=["progress"])[0]["detail"] == {"n": 1, "late": True}
    assert plan.get_task("a")["assigned_agent_id"] == other
    assert world.call("agent_heartbeat", agent_id=late)["lost_claims"] == [plan["a"]]
