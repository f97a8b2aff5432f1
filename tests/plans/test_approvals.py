"""Plans and tasks that a person has to approve, on both databases."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from approvals.make import decide as decide_approval
from deepwork.kernel.errors import Code, GateClosed
from plans.world import Plan, World, expect_error

PERSON = "human:anna"


def create_plan(world: World, *tasks: dict[str, Any], **keys: Any) -> Plan:
    """Create a plan whose tasks wait for nothing; `keys` are those of the plan."""
    id = world.create_workflow(max_parallel_tasks=100)
    written = [{"depends_on": [], **task} for task in tasks]
    world.call("workflow_set_plan", id=id, plan={"summary": "In steps.", "tasks": written, **keys})
    return Plan(world, id)


def decide(world: World, id: str, verdict: str = "approve", comment: str | None = None) -> None:
    decide_approval(world.app, id, verdict, comment)


def find_pending(world: World, plan: Plan, kind: str) -> dict[str, Any]:
    """Return the only request about the plan that waits."""
    with world.app.database.reading() as tx:
        rows = tx.fetch_all(
            "SELECT * FROM approvals WHERE workflow_id = :id AND status = 'pending' AND subject_kind = :kind",
            id=plan.id,
            kind=kind,
        )
    [row] = rows
    return row


def test_no_task_of_a_plan_is_handed_out_before_it_is_approved(world: World) -> None:
    plan, agent = create_plan(world, {"name": "a"}, {"name": "b"}, approve_plan=True), world.register_agent()
    pending = find_pending(world, plan, "plan")

    claimed, offered = plan.claim("a", agent), plan.get_next_tasks()
    available = world.call("task_get_available", agent_id=agent, workflow_id=plan.id)
    anywhere = world.call("task_get_available", agent_id=agent, limit=200)

    assert (claimed["success"], claimed["reason"], claimed["approval"]["id"]) == (
        False,
        "approval",
        pending["id"],
    )
    assert (offered["tasks"], offered["total_available"], offered["recommended_count"]) == ([], 0, 0)
    assert "approve the plan" in offered["reason"]
    assert (available["tasks"], available["approval"]["id"]) == ([], pending["id"])
    assert plan.id not in {task["workflow_id"] for task in anywhere["tasks"]}
    for status in ("planning", "in_progress", "completed", "failed"):
        with expect_error(Code.NEEDS_APPROVAL, pending["id"]):
            plan.set_status("a", status)
    with expect_error(Code.NEEDS_APPROVAL, pending["id"]):
        world.call("task_set_plan", id=plan["a"], plan={"steps": ["one"]})
    with expect_error(Code.NEEDS_APPROVAL, pending["id"]):
        plan.set_status("a", "in_progress", agent_id=agent)


def test_an_approved_plan_is_handed_out_task_by_task(world: World) -> None:
    plan, agent = create_plan(world, {"name": "a"}, {"name": "b"}, approve_plan=True), world.register_agent()
    decide(world, find_pending(world, plan, "plan")["id"])

    assert plan.list_offered() == ["a", "b"]
    assert plan.claim("a", agent, start=True)["success"]
    plan.set_status("a", "completed", agent_id=agent)
    assert plan.claim("b", agent)["success"]


def test_only_a_person_skips_a_task_of_a_plan_that_was_approved(world: World) -> None:
    plan = create_plan(world, {"name": "a"}, {"name": "b"}, approve_plan=True)

    with expect_error(Code.UNAUTHORIZED, "Only a person"):
        plan.set_status("a", "skipped")

    plan.set_status("a", "skipped", caller=PERSON)


PLAN_GATES: dict[str, Any] = {"checks": ["tests"], "approval": "after"}
DROPS: dict[str, Any] = {
    "remove": ("workflow_remove_task", {}),
    "replan without it": ("workflow_replan", {"tasks": [{"name": "a", "depends_on": []}]}),
    "replan with another": ("workflow_replan", {"tasks": [{"name": "a"}, {"name": "other"}]}),
    "replan to nothing": ("workflow_replan", {"tasks": []}),
}


def drop(world: World, plan: Plan, way: str, **given: Any) -> Any:
    tool, arguments = DROPS[way]
    named = {"task_id": plan["b"]} if tool == "workflow_remove_task" else {"reason": "r", **arguments}
    return world.call(tool, workflow_id=plan.id, **named, **given)


@pytest.mark.parametrize("way", [way for way in DROPS if way != "replan to nothing"])  # a plan needs a task
@pytest.mark.parametrize("gate", PLAN_GATES)
def test_only_a_person_drops_a_task_that_its_plan_gates(world: World, way: str, gate: str) -> None:
    plan = create_gated_plan(world, gate)

    with expect_error(Code.UNAUTHORIZED, "Only a person"):
        drop(world, plan, way)
    assert plan.list_offered() == ["a", "b"]

    drop(world, plan, way, caller=PERSON)
    assert "b" not in Plan(world, plan.id).list_offered()


def create_gated_plan(world: World, gate: str) -> Plan:
    """Create a plan of two tasks; checks are written into the store, because naming them needs a repository."""
    given = {} if gate == "checks" else {gate: PLAN_GATES[gate]}
    plan = create_plan(world, {"name": "a", "depends_on": []}, {"name": "b", "depends_on": []}, **given)
    if gate == "checks":
        with world.app.database.transaction() as tx:
            tx.update("plans", plan.id, {"requirements": '{"checks":["tests"]}'})
    return plan


@pytest.mark.parametrize("way", ["remove", "replan to nothing"])
def test_an_approved_plan_is_not_completed_by_dropping_what_is_left(world: World, way: str) -> None:
    plan, agent = create_plan(world, {"name": "a"}, {"name": "b"}, approve_plan=True), world.register_agent()
    decide(world, find_pending(world, plan, "plan")["id"])
    plan.claim("a", agent, start=True)

    with expect_error(Code.UNAUTHORIZED, "Only a person"):
        drop(world, plan, way)
    plan.set_status("a", "completed", agent_id=agent)

    assert plan.status == "in_progress"
    drop(world, plan, way, caller=PERSON)
    assert plan.status == "completed"


@pytest.mark.parametrize("is_started", [False, True])
def test_a_replan_does_not_let_a_task_start_before_the_gate_that_it_waits_for(
    world: World, is_started: bool
) -> None:
    sign_off = {"name": "sign off", "approval": "after", "depends_on": []}
    build = {"name": "build", "depends_on": ["sign off"]}
    deploy = {"name": "deploy", "depends_on": ["build"]}
    plan = create_plan(world, sign_off, build, deploy)
    if is_started:
        plan.claim("sign off", world.register_agent(), start=True)
    tasks = [build] if is_started else [sign_off, build]

    for loosened in ({**deploy, "depends_on": []}, {"name": "deploy", "sequence": 1}):
        with expect_error(Code.UNAUTHORIZED, "Only a person"):
            replan_with(world, plan, *tasks, loosened)
    replan_with(world, plan, *tasks, {**deploy, "depends_on": ["sign off"]})

    assert not {"build", "deploy"} & set(Plan(world, plan.id).list_offered())


def replan_with(world: World, plan: Plan, *tasks: dict[str, Any]) -> None:
    world.call("workflow_replan", workflow_id=plan.id, reason="r", tasks=list(tasks))


CHANGES: dict[str, Any] = {
    "add": lambda world, plan: world.call("workflow_add_task", workflow_id=plan.id, task={"name": "c"}),
    "remove": lambda world, plan: world.call("workflow_remove_task", workflow_id=plan.id, task_id=plan["b"]),
    "name": lambda world, plan: replan(world, plan, {"name": "c"}),
    "description": lambda world, plan: replan(world, plan, {"description": "Other."}),
    "sequence": lambda world, plan: replan(world, plan, {"sequence": 2}),
    "group": lambda world, plan: replan(world, plan, {"parallel_group": "g"}),
    "order": lambda world, plan: replan(world, plan, {"depends_on": ["a"]}),
    "attempts": lambda world, plan: replan(world, plan, {"max_attempts": 9}),
    "approval": lambda world, plan: replan(world, plan, {"approval": "after"}),
    "budget": lambda world, plan: replan(world, plan, {"budget": {"usd": 1}}),
    "changes": lambda world, plan: replan(world, plan, {"changes": "none"}),
    "files": lambda world, plan: replan(world, plan, {"files_likely_affected": ["x"]}),
    "capabilities": lambda world, plan: replan(world, plan, {"required_capabilities": ["x"]}),
    "complexity": lambda world, plan: replan(world, plan, {"estimated_complexity": "high"}),
    "summary": lambda world, plan: replan(world, plan, {}, summary="Another."),
}


def replan(world: World, plan: Plan, change: dict[str, Any], **given: Any) -> None:
    tasks = [{"name": "a", "depends_on": []}, {"name": "b", "depends_on": [], **change}]
    world.call("workflow_replan", workflow_id=plan.id, reason="r", tasks=tasks, caller=PERSON, **given)


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_an_approved_plan_asks_again(world: World, change: str) -> None:
    plan, agent = create_plan(world, {"name": "a"}, {"name": "b"}, approve_plan=True), world.register_agent()
    first = find_pending(world, plan, "plan")["id"]
    decide(world, first)

    CHANGES[change](world, plan)
    again = find_pending(world, plan, "plan")["id"]

    claimed = Plan(world, plan.id).claim("a", agent)
    assert (claimed["reason"], claimed["approval"]["id"], again != first) == ("approval", again, True)


def test_a_replan_with_the_same_tasks_stays_approved(world: World) -> None:
    plan, agent = create_plan(world, {"name": "a"}, {"name": "b"}, approve_plan=True), world.register_agent()
    decide(world, find_pending(world, plan, "plan")["id"])

    replan(world, plan, {})

    assert Plan(world, plan.id).claim("a", agent)["success"]


def test_a_refused_plan_says_why_until_it_changes(world: World) -> None:
    plan, agent = create_plan(world, {"name": "a"}, {"name": "b"}, approve_plan=True), world.register_agent()
    decide(world, find_pending(world, plan, "plan")["id"], "refuse", "Too big.")

    claimed = plan.claim("a", agent)

    assert (claimed["approval"]["status"], claimed["approval"]["comment"]) == ("refused", "Too big.")
    assert "Too big." in plan.get_next_tasks()["reason"]


def test_waiting_for_tasks_ends_when_the_plan_is_refused(world: World) -> None:
    plan = create_plan(world, {"name": "a"}, approve_plan=True)
    id, answers = find_pending(world, plan, "plan")["id"], list[Any]()
    waiting = threading.Thread(target=lambda: answers.append(plan.get_next_tasks(wait_seconds=30)))

    waiting.start()
    decide(world, id, "refuse", "Too big.")
    waiting.join()

    assert answers[0]["approval"] == {
        "id": id,
        "subject": f"plan:{plan.id}",
        "status": "refused",
        "comment": "Too big.",
    }


def test_a_plan_changed_back_to_a_refused_one_says_so_and_can_be_approved(world: World) -> None:
    plan, agent = create_plan(world, {"name": "a"}, {"name": "b"}, approve_plan=True), world.register_agent()
    refused = find_pending(world, plan, "plan")["id"]
    decide(world, refused, "refuse", "Too big.")
    replan(world, plan, {"description": "less"})
    replan(world, plan, {})

    assert plan.get_next_tasks()["approval"]["id"] == refused
    decide(world, refused)
    assert Plan(world, plan.id).list_offered() == ["a", "b"]
    anywhere = world.call("task_get_available", agent_id=agent, limit=200)
    assert plan.id in {task["workflow_id"] for task in anywhere["tasks"]}


def test_no_next_task_is_named_while_a_changed_plan_waits(world: World) -> None:
    plan, agent = create_plan(world, {"name": "a"}, {"name": "b"}, approve_plan=True), world.register_agent()
    decide(world, find_pending(world, plan, "plan")["id"])
    plan.claim("a", agent, start=True)
    world.call("workflow_add_task", workflow_id=plan.id, task={"name": "c"})

    assert "next_tasks" not in plan.set_status("a", "completed", agent_id=agent)


def test_a_task_is_claimed_after_it_was_approved(world: World) -> None:
    plan, agent = (
        create_plan(world, {"name": "a", "approval": "before"}, {"name": "b"}),
        world.register_agent(),
    )

    refused = plan.claim("a", agent)
    hidden = plan.list_offered()
    with expect_error(Code.NEEDS_APPROVAL):
        plan.set_status("a", "in_progress")
    decide(world, refused["approval"]["id"])

    assert (refused["reason"], refused["approval"]["status"]) == ("approval", "pending")
    assert (hidden, plan.list_offered()) == (["b"], ["a", "b"])
    assert plan.claim("a", agent)["success"]


def test_a_task_is_not_started_before_anybody_was_asked(world: World) -> None:
    plan = create_plan(world, {"name": "a"}, approval="before")

    with expect_error(Code.NEEDS_APPROVAL, "before work on it begins"):
        plan.set_status("a", "completed")


def test_the_approval_to_begin_a_task_is_good_for_one_claim(world: World) -> None:
    plan, agent = create_plan(world, {"name": "a", "approval": "before"}), world.register_agent()
    first = plan.claim("a", agent)["approval"]["id"]
    decide(world, first)
    plan.claim("a", agent, start=True)
    world.let_leases_expire()

    again = plan.claim("a", world.register_agent())

    assert (again["success"], again["approval"]["status"]) == (False, "pending")
    assert again["approval"]["id"] != first
    assert plan.get_next_tasks()["tasks"] == []


def test_an_agent_that_was_silent_continues_what_it_may_begin(world: World) -> None:
    plan, agent = create_plan(world, {"name": "a", "approval": "before"}), world.register_agent()
    decide(world, plan.claim("a", agent)["approval"]["id"])
    plan.claim("a", agent, start=True)
    world.let_leases_expire()

    plan.set_status("a", "in_progress", agent_id=agent)

    assert plan.get_task("a")["assigned_agent_id"] == agent


def test_a_claim_that_is_refused_for_another_reason_uses_no_approval(world: World) -> None:
    plan = create_plan(world, {"name": "a", "approval": "before"}, {"name": "b"})
    world.call("workflow_set_parallelism", id=plan.id, max_parallel_tasks=1)
    agent, other = world.register_agent(), world.register_agent()
    decide(world, plan.claim("a", agent)["approval"]["id"])
    plan.claim("b", other)

    assert plan.claim("a", agent)["reason"] == "limit"
    plan.set_status("b", "completed", agent_id=other)
    assert plan.claim("a", agent)["success"]


def test_a_task_that_may_begin_is_started_without_a_claim_once(world: World) -> None:
    plan, agent = create_plan(world, {"name": "a", "approval": "before"}), world.register_agent()
    decide(world, plan.claim("a", agent)["approval"]["id"])
    plan.set_status("a", "in_progress", agent_id=agent)
    world.call("task_release", task_id=plan["a"], agent_id=agent)

    with expect_error(Code.NEEDS_APPROVAL, "before work on it begins"):
        plan.set_status("a", "in_progress")


def hold(world: World, plan: Plan, agent: str, **report: Any) -> str:
    """Report a task as completed that a person has to approve; return the id of the request."""
    with pytest.raises(GateClosed) as closed:
        plan.set_status("a", "completed", agent_id=agent, **report)
    assert closed.value.code is Code.NEEDS_APPROVAL
    id: str = closed.value.evidence["approval"]["id"]
    return id


def test_work_waits_for_approval_and_its_agent_is_free(world: World) -> None:
    plan, agent = (
        create_plan(world, {"name": "a", "approval": "after"}, {"name": "b"}),
        world.register_agent(),
    )
    plan.claim("a", agent, start=True)

    hold(world, plan, agent)
    task = plan.get_task("a")
    world.let_leases_expire()

    assert (task["status"], task["waits_for"], task["outcome"]) == ("in_progress", "approval", "It is done.")
    assert "assigned_agent_id" not in task
    assert plan.list_offered() == ["b"]
    assert plan.get_next_tasks()["needs_person"] == [plan["a"]]
    assert plan.claim("a", world.register_agent())["reason"] == "approval"
    assert plan.claim("b", agent)["success"]
    assert plan.get_task("a")["waits_for"] == "approval"


def test_the_next_call_completes_approved_work(world: World) -> None:
    plan, agent = create_plan(world, {"name": "a", "approval": "after"}), world.register_agent()
    plan.claim("a", agent, start=True)
    id = hold(world, plan, agent)

    again = hold(world, plan, agent)
    decide(world, id)
    plan.set_status("a", "completed", agent_id=agent)

    assert again == id
    assert "waits_for" not in plan.get_task("a")
    assert plan.status == "completed"


@pytest.mark.parametrize("report", [{"outcome": "Other."}, {"outcome_detail": {"files": 1}}])
def test_another_report_is_asked_about_again(world: World, report: dict[str, Any]) -> None:
    plan, agent = create_plan(world, {"name": "a", "approval": "after"}), world.register_agent()
    plan.claim("a", agent, start=True)
    id = hold(world, plan, agent)
    decide(world, id)

    other = hold(world, plan, agent, **report)

    assert other != id
    assert plan.get_task("a")["status"] == "in_progress"


def test_a_claimed_task_that_was_never_started_waits_too(world: World) -> None:
    plan, agent = create_plan(world, {"name": "a"}, approval=["after"]), world.register_agent()
    plan.claim("a", agent)

    hold(world, plan, agent)

    task = plan.get_task("a")
    assert (task["status"], task["attempts"]) == ("in_progress", 1)


def test_a_failure_withdraws_the_request(world: World) -> None:
    plan, agent = create_plan(world, {"name": "a", "approval": "after"}), world.register_agent()
    plan.claim("a", agent, start=True)
    hold(world, plan, agent)

    plan.set_status("a", "failed", agent_id=agent)

    with world.app.database.reading() as tx:
        rows = tx.fetch_all("SELECT status FROM approvals WHERE workflow_id = :id", id=plan.id)
    assert [row["status"] for row in rows] == ["stale"]
    assert "waits_for" not in plan.get_task("a")


def test_a_plan_without_requirements_asks_nobody(world: World) -> None:
    plan, agent = create_plan(world, {"name": "a"}), world.register_agent()

    plan.claim("a", agent, start=True)
    plan.set_status("a", "completed", agent_id=agent)

    with world.app.database.reading() as tx:
        assert tx.fetch_all("SELECT 1 FROM approvals WHERE workflow_id = :id", id=plan.id) == []


def test_replanning_a_task_withdraws_what_waits(world: World) -> None:
    plan, agent = create_plan(world, {"name": "a", "approval": "after"}), world.register_agent()
    plan.claim("a", agent, start=True)
    hold(world, plan, agent)

    world.call("task_replan", id=plan["a"], reason="Another way.", new_plan={"steps": ["one"]})

    task = plan.get_task("a")
    assert (task["status"], "waits_for" in task, "outcome" in task) == ("pending", False, False)
    assert plan.claim("a", agent)["success"]


TAMPERED = {
    "name": "'other'",
    "description": "'Other.'",
    "sequence": "7",
    "parallel_group": "'g'",
    "max_attempts": "9",
    "requirements": """'{"approval":["before"],"changes":"none"}'""",
    "context": """'{"files_likely_affected":["x"]}'""",
}


@pytest.mark.parametrize("column", TAMPERED)
def test_a_task_that_was_changed_behind_the_tools_is_not_handed_out(world: World, column: str) -> None:
    """The digest is computed from the stored task when it is handed out, not from what was said about it."""
    agent = world.register_agent()
    whole = create_plan(world, {"name": "a"}, approve_plan=True)
    single = create_plan(world, {"name": "a", "approval": "before"})
    decide(world, find_pending(world, whole, "plan")["id"])
    decide(world, single.claim("a", agent)["approval"]["id"])
    ids = {whole: whole["a"], single: single["a"]}

    with world.app.database.transaction() as tx:
        tx.execute(
            f"UPDATE plan_tasks SET {column} = {TAMPERED[column]} WHERE id IN :ids", ids=list(ids.values())
        )

    for plan in ids:
        claimed = plan.claim("a", agent)
        assert (claimed["success"], claimed.get("reason")) == (False, "approval"), plan.id


@pytest.mark.parametrize("column", ["name", "description"])
def test_a_task_that_was_changed_behind_the_tools_is_not_completed(world: World, column: str) -> None:
    plan, agent = create_plan(world, {"name": "a", "approval": "after"}), world.register_agent()
    plan.claim("a", agent, start=True)
    id, task = hold(world, plan, agent), plan["a"]
    decide(world, id)

    with world.app.database.transaction() as tx:
        tx.execute(f"UPDATE plan_tasks SET {column} = 'other' WHERE id = :id", id=task)

    assert hold(world, plan, agent) != id


def test_what_is_shown_cannot_be_exchanged_before_the_decision(world: World) -> None:
    plan = create_plan(world, {"name": "a"}, approve_plan=True)
    id = find_pending(world, plan, "plan")["id"]
    with world.app.database.transaction() as tx:
        tx.execute("UPDATE approvals SET shown = :shown WHERE id = :id", shown='{"name":"harmless"}', id=id)

    with expect_error(Code.INVALID_STATE, "its row was changed"):
        decide(world, id)
