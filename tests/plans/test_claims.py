"""Claims: who may work on a task, for how long, and what happens when the holder goes silent."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from application import LEASE_MS
from deepwork.kernel.errors import Code, DeepworkError, NotAllowed
from deepwork.work.plans.rules.levels import ActiveTask, find_overlapping
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


def test_a_free_task_can_be_claimed(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()

    assert plan.claim("a", agent) == {
        "success": True,
        "claim_epoch": 1,
        "lease_expires_at": world.clock.now + LEASE_MS,
        "status": "pending",
        "next_step": 'task_update_status(status="in_progress") when you start',
    }
    assert plan.get_task("a")["assigned_agent_id"] == agent
    assert plan.get_task("a")["status"] == "pending", "a claim is not progress"
    assert get_agent_state(world, agent) == ("busy", plan["a"])
    assert plan.status == "in_progress"


def test_claiming_a_task_again_renews_the_lease_and_keeps_the_epoch(world: World):
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


def test_claiming_brings_a_silent_agent_back(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    world.let_leases_expire()

    assert plan.claim("a", agent)["success"]
    assert get_agent_state(world, agent)[0] == "busy"


def test_a_failed_task_can_be_claimed_for_a_retry(world: World):
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


def test_a_task_claimed_by_another_agent_is_refused_and_names_the_holder(world: World):
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


@pytest.mark.differs
def test_a_claim_that_comes_too_late_does_not_wait_for_the_lock_of_the_plan(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    plan = world.create_plan("held", "done", "open")
    holder, other = world.register_agent(), world.register_agent()
    plan.claim("held", holder)
    world.call("task_update_status", id=plan["done"], status="completed", outcome="It is built.")
    monkeypatch.setattr("deepwork.work.plans.stores.plan_store.PlanStore.get_for_update_by_task", None)

    assert plan.claim("held", other)["already_claimed_by"] == holder
    with expect_error(Code.INVALID_STATE):
        plan.claim("done", other)


def test_an_existing_claim_is_checked_before_anything_else(world: World):
    plan = world.create_plan("a", {"name": "b", "depends_on": ["a"]}, max_parallel_tasks=1)
    holder, other, gone = world.register_agent(), world.register_agent(), world.register_agent()
    plan.claim("a", holder)
    world.call("workflow_update_status", id=plan.id, status="paused")
    world.call("agent_unregister", id=gone)

    assert plan.claim("a", other)["reason"] == "claimed"
    assert plan.claim("a", gone)["reason"] == "claimed"
    assert plan.claim("b", other)["reason"] == "workflow"


def test_a_blocked_task_is_refused_with_its_open_dependencies(world: World):
    plan = world.create_plan(
        *"abcde",
        {"name": "named", "sequence": 2, "depends_on": list("abcde")},
        {"name": "implied", "sequence": 2},
    )

    for name in ("named", "implied"):
        answer = plan.claim(name, world.register_agent())
        assert (answer["success"], answer["reason"]) == (False, "blocked")
        assert "'a', 'b', 'c' and 2 more" in answer["message"]


def test_the_parallel_limit_counts_claimed_and_running_tasks(world: World):
    plan = world.create_plan("claimed", "anonymous", "third", "fourth", max_parallel_tasks=3)
    plan.claim("claimed", world.register_agent())
    plan.set_status("anonymous", "in_progress")

    assert plan.claim("third", world.register_agent())["success"]
    answer = plan.claim("fourth", world.register_agent())

    assert (answer["success"], answer["reason"]) == (False, "limit")
    assert "3 tasks are active" in answer["message"]


def test_raising_the_parallel_limit_allows_another_claim(world: World):
    plan = world.create_plan("a", "b", max_parallel_tasks=1)
    plan.claim("a", world.register_agent())
    assert plan.claim("b", world.register_agent())["reason"] == "limit"

    world.call("workflow_set_parallelism", id=plan.id, max_parallel_tasks=2)

    assert plan.claim("b", world.register_agent())["success"]


@pytest.mark.parametrize("status", ["paused", "failed", "abandoned"])
def test_tasks_of_an_inactive_workflow_cannot_be_claimed(world: World, status: str):
    plan = world.create_plan("a")
    for step in ("in_progress", status):
        world.call("workflow_update_status", id=plan.id, status=step)

    answer = plan.claim("a", world.register_agent())

    assert (answer["success"], answer["reason"]) == (False, "workflow")
    assert status in answer["message"]


def test_tasks_of_a_resumed_workflow_can_be_claimed(world: World):
    plan = world.create_plan("a")
    world.call("workflow_update_status", id=plan.id, status="paused")

    world.call("workflow_update_status", id=plan.id, status="in_progress")

    assert plan.claim("a", world.register_agent())["success"]


def test_an_unregistered_agent_cannot_claim(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    world.call("agent_unregister", id=agent)

    answer = plan.claim("a", agent)

    assert (answer["success"], answer["reason"]) == (False, "offline")
    assert "register" in answer["message"]


@pytest.mark.parametrize("status", ["completed", "skipped"])
def test_a_finished_task_cannot_be_claimed(world: World, status: str):
    plan = world.create_plan("a", "b")
    plan.set_status("a", status)

    with expect_error(Code.INVALID_STATE, status):
        plan.claim("a", world.register_agent())


def test_an_unknown_agent_cannot_claim_or_release(world: World):
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
    assert answer["warning"] == "Its files overlap with those of 'api': src/api/routes.py."
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

    assert set(answer) == {"success", "claim_epoch", "lease_expires_at", "status", "next_step"}


def test_files_are_free_again_when_their_task_ends(world: World):
    plan = create_overlapping_plan(world, "refuse")
    plan.set_status("api", "completed", agent_id=plan.get_task("api")["assigned_agent_id"])

    assert plan.claim("route", world.register_agent())["success"]


LIKELY_FILES: list[list[str]] = [
    ["src/api/routes.py"],
    ["src/api"],
    ["src/api/"],
    ["./src"],
    ["/src/api/routes.py"],
    [" src/api "],
    ["src/apis"],
    ["src/api/routes.py/more"],
    ["SRC/api"],
    ["src//api"],
    ["docs/größe.md"],
    ["docs/a b.md", "docs"],
    ["src/*.py"],
    ["**/routes.py"],
    ["src/{api,web}/routes.py"],
    ["src/[ab]pi"],
    ["src/[api"],
    ["a%b"],
    ["a_b", "axb"],
    [""],
    [],
    [f"many/{number}.py" for number in range(100)],
    ["many/7.py", "src/api/x.py", "other/1", "other/2", "other/3"],
]


def test_the_database_finds_the_same_conflicts_as_the_rules(world: World):
    names = [f"task {number}" for number in range(len(LIKELY_FILES))]
    files = dict(zip(names, LIKELY_FILES, strict=True))
    plan = world.create_plan(
        *({"name": name, "files_likely_affected": files[name], "depends_on": []} for name in names),
        max_parallel_tasks=100,
    )
    agent, claimed = world.register_agent(), list[str]()

    for name in names:
        found = plan.claim(name, agent).get("conflicts_with", [])

        others = [ActiveTask(plan[other], other, tuple(files[other])) for other in claimed]
        assert found == [other.id for other in find_overlapping(tuple(files[name]), others)], name
        claimed.append(name)


# Released


def test_releasing_frees_the_task_and_its_agent(world: World):
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
def test_a_started_task_is_offered_again_after_its_release(world: World, way: list[str]):
    plan = world.create_plan("a")
    agent = world.register_agent()
    plan.claim("a", agent)
    for status in way:
        plan.set_status("a", status, agent_id=agent)

    release(world, plan, "a", agent)

    assert plan.get_task("a")["status"] == "pending"
    assert plan.list_offered() == ["a"]


def test_only_the_holder_of_a_task_can_release_it(world: World):
    plan = world.create_plan("a", "b")
    holder, other = world.register_agent(), world.register_agent()
    plan.claim("a", holder)

    with expect_error(Code.NOT_ASSIGNED, holder):
        release(world, plan, "a", other)
    with expect_error(Code.NOT_CLAIMED, "'b'"):
        release(world, plan, "b", other)


@pytest.mark.parametrize("status", ["completed", "failed", "skipped"])
def test_ending_a_task_ends_its_claim(world: World, status: str):
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


def test_unregistering_releases_every_task_and_returns_their_number(world: World):
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


@pytest.mark.differs
def test_unregistering_while_tasks_are_completed_causes_no_deadlock(world: World):
    plan = world.create_plan(*(f"t{number}" for number in range(12)))
    agents = [world.register_agent() for _ in range(12)]
    ids = [plan[f"t{number}"] for number in range(12)]
    for id, agent in zip(ids, agents, strict=True):
        world.call("task_claim", task_id=id, agent_id=agent)

    def both(number: int) -> None:
        if number % 2:
            world.call("agent_unregister", id=agents[number // 2])
        else:
            world.call(
                "task_update_status", id=ids[number // 2], status="completed", outcome="x", caller="human:ada"
            )

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
def test_any_call_on_behalf_of_an_agent_renews_its_claims(world: World, sign: Any):
    plan = world.create_plan("a", "b")
    agent = world.register_agent()
    plan.claim("a", agent)
    world.clock.advance(seconds=80)
    sign(world, plan, agent)
    world.clock.advance(seconds=80)

    assert plan.claim("a", world.register_agent())["reason"] == "claimed"


def test_a_call_by_the_caller_that_registered_the_holder_renews_its_claim(world: World):
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


def test_reads_ignore_an_expired_claim_and_write_nothing(world: World):
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


def test_taking_over_a_task_with_an_expired_claim_adds_a_recovery_checkpoint(world: World):
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


def test_any_claim_in_the_workflow_recovers_tasks_with_expired_claims(world: World):
    plan, late, _ = create_plan_with_silent_holder(world, max_parallel_tasks=1)

    assert plan.claim("b", world.register_agent())["success"], (
        "a silent agent does not count towards the limit"
    )

    assert plan.get_task("a")["status"] == "pending"
    assert len(plan.list_checkpoints("a", type=["recovery"])) == 1
    assert list_lost_claims(world, late) == [plan["a"]]
    assert list_lost_claims(world, late) == [], "reported once"


def test_a_write_to_a_task_with_an_expired_claim_recovers_it_first(world: World):
    plan, late, _ = create_plan_with_silent_holder(world)

    plan.set_status("a", "completed")

    assert plan.get_task("a")["outcome"] == "It is done."
    assert len(plan.list_checkpoints("a", type=["recovery"])) == 1
    assert list_lost_claims(world, late) == [plan["a"]]


def test_a_checkpoint_by_another_agent_does_not_end_an_expired_claim(world: World):
    plan, late, _ = create_plan_with_silent_holder(world)

    world.call("checkpoint_add", task_id=plan["a"], type="progress", summary="Looked at it.")

    assert plan.get_task("a")["status"] == "in_progress"
    assert list_lost_claims(world, late) == []


def test_a_late_heartbeat_keeps_a_claim_that_no_one_took_over(world: World):
    plan, late, epoch = create_plan_with_silent_holder(world)

    assert list_lost_claims(world, late) == []

    assert plan.claim("a", world.register_agent())["reason"] == "claimed"
    plan.set_status("a", "completed", agent_id=late, claim_epoch=epoch)


def test_an_agent_that_lost_its_only_task_is_online_without_a_task(world: World):
    plan, late, _ = create_plan_with_silent_holder(world)
    plan.claim("a", world.register_agent())

    assert list_lost_claims(world, late) == [plan["a"]]

    assert get_agent_state(world, late) == ("online", None)


# Stale


@pytest.mark.parametrize("how", ["by name", "by epoch", "by caller"])
def test_a_late_holder_may_complete_a_task_that_no_one_took_over(world: World, how: str):
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


def test_a_late_holder_that_continues_holds_the_task_again_in_its_old_epoch(world: World):
    plan, late, epoch = create_plan_with_silent_holder(world)
    plan.claim("b", world.register_agent())

    plan.set_status("a", "in_progress", agent_id=late, claim_epoch=epoch)

    assert plan.claim("a", world.register_agent())["reason"] == "claimed"
    assert get_agent_state(world, late) == ("busy", plan["a"])
    assert list_lost_claims(world, late) == []
    plan.set_status("a", "completed", agent_id=late, claim_epoch=epoch)


@pytest.mark.parametrize("how", ["by name", "by epoch", "by caller"])
@pytest.mark.parametrize("then", ["held", "released", "failed", "completed"])
def test_a_late_holder_is_refused_after_another_agent_took_the_task(world: World, how: str, then: str):
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
    ]
    for tool, arguments in calls:
        with expect_error(Code.STALE_CLAIM, "no longer valid"):
            world.call(tool, **arguments, **proof[how])

    assert plan.get_task("a") == before


def test_an_agent_that_lost_a_task_may_claim_it_again(world: World):
    plan, late, _ = create_plan_with_silent_holder(world)
    other = world.register_agent()
    plan.claim("a", other)
    release(world, plan, "a", other)

    assert plan.claim("a", late)["claim_epoch"] == 3
    plan.set_status("a", "completed", agent_id=late)
    assert list_lost_claims(world, late) == []


def test_an_unknown_epoch_is_stale(world: World):
    plan = world.create_plan("a")

    with expect_error(Code.STALE_CLAIM):
        plan.set_status("a", "in_progress", claim_epoch=7)


def test_a_caller_without_an_agent_may_update_a_free_task_and_is_recorded_in_the_history(world: World):
    plan = world.create_plan("a")
    stranger = world.new_caller()

    plan.set_status("a", "completed", caller=stranger)

    [line] = [
        line for line in plan.list_history() if line.get("after") == "completed" and line.get("task_id")
    ]
    assert line["by_whom"] == stranger


def test_an_unregistered_agent_cannot_update_a_task(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    world.call("agent_unregister", id=agent)

    with expect_error(Code.INVALID_STATE, "unregistered"):
        plan.set_status("a", "in_progress", agent_id=agent)


# Started without a claim


def test_an_agent_that_starts_a_task_holds_it(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()

    plan.set_status("a", "in_progress", agent_id=agent)

    assert plan.get_task("a")["assigned_agent_id"] == agent
    assert plan.claim("a", world.register_agent())["already_claimed_by"] == agent
    assert plan.list_event_types()[-3:] == ["plan_task:claimed", "plan_task:updated", "plan:updated"]
    world.let_leases_expire()
    assert plan.list_offered() == ["a"], "its silence frees the task"


def test_an_agent_that_plans_a_task_holds_it(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()

    world.call("task_set_plan", id=plan["a"], plan={"steps": []}, agent_id=agent)

    assert plan.get_task("a")["assigned_agent_id"] == agent


def test_a_task_started_without_an_agent_has_no_holder(world: World):
    plan = world.create_plan("a")

    plan.set_status("a", "in_progress", caller=world.new_caller())

    assert "assigned_agent_id" not in plan.get_task("a")


def test_a_task_started_by_a_caller_with_one_agent_is_held_by_that_agent(world: World):
    plan = world.create_plan("a")
    me = world.new_caller()
    agent = world.register_agent(caller=me)

    plan.set_status("a", "in_progress", caller=me)

    assert plan.get_task("a")["assigned_agent_id"] == agent


def test_a_second_failure_is_stored_and_frees_the_task_again(world: World):
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


def test_a_claimed_retry_may_be_completed_without_being_started(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    plan.set_status("a", "failed", error="E1")

    plan.claim("a", agent)
    plan.set_status("a", "completed", outcome="now it works", agent_id=agent)

    assert plan.get_task("a")["status"] == "completed"


def test_another_agent_cannot_update_a_claimed_task(world: World):
    plan = world.create_plan("a")
    holder, stranger = world.register_agent(), world.register_agent()
    plan.claim("a", holder)

    with expect_error(Code.NOT_ASSIGNED):
        plan.set_status("a", "in_progress", agent_id=stranger)

    assert plan.get_task("a")["assigned_agent_id"] == holder


def test_starting_a_task_is_checked_like_claiming_it(world: World):
    plan = world.create_plan("a", "b", max_parallel_tasks=1)
    plan.set_status("a", "in_progress", agent_id=world.register_agent())

    with pytest.raises(NotAllowed, match="limit is 1"):
        plan.set_status("b", "in_progress", agent_id=world.register_agent())


# Concurrent


@pytest.mark.differs
def test_exactly_one_of_many_concurrent_claims_succeeds(world: World):
    plan = world.create_plan("a")
    id, agents = plan["a"], [world.register_agent() for _ in range(8)]

    with ThreadPoolExecutor(8) as callers:
        answers = list(
            callers.map(lambda agent: world.call("task_claim", task_id=id, agent_id=agent), agents)
        )

    assert sum(answer["success"] for answer in answers) == 1
    [holder] = {answer["already_claimed_by"] for answer in answers if not answer["success"]}
    assert holder == plan.get_task("a")["assigned_agent_id"]


@pytest.mark.differs
def test_concurrent_claims_do_not_exceed_the_parallel_limit(world: World):
    plan = world.create_plan(*(f"t{number}" for number in range(8)), max_parallel_tasks=3)
    pairs = [(plan[f"t{number}"], world.register_agent()) for number in range(8)]

    with ThreadPoolExecutor(8) as callers:
        answers = list(
            callers.map(lambda pair: world.call("task_claim", task_id=pair[0], agent_id=pair[1]), pairs)
        )

    assert sum(answer["success"] for answer in answers) == 3
    assert {answer.get("reason") for answer in answers} == {None, "limit"}


@pytest.mark.differs
def test_concurrent_agents_complete_every_task_of_a_plan(world: World):
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


@pytest.mark.differs
def test_conflicting_concurrent_agents_never_deadlock(world: World):
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


def test_a_claim_repeated_under_one_key_has_one_effect(world: World):
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


def test_a_heartbeat_or_message_may_name_an_existing_task_or_workflow(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()

    world.call("agent_heartbeat", agent_id=agent, current_task_id=plan["a"])
    world.call(
        "message_send", sender_id=agent, recipient_id=agent, message_type="query", body="?",
        workflow_id=plan.id, task_id=plan["a"],
    )  # fmt: skip

    assert get_agent_state(world, agent)[1] == plan["a"]
