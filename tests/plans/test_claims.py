"""Claims: who may work on a task, for how long, and what happens when the holder goes silent."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from application import LEASE_MS
from deepwork.errors import Code, DeepworkError, NotAllowed
from plans.world import Plan, World, expect_error


def release(world: World, plan: Plan, name: str, agent: str, **given: Any) -> Any:
    return world.call("task_release", task_id=plan[name], agent_id=agent, **given)


def get_agent_state(world: World, id: str) -> tuple[str, str | None]:
    agent = world.call("agent_get", id=id)
    return agent["status"], agent.get("current_task_id")


def list_lost_claims(world: World, agent: str) -> list[str]:
    claims: list[str] = world.call("agent_heartbeat", agent_id=agent).get("lost_claims", [])
    return claims


# Granted


def test_a_free_task_is_given_to_who_asks(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()

    assert plan.claim("a", agent) == {
        "success": True,
        "claim_epoch": 1,
        "lease_expires_at": world.clock.now + LEASE_MS,
    }
    assert plan.get_task("a")["assigned_agent_id"] == agent
    assert plan.get_task("a")["status"] == "pending", "a claim is not progress"
    assert get_agent_state(world, agent) == ("busy", plan["a"])
    assert plan.status == "in_progress"


def test_claiming_what_one_holds_is_no_change_of_hands(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    plan.claim("a", agent)
    world.clock.advance(seconds=10)

    again = plan.claim("a", agent)

    assert (again["success"], again["claim_epoch"]) == (True, 1)
    assert again["lease_expires_at"] == world.clock.now + LEASE_MS
    assert plan.list_event_types().count("plan_task:claimed") == 1


def test_an_agent_may_hold_several_tasks(world: World):
    plan = world.create_plan("a", "b")
    agent = world.register_agent()

    assert plan.claim("a", agent)["success"]
    assert plan.claim("b", agent)["success"]
    plan.set_status("b", "completed", agent_id=agent)

    assert get_agent_state(world, agent) == ("busy", plan["a"]), "it continues with another task it holds"


def test_a_silent_agent_that_claims_is_back(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    world.let_leases_expire()

    assert plan.claim("a", agent)["success"]
    assert get_agent_state(world, agent)[0] == "busy"


def test_a_failed_task_can_be_claimed_for_another_try(world: World):
    plan = world.create_plan("a")
    first, second = world.register_agent(), world.register_agent()
    plan.claim("a", first)
    plan.set_status("a", "failed", agent_id=first)

    assert plan.claim("a", second)["claim_epoch"] == 2
    plan.set_status("a", "in_progress", agent_id=second)
    assert plan.get_task("a")["attempts"] == 2


def test_a_task_that_runs_without_a_claim_can_be_taken_over_with_a_warning(world: World):
    plan = world.create_plan("a", max_parallel_tasks=1)
    plan.set_status("a", "in_progress")

    answer = plan.claim("a", world.register_agent())

    assert answer["success"]
    assert "without a claim" in answer["warning"]


# Refused: an answer that names the reason


def test_what_another_holds_is_refused_with_its_name(world: World):
    plan = world.create_plan("a")
    holder, other = world.register_agent(), world.register_agent()
    plan.claim("a", holder)

    answer = plan.claim("a", other)

    assert answer == {
        "success": False,
        "reason": "claimed",
        "message": answer["message"],
        "already_claimed_by": holder,
    }
    assert holder in answer["message"]
    assert get_agent_state(world, other) == ("online", None)


def test_the_holder_is_looked_at_before_anything_else(world: World):
    plan = world.create_plan("a", {"name": "b", "depends_on": ["a"]}, max_parallel_tasks=1)
    holder, other, gone = world.register_agent(), world.register_agent(), world.register_agent()
    plan.claim("a", holder)
    world.call("workflow_update_status", id=plan.id, status="paused")
    world.call("agent_unregister", id=gone)

    assert plan.claim("a", other)["reason"] == "claimed"
    assert plan.claim("a", gone)["reason"] == "claimed"
    assert plan.claim("b", other)["reason"] == "workflow"


def test_what_waits_is_refused_with_what_it_waits_for(world: World):
    plan = world.create_plan(
        *"abcde",
        {"name": "named", "sequence": 2, "depends_on": list("abcde")},
        {"name": "implied", "sequence": 2},
    )

    for name in ("named", "implied"):
        answer = plan.claim(name, world.register_agent())
        assert (answer["success"], answer["reason"]) == (False, "blocked")
        assert "'a', 'b', 'c' and 2 more" in answer["message"]


def test_the_parallel_limit_counts_whatever_is_under_way(world: World):
    plan = world.create_plan("claimed", "anonymous", "third", "fourth", max_parallel_tasks=3)
    plan.claim("claimed", world.register_agent())
    plan.set_status("anonymous", "in_progress")

    assert plan.claim("third", world.register_agent())["success"]
    answer = plan.claim("fourth", world.register_agent())

    assert (answer["success"], answer["reason"]) == (False, "limit")
    assert "3 tasks are active" in answer["message"]


def test_a_limit_that_is_raised_gives_room(world: World):
    plan = world.create_plan("a", "b", max_parallel_tasks=1)
    plan.claim("a", world.register_agent())
    assert plan.claim("b", world.register_agent())["reason"] == "limit"

    world.call("workflow_set_parallelism", id=plan.id, max_parallel_tasks=2)

    assert plan.claim("b", world.register_agent())["success"]


@pytest.mark.parametrize("status", ["paused", "failed", "abandoned"])
def test_a_workflow_that_rests_gives_nothing_out(world: World, status: str):
    plan = world.create_plan("a")
    for step in ("in_progress", status):
        world.call("workflow_update_status", id=plan.id, status=step)

    answer = plan.claim("a", world.register_agent())

    assert (answer["success"], answer["reason"]) == (False, "workflow")
    assert status in answer["message"]


def test_a_resumed_workflow_gives_out_again(world: World):
    plan = world.create_plan("a")
    world.call("workflow_update_status", id=plan.id, status="paused")

    world.call("workflow_update_status", id=plan.id, status="in_progress")

    assert plan.claim("a", world.register_agent())["success"]


def test_an_agent_that_left_gets_nothing(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    world.call("agent_unregister", id=agent)

    answer = plan.claim("a", agent)

    assert (answer["success"], answer["reason"]) == (False, "offline")
    assert "register" in answer["message"]


@pytest.mark.parametrize("status", ["completed", "skipped"])
def test_what_is_done_is_nothing_to_claim(world: World, status: str):
    plan = world.create_plan("a", "b")
    plan.set_status("a", status)

    with expect_error(Code.INVALID_STATE, status):
        plan.claim("a", world.register_agent())


def test_an_unknown_agent_claims_nothing(world: World):
    plan = world.create_plan("a")

    with expect_error(Code.AGENT_NOT_FOUND, "ag_0"):
        plan.claim("a", "ag_0")
    with expect_error(Code.AGENT_NOT_FOUND, "ag_0"):
        release(world, plan, "a", "ag_0")


# Files


def create_overlapping_plan(world: World, mode: str | None = None) -> Plan:
    plan = world.create_plan(
        {"name": "api", "files_likely_affected": ["src/api/**"]},
        {"name": "route", "files_likely_affected": ["./src/api/routes.py", "docs/"]},
        {"name": "folder", "files_likely_affected": ["src/api"]},
        {"name": "docs", "files_likely_affected": ["docs/*.md"]},
    )
    if mode:
        world.call("workflow_set_parallelism", id=plan.id, max_parallel_tasks=9, file_conflicts=mode)
    plan.claim("api", world.register_agent())
    return plan


def test_overlapping_files_are_a_warning(world: World):
    plan = create_overlapping_plan(world)

    answer = plan.claim("route", world.register_agent())

    assert answer["success"]
    assert answer["conflicts_with"] == [plan["api"]]
    assert "'api'" in answer["warning"]
    assert "warning" in plan.claim("folder", world.register_agent())
    assert plan.claim("docs", world.register_agent())["conflicts_with"] == [plan["route"]]


def test_overlapping_files_can_be_refused(world: World):
    plan = create_overlapping_plan(world, "refuse")

    answer = plan.claim("route", world.register_agent())

    assert (answer["success"], answer["reason"], answer["conflicts_with"]) == (False, "files", [plan["api"]])
    assert "assigned_agent_id" not in plan.get_task("route")
    assert plan.claim("docs", world.register_agent())["success"]


def test_overlapping_files_can_be_ignored(world: World):
    plan = create_overlapping_plan(world, "ignore")

    answer = plan.claim("route", world.register_agent())

    assert set(answer) == {"success", "claim_epoch", "lease_expires_at"}


def test_files_are_free_again_when_their_task_is_over(world: World):
    plan = create_overlapping_plan(world, "refuse")
    plan.set_status("api", "completed")

    assert plan.claim("route", world.register_agent())["success"]


# Released


def test_a_released_task_is_free_and_its_agent_too(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    plan.claim("a", agent)

    assert release(world, plan, "a", agent, reason="Out of my depth.") == {"success": True}

    assert "assigned_agent_id" not in plan.get_task("a")
    assert get_agent_state(world, agent) == ("online", None)
    assert plan.claim("a", world.register_agent())["claim_epoch"] == 2
    [line] = [line for line in plan.list_history() if line["what"] == "released"]
    assert (line["reason"], line["by_whom"]) == ("Out of my depth.", agent)


@pytest.mark.parametrize("way", [["planning"], ["in_progress"], ["in_progress", "paused"]])
def test_what_was_begun_and_is_released_is_offered_again(world: World, way: list[str]):
    plan = world.create_plan("a")
    agent = world.register_agent()
    plan.claim("a", agent)
    for status in way:
        plan.set_status("a", status, agent_id=agent)

    release(world, plan, "a", agent)

    assert plan.get_task("a")["status"] == "pending"
    assert plan.list_offered() == ["a"]


def test_nobody_releases_what_nobody_or_another_holds(world: World):
    plan = world.create_plan("a", "b")
    holder, other = world.register_agent(), world.register_agent()
    plan.claim("a", holder)

    with expect_error(Code.NOT_ASSIGNED, holder):
        release(world, plan, "a", other)
    with expect_error(Code.NOT_CLAIMED, "'b'"):
        release(world, plan, "b", other)


@pytest.mark.parametrize("status", ["completed", "failed", "skipped"])
def test_whatever_ends_a_task_ends_its_claim(world: World, status: str):
    plan = world.create_plan("a", "b")
    agent = world.register_agent()
    plan.claim("a", agent)

    plan.set_status("a", status, agent_id=agent)

    assert "assigned_agent_id" not in plan.get_task("a")
    assert get_agent_state(world, agent) == ("online", None)
    assert ("a" in plan.list_offered()) is (status == "failed")


def test_a_task_put_back_in_the_queue_is_offered_again(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    plan.claim("a", agent)
    plan.set_status("a", "planning", agent_id=agent)

    plan.set_status("a", "pending", agent_id=agent)

    assert "assigned_agent_id" not in plan.get_task("a")
    assert plan.list_offered() == ["a"]


def test_an_agent_that_leaves_gives_everything_back_and_says_how_much(world: World):
    plan, other = world.create_plan("a", "b"), world.create_plan("c")
    agent = world.register_agent()
    for where, name in ((plan, "a"), (plan, "b"), (other, "c")):
        where.claim(name, agent)
    plan.set_status("a", "in_progress", agent_id=agent)

    assert world.call("agent_unregister", id=agent) == {"success": True, "tasks_released": 3}

    assert plan.list_offered() == ["a", "b"]
    assert other.list_offered() == ["c"]
    assert plan.get_task("a")["status"] == "pending"
    assert plan.list_event_types().count("plan_task:released") == 2
    assert plan.list_history()[0]["reason"] == "its agent unregistered"


def test_leaving_while_another_finishes_the_task_blocks_nobody(world: World):
    plan = world.create_plan(*(f"t{number}" for number in range(12)))
    agents = [world.register_agent() for _ in range(12)]
    ids = [plan[f"t{number}"] for number in range(12)]
    for id, agent in zip(ids, agents, strict=True):
        world.call("task_claim", task_id=id, agent_id=agent)

    def both(number: int) -> None:
        if number % 2:
            world.call("agent_unregister", id=agents[number // 2])
        else:
            world.call("task_update_status", id=ids[number // 2], status="completed", outcome="x")

    with ThreadPoolExecutor(8) as callers:
        list(callers.map(both, range(24)))

    assert plan.status == "completed"


# Renewed


@pytest.mark.parametrize(
    "sign",
    [
        lambda world, plan, agent: world.call("agent_heartbeat", agent_id=agent),
        lambda world, plan, agent: world.call("agent_update", id=agent, metadata={"a": 1}),
        lambda world, plan, agent: plan.set_status("a", "in_progress", agent_id=agent),
        lambda world, plan, agent: world.call("task_set_plan", id=plan["a"], plan={"steps": []}, agent_id=agent),
        lambda world, plan, agent: world.call("checkpoint_add", task_id=plan["b"], type="progress", summary="s", agent_id=agent),
        lambda world, plan, agent: plan.claim("b", agent),
        lambda world, plan, agent: world.call("task_get_available", agent_id=agent),
        lambda world, plan, agent: world.call("message_list", agent_id=agent),
        lambda world, plan, agent: world.call("message_send", sender_id=agent, recipient_id=agent, message_type="query", body="?"),
    ],
    ids=["heartbeat", "update", "status", "plan", "checkpoint", "claim", "available", "inbox", "message"],
)  # fmt: skip
def test_any_call_in_the_agents_name_renews_its_claims(world: World, sign: Any):
    plan = world.create_plan("a", "b")
    agent = world.register_agent()
    plan.claim("a", agent)
    world.clock.advance(seconds=80)
    sign(world, plan, agent)
    world.clock.advance(seconds=80)

    assert plan.claim("a", world.register_agent())["reason"] == "claimed"


def test_a_call_of_the_caller_that_registered_the_holder_renews_its_claim(world: World):
    plan = world.create_plan("a")
    me = world.new_caller()
    agent = world.register_agent(caller=me)
    plan.claim("a", agent)
    world.clock.advance(seconds=80)
    world.call("checkpoint_add", task_id=plan["a"], type="progress", summary="On it.", caller=me)
    world.clock.advance(seconds=80)

    assert plan.claim("a", world.register_agent())["reason"] == "claimed"
    assert plan.list_checkpoints("a")[0]["agent_id"] == agent


# Expired


def create_plan_with_silent_holder(world: World, *names: str, **given: Any) -> tuple[Plan, str, int]:
    """A plan whose task `a` was started by an agent that went silent, and the epoch of its claim."""
    plan = world.create_plan(*(names or ("a", "b")), **given)
    agent = world.register_agent(caller=world.new_caller())
    epoch: int = plan.claim("a", agent)["claim_epoch"]
    plan.set_status("a", "in_progress", agent_id=agent)
    world.let_leases_expire()
    return plan, agent, epoch


def test_reads_take_a_lapsed_claim_for_none_and_write_nothing(world: World):
    plan, _, _ = create_plan_with_silent_holder(world, max_parallel_tasks=1)
    before, events, other = plan.list_history(), plan.list_event_types(), world.register_agent()

    offered = plan.get_next_tasks()

    assert [task["name"] for task in offered["tasks"]] == ["a", "b"]
    assert (offered["running"], offered["recommended_count"]) == (0, 1)
    assert offered["tasks"][0]["status"] == "pending", "the status after a claim"
    available = world.call("task_get_available", agent_id=other, workflow_id=plan.id)
    assert [task["name"] for task in available["tasks"]] == ["a", "b"]
    assert "assigned_agent_id" not in plan.list_tasks()[0] | plan.get_task("a")
    assert (plan.list_history(), plan.list_event_types()) == (before, events)
    assert plan.list_checkpoints("a") == []


def test_a_lapsed_task_is_taken_over_with_a_note_for_who_goes_on(world: World):
    plan, late, epoch = create_plan_with_silent_holder(world)
    other = world.register_agent()

    answer = plan.claim("a", other)

    assert (answer["success"], answer["claim_epoch"]) == (True, epoch + 1)
    task = plan.get_task("a")
    assert (task["status"], task["assigned_agent_id"]) == ("pending", other)
    [note] = plan.list_checkpoints("a", type=["recovery"])
    assert late in note["summary"]
    assert note["detail"] == {"lost_by": late, "status_before": "in_progress", "attempts": 1}
    assert "plan_task:released" in plan.list_event_types()


def test_any_claim_in_the_workflow_takes_lapsed_tasks_back(world: World):
    plan, late, _ = create_plan_with_silent_holder(world, max_parallel_tasks=1)

    assert plan.claim("b", world.register_agent())["success"], (
        "a silent agent does not count towards the limit"
    )

    assert plan.get_task("a")["status"] == "pending"
    assert len(plan.list_checkpoints("a", type=["recovery"])) == 1
    assert list_lost_claims(world, late) == [plan["a"]]
    assert list_lost_claims(world, late) == [], "reported once"


def test_a_write_on_a_lapsed_task_takes_it_back_first(world: World):
    plan, late, _ = create_plan_with_silent_holder(world)

    plan.set_status("a", "completed")

    assert plan.get_task("a")["outcome"] == "It is done."
    assert len(plan.list_checkpoints("a", type=["recovery"])) == 1
    assert list_lost_claims(world, late) == [plan["a"]]


def test_a_note_by_another_takes_nothing_back(world: World):
    plan, late, _ = create_plan_with_silent_holder(world)

    world.call("checkpoint_add", task_id=plan["a"], type="progress", summary="Looked at it.")

    assert plan.get_task("a")["status"] == "in_progress"
    assert list_lost_claims(world, late) == []


def test_a_heartbeat_in_time_keeps_what_nobody_took(world: World):
    plan, late, epoch = create_plan_with_silent_holder(world)

    assert list_lost_claims(world, late) == []

    assert plan.claim("a", world.register_agent())["reason"] == "claimed"
    plan.set_status("a", "completed", agent_id=late, claim_epoch=epoch)


def test_an_agent_that_lost_its_only_task_is_free(world: World):
    plan, late, _ = create_plan_with_silent_holder(world)
    plan.claim("a", world.register_agent())

    assert list_lost_claims(world, late) == [plan["a"]]

    assert get_agent_state(world, late) == ("online", None)


# Stale


@pytest.mark.parametrize("how", ["by name", "by epoch", "by caller"])
def test_a_late_holder_may_finish_what_nobody_took_over(world: World, how: str):
    plan = world.create_plan("a", "b")
    me = world.new_caller()
    agent = world.register_agent(caller=me)
    epoch = plan.claim("a", agent)["claim_epoch"]
    plan.set_status("a", "in_progress", agent_id=agent)
    world.let_leases_expire()
    plan.claim("b", world.register_agent())

    proof = {"by name": {"agent_id": agent}, "by epoch": {"claim_epoch": epoch}, "by caller": {"caller": me}}
    plan.set_status("a", "completed", **proof[how])

    assert plan.get_task("a")["status"] == "completed"
    if how != "by epoch":
        assert list_lost_claims(world, agent) == [], "it came back in time"


def test_a_late_holder_that_goes_on_holds_the_task_again_in_its_old_epoch(world: World):
    plan, late, epoch = create_plan_with_silent_holder(world)
    plan.claim("b", world.register_agent())

    plan.set_status("a", "in_progress", agent_id=late, claim_epoch=epoch)

    assert plan.claim("a", world.register_agent())["reason"] == "claimed"
    assert get_agent_state(world, late) == ("busy", plan["a"])
    assert list_lost_claims(world, late) == []
    plan.set_status("a", "completed", agent_id=late, claim_epoch=epoch)


@pytest.mark.parametrize("how", ["by name", "by epoch", "by caller"])
@pytest.mark.parametrize("then", ["held", "released", "failed", "completed"])
def test_after_another_took_the_task_the_late_holder_is_refused(world: World, how: str, then: str):
    plan = world.create_plan("a", "b")
    me = world.new_caller()
    late, other = world.register_agent(caller=me), world.register_agent(caller=world.new_caller())
    epoch = plan.claim("a", late)["claim_epoch"]
    plan.set_status("a", "in_progress", agent_id=late)
    world.let_leases_expire()
    plan.claim("a", other)
    if then == "released":
        release(world, plan, "a", other)
    elif then != "held":
        plan.set_status("a", then, agent_id=other)
    before = plan.get_task("a")

    proof = {"by name": {"agent_id": late}, "by epoch": {"claim_epoch": epoch}, "by caller": {"caller": me}}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("task_update_status", {"id": plan["a"], "status": "completed", "outcome": "x"}),
        ("task_set_plan", {"id": plan["a"], "plan": {"steps": []}}),
        ("task_replan", {"id": plan["a"], "reason": "r", "new_plan": {"steps": []}}),
        ("checkpoint_add", {"task_id": plan["a"], "type": "progress", "summary": "s"}),
    ]
    for tool, arguments in calls:
        with expect_error(Code.STALE_CLAIM, "no longer valid"):
            world.call(tool, **arguments, **proof[how])

    assert plan.get_task("a") == before


def test_a_displaced_agent_may_claim_the_task_again(world: World):
    plan, late, _ = create_plan_with_silent_holder(world)
    other = world.register_agent()
    plan.claim("a", other)
    release(world, plan, "a", other)

    assert plan.claim("a", late)["claim_epoch"] == 3
    plan.set_status("a", "completed", agent_id=late)
    assert list_lost_claims(world, late) == []


def test_an_epoch_that_never_was_is_stale(world: World):
    plan = world.create_plan("a")

    with expect_error(Code.STALE_CLAIM):
        plan.set_status("a", "in_progress", claim_epoch=7)


def test_a_caller_without_an_agent_may_move_any_task_and_the_record_says_so(world: World):
    plan = world.create_plan("a")
    agent, stranger = world.register_agent(), world.new_caller()
    plan.claim("a", agent)

    plan.set_status("a", "completed", caller=stranger)

    assert get_agent_state(world, agent) == ("online", None)
    [line] = [
        line for line in plan.list_history() if line.get("after") == "completed" and line.get("task_id")
    ]
    assert line["by_whom"] == stranger


def test_an_agent_that_left_works_no_more(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    world.call("agent_unregister", id=agent)

    with expect_error(Code.INVALID_STATE, "unregistered"):
        plan.set_status("a", "in_progress", agent_id=agent)


# Started without a claim


def test_an_agent_that_starts_a_task_in_its_own_name_holds_it(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()

    plan.set_status("a", "in_progress", agent_id=agent)

    assert plan.get_task("a")["assigned_agent_id"] == agent
    assert plan.claim("a", world.register_agent())["already_claimed_by"] == agent
    assert plan.list_event_types()[-3:] == ["plan_task:claimed", "plan_task:updated", "plan:updated"]
    world.let_leases_expire()
    assert plan.list_offered() == ["a"], "its silence frees the task"


def test_planning_a_task_in_ones_own_name_holds_it_too(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()

    world.call("task_set_plan", id=plan["a"], plan={"steps": []}, agent_id=agent)

    assert plan.get_task("a")["assigned_agent_id"] == agent


def test_a_task_begun_by_nobody_in_particular_is_held_by_nobody(world: World):
    plan = world.create_plan("a")

    plan.set_status("a", "in_progress", caller=world.new_caller())

    assert "assigned_agent_id" not in plan.get_task("a")


def test_a_task_begun_by_a_caller_with_one_agent_is_held_by_that_agent(world: World):
    plan = world.create_plan("a")
    me = world.new_caller()
    agent = world.register_agent(caller=me)

    plan.set_status("a", "in_progress", caller=me)

    assert plan.get_task("a")["assigned_agent_id"] == agent


def test_a_second_failure_is_kept_and_frees_the_task_again(world: World):
    plan = world.create_plan("a")
    first, second = world.register_agent(), world.register_agent()
    plan.claim("a", first)
    plan.set_status("a", "failed", error="E1", agent_id=first)

    plan.claim("a", second)
    plan.set_status("a", "failed", error="E2", agent_id=second)

    task = plan.get_task("a")
    assert (task["status"], task["error"], task["attempts"]) == ("failed", "E2", 2)
    assert "assigned_agent_id" not in task
    assert [offer["id"] for offer in plan.get_next_tasks()["tasks"]] == [plan["a"]]


def test_a_retry_may_be_reported_done_straight_away(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    plan.set_status("a", "failed", error="E1")

    plan.claim("a", agent)
    plan.set_status("a", "completed", outcome="now it works", agent_id=agent)

    assert plan.get_task("a")["status"] == "completed"


def test_what_another_holds_is_not_changed_in_a_strangers_name(world: World):
    plan = world.create_plan("a")
    holder, stranger = world.register_agent(), world.register_agent()
    plan.claim("a", holder)

    with expect_error(Code.NOT_ASSIGNED):
        plan.set_status("a", "in_progress", agent_id=stranger)

    assert plan.get_task("a")["assigned_agent_id"] == holder


def test_beginning_a_task_passes_the_same_gate_as_claiming_it(world: World):
    plan = world.create_plan("a", "b", max_parallel_tasks=1)
    plan.set_status("a", "in_progress", agent_id=world.register_agent())

    with pytest.raises(NotAllowed, match="limit is 1"):
        plan.set_status("b", "in_progress", agent_id=world.register_agent())


# Concurrent


def test_of_many_agents_claiming_at_once_exactly_one_wins(world: World):
    plan = world.create_plan("a")
    id, agents = plan["a"], [world.register_agent() for _ in range(8)]

    with ThreadPoolExecutor(8) as callers:
        answers = list(
            callers.map(lambda agent: world.call("task_claim", task_id=id, agent_id=agent), agents)
        )

    assert sum(answer["success"] for answer in answers) == 1
    [holder] = {answer["already_claimed_by"] for answer in answers if not answer["success"]}
    assert holder == plan.get_task("a")["assigned_agent_id"]


def test_of_many_agents_at_once_no_more_get_a_task_than_may_run(world: World):
    plan = world.create_plan(*(f"t{number}" for number in range(8)), max_parallel_tasks=3)
    pairs = [(plan[f"t{number}"], world.register_agent()) for number in range(8)]

    with ThreadPoolExecutor(8) as callers:
        answers = list(
            callers.map(lambda pair: world.call("task_claim", task_id=pair[0], agent_id=pair[1]), pairs)
        )

    assert sum(answer["success"] for answer in answers) == 3
    assert {answer.get("reason") for answer in answers} == {None, "limit"}


def test_agents_that_work_a_plan_off_at_once_leave_nothing_undone(world: World):
    names = [f"t{number}" for number in range(14)]
    plan = world.create_plan(*names, {"name": "last", "sequence": 2}, max_parallel_tasks=4)

    def take_one(agent: str) -> bool:
        for task in world.call("task_get_available", agent_id=agent, workflow_id=plan.id)["tasks"]:
            try:
                if world.call("task_claim", task_id=task["id"], agent_id=agent)["success"]:
                    world.call(
                        "task_update_status", id=task["id"], status="completed", outcome="x", agent_id=agent
                    )
                    return True
            except NotAllowed:  # another agent has finished it in the meantime
                continue
        return False

    def work(agent: str) -> int:
        done = 0
        while not plan.get_next_tasks()["all_complete"]:
            done += take_one(agent)
        return done

    with ThreadPoolExecutor(4) as callers:
        done = list(callers.map(work, [world.register_agent() for _ in range(4)]))

    assert plan.status == "completed"
    assert plan.get_progress()["by_status"]["completed"] == sum(done) == 15


EXPECTED = {
    Code.INVALID_STATE, Code.INVALID_TRANSITION, Code.NOT_ASSIGNED, Code.NOT_CLAIMED, Code.STALE_CLAIM,
}  # fmt: skip


def test_agents_that_get_in_each_others_way_never_wait_for_each_other(world: World):
    """Two workflows, and every agent calls every tool: an inconsistent lock order would cause "busy" errors."""
    plans = [world.create_plan(*"abc", max_parallel_tasks=2) for _ in range(2)]
    ids = [plan[name] for plan in plans for name in "abc"]
    agents = [world.register_agent() for _ in range(3)]

    def act(seed: int) -> set[Code]:
        dice, codes = random.Random(seed), set()
        for _ in range(25):
            id, agent = dice.choice(ids), dice.choice(agents)
            calls: list[tuple[str, dict[str, Any]]] = [
                ("task_claim", {"task_id": id, "agent_id": agent}),
                ("task_release", {"task_id": id, "agent_id": agent}),
                ("task_update_status", {"id": id, "status": "in_progress", "agent_id": agent}),
                ("task_update_status", {"id": id, "status": "failed", "error": "x"}),
                ("task_replan", {"id": id, "reason": "r", "new_plan": {"steps": []}}),
                ("agent_heartbeat", {"agent_id": agent}),
                ("task_get_available", {"agent_id": agent}),
                ("checkpoint_add", {"task_id": id, "type": "progress", "summary": "s", "agent_id": agent}),
                ("agent_unregister", {"id": world.register_agent()}),
            ]
            if dice.random() < 0.05:
                world.let_leases_expire()
            tool, arguments = dice.choice(calls)
            try:
                world.call(tool, **arguments)
            except DeepworkError as error:
                codes.add(error.code)
        return codes

    with ThreadPoolExecutor(6) as callers:
        codes = set().union(*callers.map(act, range(6)))

    assert codes <= EXPECTED


def test_a_claim_repeated_under_one_key_is_one_claim(world: World):
    plan = world.create_plan("a")
    agent, key = world.register_agent(), world.new_caller()

    assert plan.claim("a", agent, key=key) == plan.claim("a", agent, key=key)


# References from agents and messages to plans


def test_a_heartbeat_or_message_that_names_an_unknown_task_or_workflow_is_refused(world: World):
    agent = world.register_agent()
    message = {"sender_id": agent, "recipient_id": agent, "message_type": "query", "body": "?"}

    with expect_error(Code.TASK_NOT_FOUND, "tk_0"):
        world.call("agent_heartbeat", agent_id=agent, current_task_id="tk_0")
    with expect_error(Code.TASK_NOT_FOUND, "tk_0"):
        world.call("agent_update", id=agent, current_task_id="tk_0")
    with expect_error(Code.TASK_NOT_FOUND, "tk_0"):
        world.call("message_send", task_id="tk_0", **message)
    with expect_error(Code.WORKFLOW_NOT_FOUND, "wf_0"):
        world.call("message_send", workflow_id="wf_0", **message)
    with expect_error(Code.WORKFLOW_NOT_FOUND, "wf_0"):
        world.call(
            "message_broadcast", sender_id=agent, message_type="notification", body="!", workflow_id="wf_0"
        )


def test_a_heartbeat_or_message_may_name_what_exists(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()

    world.call("agent_heartbeat", agent_id=agent, current_task_id=plan["a"])
    world.call(
        "message_send", sender_id=agent, recipient_id=agent, message_type="query", body="?",
        workflow_id=plan.id, task_id=plan["a"],
    )  # fmt: skip

    assert get_agent_state(world, agent)[1] == plan["a"]
