"""Task tools, on every database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deepwork.kernel.errors import Code
from plans.world import World, expect_error

PLAN = {"approach": "Carefully.", "steps": ["read", "write"]}


def set_plan(world: World, id: str, **given: Any) -> Any:
    return world.call("task_set_plan", id=id, **({"plan": PLAN} | given))


# The documented sequence of calls


def test_the_documented_sequence_of_calls_works(world: World):
    """Set the plan, start, add a checkpoint, finish: the calls in the seed's examples."""
    plan = world.create_plan({"name": "design"}, {"name": "build", "sequence": 2}, max_parallel_tasks=1)
    [task] = plan.get_next_tasks()["tasks"]

    assert set_plan(world, task["id"]) == {"success": True}
    assert world.call("task_update_status", id=task["id"], status="in_progress") == {"success": True}
    assert world.call("checkpoint_add", task_id=task["id"], type="progress", summary="Half.")["sequence"] == 2
    assert world.call("task_update_status", id=task["id"], status="completed", outcome="Done.") == {
        "success": True,
        "next_tasks": [{"id": plan["build"], "name": "build"}],
    }

    assert plan.status == "in_progress", "recovery finds it by its status"
    assert plan.list_offered() == ["build"]


def test_a_claimed_task_can_be_completed_without_being_started(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    plan.claim("a", agent)
    world.clock.advance(seconds=60)

    plan.set_status("a", "completed", agent_id=agent)

    task = plan.get_task("a")
    assert (task["status"], task["attempts"]) == ("completed", 1)
    assert task["finished_at"] - task["started_at"] == 60_000, "work starts with the claim"


def test_a_pending_task_may_fail_without_being_started(world: World):
    plan = world.create_plan("a")

    plan.set_status("a", "failed", error="Impossible.")

    assert plan.get_task("a")["error"] == "Impossible."


# task_get


def test_a_finished_task_has_every_result_field(world: World):
    plan = world.create_plan("a")
    began = world.clock.now
    plan.set_status("a", "in_progress")
    world.clock.advance(seconds=5)
    plan.set_status("a", "completed", outcome="Works.", outcome_detail={"tests": [1, {"ok": None}]})

    task = plan.get_task("a")

    assert task == {
        "id": plan["a"],
        "workflow_id": plan.id,
        "name": "a",
        "description": "",
        "status": "completed",
        "sequence": 1,
        "depends_on": [],
        "context": {},
        "outcome": "Works.",
        "outcome_detail": {"tests": [1, {"ok": None}]},
        "attempts": 1,
        "created_at": task["created_at"],
        "started_at": began,
        "finished_at": began + 5000,
        "updated_at": began + 5000,
    }


def test_the_newest_checkpoints_are_returned_in_order_on_request(world: World):
    plan = world.create_plan("a")
    for summary in ("one", "two", "three"):
        world.call("checkpoint_add", task_id=plan["a"], type="progress", summary=summary)

    assert "checkpoints" not in plan.get_task("a")
    every, some = (
        plan.get_task("a", include_checkpoints=True),
        plan.get_task("a", include_checkpoints=True, checkpoint_limit=2),
    )

    assert [each["summary"] for each in every["checkpoints"]] == ["one", "two", "three"]
    assert [each["summary"] for each in some["checkpoints"]] == ["two", "three"]
    assert every["checkpoints_total"] == some["checkpoints_total"] == 3


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_checkpoint_limit_out_of_range_is_an_input_error(world: World, limit: int):
    plan = world.create_plan("a")

    with expect_error(Code.INVALID_INPUT, "checkpoint_limit"):
        plan.get_task("a", include_checkpoints=True, checkpoint_limit=limit)


# task_set_plan


def test_setting_a_plan_moves_a_task_to_planning(world: World):
    plan = world.create_plan("a")
    whole = PLAN | {"files_to_modify": ["a.py"], "files_to_create": ["b.py"], "context_needed": ["the API"]}

    assert set_plan(world, plan["a"], plan=whole) == {"success": True}

    task = plan.get_task("a")
    assert (task["status"], task["plan"], task["attempts"]) == ("planning", whole, 1)


def test_the_plan_of_a_task_is_recorded_as_a_checkpoint(world: World):
    plan = world.create_plan("a")

    set_plan(world, plan["a"])

    [note] = plan.list_checkpoints("a")
    assert (note["type"], note["summary"], note["detail"]) == ("plan", "Carefully.", PLAN)


def test_context_is_merged_into_the_context_of_the_plan(world: World):
    plan = world.create_plan({"name": "a", "estimated_complexity": "low", "files_likely_affected": ["x.py"]})

    set_plan(world, plan["a"], context={"branch": "fix", "files_likely_affected": ["y.py"]})
    set_plan(world, plan["a"], context={"more": 1})

    assert plan.get_task("a")["context"] == {
        "estimated_complexity": "low", "files_likely_affected": ["y.py"], "branch": "fix", "more": 1,
    }  # fmt: skip


@pytest.mark.differs
def test_concurrent_context_merges_lose_nothing(world: World):
    plan = world.create_plan("a")
    id = plan["a"]

    with ThreadPoolExecutor(8) as callers:
        list(callers.map(lambda number: set_plan(world, id, context={f"key{number}": number}), range(16)))

    assert len(plan.get_task("a")["context"]) == 16


def test_the_plan_of_a_task_can_be_set_again_before_its_start(world: World):
    plan = world.create_plan("a")
    set_plan(world, plan["a"])

    set_plan(world, plan["a"], plan={"steps": ["other"]})

    assert plan.get_task("a")["plan"] == {"approach": "", "steps": ["other"]}
    assert plan.get_task("a")["attempts"] == 1


def test_a_failed_task_can_be_planned_for_a_retry(world: World):
    plan = world.create_plan("a")
    plan.set_status("a", "failed")

    set_plan(world, plan["a"])

    assert (plan.get_task("a")["status"], plan.get_task("a")["attempts"]) == ("planning", 2)


def test_a_blocked_task_cannot_be_planned(world: World):
    plan = world.create_plan("a", {"name": "b", "depends_on": ["a"]})

    with expect_error(Code.TASK_BLOCKED, "'a'"):
        set_plan(world, plan["b"])


@pytest.mark.parametrize("status", ["in_progress", "paused", "completed", "skipped"])
def test_the_plan_of_a_started_task_cannot_be_set(world: World, status: str):
    plan = world.create_plan("a", "b")
    if status == "paused":
        plan.set_status("a", "in_progress")
    plan.set_status("a", status)

    with expect_error(Code.INVALID_STATE, status):
        set_plan(world, plan["a"])


def test_a_plan_that_is_too_large_is_refused(world: World):
    plan = world.create_plan("a")

    with expect_error(Code.TOO_LARGE):
        set_plan(world, plan["a"], context={str(number): "x" * 200_000 for number in range(6)})


@pytest.mark.parametrize(
    "odd", [5, "src/**", {"a": 1}, [1, None, {"x": 2}], ["/abs/x.py", "src/[", "", "~/x", "../y"]]
)
def test_malformed_files_or_capabilities_in_a_context_cause_no_error(world: World, odd: Any):
    plan = world.create_plan("a", {"name": "b", "files_likely_affected": ["src/b.py", "/abs/x.py", "["]}, "c")
    set_plan(world, plan["a"], context={"files_likely_affected": odd, "required_capabilities": odd})
    world.call("task_update_status", id=plan["a"], status="paused")

    assert plan.get_next_tasks()["total_available"] == 2
    assert plan.claim("b", world.register_agent())["success"]
    world.call("task_get_available", agent_id=world.register_agent(), workflow_id=plan.id)


# task_update_status


@pytest.mark.parametrize(
    "way",
    [
        ["planning", "in_progress", "completed"],
        ["planning", "completed"],
        ["planning", "failed"],
        ["planning", "pending"],
        ["planning", "paused", "in_progress", "paused", "pending"],
        ["planning", "skipped"],
        ["in_progress", "paused", "failed", "pending"],
        ["in_progress", "paused", "skipped"],
        ["in_progress", "failed", "planning"],
        ["in_progress", "failed", "in_progress"],
        ["in_progress", "failed", "skipped"],
        ["skipped"],
    ],
)
def test_allowed_task_transitions_succeed(world: World, way: list[str]):
    plan = world.create_plan("a", "b")

    for status in way:
        assert plan.set_status("a", status)["success"]
        assert plan.get_task("a")["status"] == status


@pytest.mark.parametrize(
    ("way", "bad"),
    [
        ([], "paused"),
        ([], "blocked"),
        (["in_progress"], "pending"),
        (["in_progress", "paused"], "completed"),
        (["failed"], "completed"),
        (["failed"], "paused"),
        (["completed"], "pending"),
        (["completed"], "failed"),
        (["skipped"], "in_progress"),
    ],
)
def test_other_task_transitions_are_refused(world: World, way: list[str], bad: str):
    plan = world.create_plan("a", "b")
    for status in way:
        plan.set_status("a", status)

    with expect_error(Code.INVALID_TRANSITION):
        plan.set_status("a", bad)


def test_a_started_task_can_be_planned_again_or_skipped(world: World):
    plan = world.create_plan("a", {"name": "b", "depends_on": ["a"]})
    plan.set_status("a", "in_progress")

    plan.set_status("a", "planning")
    plan.set_status("a", "in_progress")
    plan.set_status("a", "skipped")

    assert plan.list_offered() == ["b"]


@pytest.mark.parametrize("status", ["planning", "in_progress", "completed", "failed", "skipped", "pending"])
def test_setting_a_task_to_its_current_status_changes_nothing(world: World, status: str):
    plan = world.create_plan("a")
    plan.set_status("a", status)
    before, events = plan.get_task("a"), plan.list_event_types()

    assert world.call("task_update_status", id=plan["a"], status=status.upper()) == {"success": True}
    assert (plan.get_task("a"), plan.list_event_types()) == (before, events)


@pytest.mark.parametrize("outcome", [None, "", "  \n"])
def test_completing_a_task_needs_an_outcome(world: World, outcome: str | None):
    plan = world.create_plan("a")

    with expect_error(Code.MISSING_OUTCOME, "outcome"):
        plan.set_status("a", "completed", outcome=outcome)


@pytest.mark.parametrize("error", [None, "", " "])
def test_failing_a_task_needs_an_error(world: World, error: str | None):
    plan = world.create_plan("a")

    with expect_error(Code.MISSING_ERROR, "error"):
        plan.set_status("a", "failed", error=error)


def test_transitions_are_checked_before_dependencies_and_required_fields(world: World):
    plan = world.create_plan("a", {"name": "b", "depends_on": ["a"]})

    with expect_error(Code.INVALID_TRANSITION):
        plan.set_status("b", "paused")
    with expect_error(Code.TASK_BLOCKED):
        plan.set_status("b", "completed", outcome=None)


@pytest.mark.parametrize("status", ["planning", "in_progress", "completed", "failed"])
def test_a_blocked_task_cannot_be_started_by_any_status(world: World, status: str):
    plan = world.create_plan("a", {"name": "b", "depends_on": ["a"]}, {"name": "c", "sequence": 2})

    for name in "bc":
        with expect_error(Code.TASK_BLOCKED, "'a'"):
            plan.set_status(name, status)


def test_a_blocked_task_may_be_skipped(world: World):
    plan = world.create_plan("a", {"name": "b", "depends_on": ["a"]}, {"name": "c", "depends_on": ["b", "a"]})

    plan.set_status("b", "skipped", outcome="Not needed.", outcome_detail={"by": "me"})

    assert plan.get_task("b")["outcome"] == "Not needed."
    assert plan.get_task("b")["outcome_detail"] == {"by": "me"}
    assert [each["name"] for each in plan.get_dependencies("c")["pending"]] == ["a"]


def test_an_unknown_status_is_an_input_error_that_names_the_parameter(world: World):
    plan = world.create_plan("a")

    with expect_error(Code.INVALID_INPUT, "status"):
        plan.set_status("a", "wat")


def test_a_failure_stores_its_error_and_detail(world: World):
    plan = world.create_plan("a")

    plan.set_status("a", "failed", error="No disk.", outcome_detail={"free": 0})

    task = plan.get_task("a")
    assert (task["error"], task["outcome_detail"]) == ("No disk.", {"free": 0})
    assert "outcome" not in task


def test_success_after_a_failure_clears_the_error(world: World):
    plan = world.create_plan("a")
    plan.set_status("a", "failed")
    plan.set_status("a", "in_progress")

    plan.set_status("a", "completed", outcome="Now it works.")

    task = plan.get_task("a")
    assert (task["outcome"], task.get("error"), task["attempts"]) == ("Now it works.", None, 2)


def test_the_workflow_status_follows_its_tasks(world: World):
    plan = world.create_plan("a", "b", "c")

    assert plan.status == "ready"
    plan.set_status("c", "skipped")
    assert plan.status == "ready", "skipping does not start a task"
    plan.set_status("a", "planning")
    assert plan.status == "in_progress"
    plan.set_status("a", "completed")
    plan.set_status("b", "failed")
    assert plan.status == "in_progress"
    plan.set_status("b", "skipped")
    assert plan.status == "completed"


def test_a_paused_workflow_is_completed_by_its_last_task(world: World):
    plan = world.create_plan("a")
    plan.set_status("a", "in_progress")
    world.call("workflow_update_status", id=plan.id, status="paused")

    plan.set_status("a", "completed")

    assert plan.status == "completed"


def test_a_report_repeated_under_one_key_has_one_effect(world: World):
    plan = world.create_plan("a", "b")
    given = {"key": world.new_caller(), "outcome": "Done."}

    assert plan.set_status("a", "completed", **given) == plan.set_status("a", "completed", **given)
    assert plan.list_event_types().count("plan_task:updated") == 1


@pytest.mark.differs
def test_concurrent_starts_of_a_task_all_succeed_and_start_it_once(world: World):
    plan = world.create_plan("a")
    id = plan["a"]

    def begin(_: int) -> Any:
        return world.call("task_update_status", id=id, status="in_progress")

    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(begin, range(8)))

    assert answers == [{"success": True}] * 8
    assert plan.get_task("a")["attempts"] == 1
    assert plan.list_event_types().count("plan_task:updated") == 1


# task_replan


def replan(world: World, id: str, **given: Any) -> Any:
    return world.call(
        "task_replan", id=id, reason="It failed.", **({"new_plan": {"steps": ["other"]}} | given)
    )


def test_a_replanned_failed_task_is_offered_again(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    plan.claim("a", agent)
    set_plan(world, plan["a"], agent_id=agent)
    plan.set_status("a", "failed", agent_id=agent, outcome_detail={"x": 1})

    answer = replan(world, plan["a"], new_plan={"approach": "Differently.", "steps": ["other"]})

    task = plan.get_task("a")
    assert answer == {"success": True, "checkpoint_id": plan.list_checkpoints("a")[-1]["id"]}
    assert (task["status"], task["plan"]["steps"]) == ("pending", ["other"])
    assert not {"error", "outcome", "outcome_detail", "assigned_agent_id", "finished_at"} & set(task)
    assert plan.list_offered() == ["a"]


def test_the_replaced_task_plan_is_kept_in_a_checkpoint(world: World):
    plan = world.create_plan("a")
    set_plan(world, plan["a"])
    plan.set_status("a", "failed")

    replan(world, plan["a"])

    note = plan.list_checkpoints("a")[-1]
    assert (note["type"], note["summary"]) == ("replan", "It failed.")
    assert note["detail"] == {
        "reason": "It failed.",
        "old_plan": PLAN,
        "new_plan": {"approach": "", "steps": ["other"]},
        "status_before": "failed",
    }


def test_a_holder_that_replans_keeps_its_task(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    epoch = plan.claim("a", agent)["claim_epoch"]
    plan.set_status("a", "in_progress", agent_id=agent)

    replan(world, plan["a"], agent_id=agent, claim_epoch=epoch)

    task = plan.get_task("a")
    assert (task["status"], task["assigned_agent_id"]) == ("in_progress", agent)
    plan.set_status("a", "completed", agent_id=agent, claim_epoch=epoch)


def test_a_task_replanned_by_a_person_is_released(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    plan.claim("a", agent)
    plan.set_status("a", "in_progress", agent_id=agent)

    replan(world, plan["a"], caller="human:ada")

    assert (plan.get_task("a")["status"], plan.get_task("a").get("assigned_agent_id")) == ("pending", None)
    assert world.call("agent_get", id=agent)["status"] == "online"
    assert plan.claim("a", world.register_agent())["success"]


@pytest.mark.parametrize("status", ["pending", "completed", "skipped"])
def test_only_a_failed_or_running_task_can_be_replanned(world: World, status: str):
    plan = world.create_plan("a", "b")
    plan.set_status("a", status)

    with expect_error(Code.INVALID_STATE, status):
        replan(world, plan["a"])


def test_a_new_plan_needs_a_reason(world: World):
    plan = world.create_plan("a")

    with expect_error(Code.INVALID_INPUT, "reason"):
        world.call("task_replan", id=plan["a"], reason="", new_plan={"steps": []})


# task_check_dependencies


def test_dependencies_are_split_into_completed_and_pending(world: World):
    plan = world.create_plan("a", "b", "c", {"name": "d", "sequence": 2, "depends_on": ["a", "b", "c"]})
    plan.set_status("a", "completed", outcome="Fine.")
    plan.set_status("b", "skipped")
    plan.set_status("c", "in_progress")

    assert plan.get_dependencies("d") == {
        "satisfied": False,
        "pending": [{"id": plan["c"], "name": "c", "status": "in_progress"}],
        "completed": [
            {"id": plan["a"], "name": "a", "outcome": "Fine."},
            {"id": plan["b"], "name": "b", "outcome": ""},
        ],
        "pending_total": 1,
        "completed_total": 2,
    }


def test_dependencies_include_those_implied_by_the_sequence(world: World):
    plan = world.create_plan({"name": "a"}, {"name": "b"}, {"name": "c", "sequence": 5})
    plan.set_status("a", "completed")

    found = plan.get_dependencies("c")

    assert [each["name"] for each in found["pending"]] == ["b"]
    assert [each["name"] for each in found["completed"]] == ["a"]
    plan.set_status("b", "completed")
    assert plan.get_dependencies("c")["satisfied"] is True


def test_an_empty_dependency_list_overrides_the_sequence(world: World):
    plan = world.create_plan({"name": "a"}, {"name": "b", "sequence": 2, "depends_on": []})

    assert plan.get_dependencies("b") == {
        "satisfied": True, "pending": [], "completed": [], "pending_total": 0, "completed_total": 0,
    }  # fmt: skip
    assert plan.list_offered() == ["a", "b"]


def test_many_dependencies_are_truncated_and_counted(world: World):
    names = [f"n{number}" for number in range(120)]
    plan = world.create_plan(
        *names, {"name": "named", "sequence": 2, "depends_on": names}, {"name": "implied", "sequence": 2}
    )
    plan.set_status("n0", "completed")
    plan.set_status("n1", "completed")

    for name in ("named", "implied"):
        found = plan.get_dependencies(name)
        assert (len(found["pending"]), found["pending_total"], found["completed_total"]) == (100, 118, 2)
        few = plan.get_dependencies(name, limit=1)
        assert (len(few["pending"]), len(few["completed"])) == (1, 1)
        assert (few["pending_total"], few["completed_total"]) == (118, 2)


# task_load_context


def test_a_context_contains_the_stored_data(world: World):
    plan = world.create_plan(
        {"name": "before"},
        {"name": "mine", "sequence": 2, "description": "Do mine.", "parallel_group": "g"},
        {"name": "beside", "sequence": 2, "parallel_group": "g"},
        summary="The whole plan.", source_content="The wish.", max_parallel_tasks=3,
    )  # fmt: skip
    plan.set_status("before", "completed", outcome="Before is done.")
    set_plan(world, plan["mine"], context={"branch": "fix"})
    world.call("checkpoint_add", task_id=plan["mine"], type="decision", summary="Use tabs.")

    context = world.call("task_load_context", task_id=plan["mine"])

    workflow, task = context["workflow"], context["current_task"]
    assert set(workflow) >= {
        "id",
        "name",
        "source_type",
        "source_summary",
        "plan_summary",
        "status",
        "max_parallel_tasks",
    }
    assert (workflow["id"], workflow["source_type"], workflow["max_parallel_tasks"]) == (plan.id, "prompt", 3)
    assert (workflow["source_summary"], workflow["plan_summary"]) == ("The wish.", "The whole plan.")
    assert set(task) >= {"id", "name", "description", "plan", "context", "checkpoints", "status"}
    assert (task["name"], task["description"], task["plan"]) == ("mine", "Do mine.", PLAN)
    assert task["context"] == {"branch": "fix"}
    assert {note["summary"] for note in task["checkpoints"]} == {"Carefully.", "Use tabs."}
    assert context["prior_tasks"] == []
    [sibling] = context["sibling_tasks"]
    assert (sibling["name"], sibling["status"]) == ("beside", "pending")
    [dependency] = context["dependency_outcomes"]
    assert (dependency["task_id"], dependency["task_name"], dependency["outcome"]) == (
        plan["before"], "before", "Before is done.",
    )  # fmt: skip
    assert context["token_estimate"] > 0


def test_parts_of_a_context_can_be_excluded(world: World):
    plan = world.create_plan(
        {"name": "a"},
        {"name": "b", "sequence": 2, "parallel_group": "g"},
        {"name": "c", "sequence": 2, "parallel_group": "g"},
    )
    plan.set_status("a", "completed")
    for number in range(8):
        world.call("checkpoint_add", task_id=plan["b"], type="progress", summary=f"note {number}")

    def load(**include: Any) -> Any:
        return world.call("task_load_context", task_id=plan["b"], include=include)

    assert "sibling_tasks" not in load(sibling_status=False)
    assert "dependency_outcomes" not in load(dependency_outcomes=False)
    assert not load(prior_task_outcomes=False).get("prior_tasks")
    assert len(load()["current_task"]["checkpoints"]) == 5
    assert len(load(recent_checkpoints=2)["current_task"]["checkpoints"]) == 2
    assert len(load(all_checkpoints=True)["current_task"]["checkpoints"]) == 8


@pytest.mark.parametrize(
    "bad",
    [
        {"max_tokens": 0},
        {"max_tokens": 10**9},
        {"include": {"recent_checkpoints": -1}},
        {"include": {"x": 1}},
    ],
)
def test_invalid_context_parameters_are_input_errors(world: World, bad: dict[str, Any]):
    plan = world.create_plan("a")

    with expect_error(Code.INVALID_INPUT, next(iter(bad))):
        world.call("task_load_context", task_id=plan["a"], **bad)


# All of them


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("task_get", {"id": "tk_0"}),
        ("task_set_plan", {"id": "tk_0", "plan": {"steps": []}}),
        ("task_update_status", {"id": "tk_0", "status": "planning"}),
        ("task_replan", {"id": "tk_0", "reason": "r", "new_plan": {"steps": []}}),
        ("checkpoint_add", {"task_id": "tk_0", "type": "plan", "summary": "s"}),
        ("checkpoint_list", {"task_id": "tk_0"}),
        ("task_load_context", {"task_id": "tk_0"}),
        ("task_check_dependencies", {"task_id": "tk_0"}),
        ("task_claim", {"task_id": "tk_0", "agent_id": "ag_0"}),
        ("task_release", {"task_id": "tk_0", "agent_id": "ag_0"}),
    ],
)
def test_an_unknown_task_has_its_own_error_code(world: World, tool: str, arguments: dict[str, Any]):
    with expect_error(Code.TASK_NOT_FOUND, "tk_0"):
        world.call(tool, **arguments)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("task_set_plan", {"plan": {"steps": []}}),
        ("task_update_status", {"status": "planning"}),
        ("task_replan", {"reason": "r", "new_plan": {"steps": []}}),
    ],
)
def test_an_unknown_agent_has_its_own_error_code(world: World, tool: str, arguments: dict[str, Any]):
    plan = world.create_plan("a")

    with expect_error(Code.AGENT_NOT_FOUND, "ag_0"):
        world.call(tool, id=plan["a"], agent_id="ag_0", **arguments)
