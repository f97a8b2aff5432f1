"""Workflow tools of plans, on every database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import measure_bytes
from deepwork.kernel.errors import Code
from plans.world import Plan, World, expect_error

STATUSES = ["planning", "ready", "in_progress", "paused", "completed", "failed", "abandoned"]


def set_plan(world: World, id: str, *tasks: Any, key: str | None = None, **given: Any) -> Any:
    plan = {"summary": "s", "tasks": list(tasks)} | given
    return world.call("workflow_set_plan", key=key, id=id, plan=plan)


# workflow_create


def test_a_new_workflow_has_the_status_planning(world: World):
    answer = world.call("workflow_create", name="Release", source_type="prompt", source_content="Release it.")

    assert answer == {"id": answer["id"], "name": "Release", "status": "planning", "max_parallel_tasks": 1}
    assert answer["id"].startswith("wf_")
    assert len(answer["id"]) == 15


def test_a_workflow_is_stored_as_given(world: World):
    id = world.create_workflow(
        name="Fix login", source_type="github_issue", source_ref="https://x/1", source_content="It fails.",
        max_parallel_tasks=3, auto_create_workspaces=True,
    )  # fmt: skip

    now = world.clock.now
    assert world.call("workflow_get", id=id) == {
        "id": id,
        "name": "Fix login",
        "source_type": "github_issue",
        "source_ref": "https://x/1",
        "source_content": "It fails.",
        "status": "planning",
        "repository_path": str(world.app.settings.project_root),
        "max_parallel_tasks": 3,
        "auto_create_workspaces": True,
        "file_conflicts": "warn",
        "created_by": "nobody",
        "created_at": now,
        "updated_at": now,
    }


@pytest.mark.parametrize("source", ["prompt", "github_issue", "linear", "jira", "custom", "GitHub_Issue"])
def test_every_source_type_is_accepted(world: World, source: str):
    id = world.create_workflow(source_type=source)

    assert world.call("workflow_get", id=id)["source_type"] == source.lower()


@pytest.mark.parametrize(
    "bad",
    [
        {"max_parallel_tasks": 0},
        {"max_parallel_tasks": -3},
        {"name": ""},
        {"name": " "},
        {"name": "x" * 201},
        {"source_content": 1},
        {"source_type": "telepathy"},
        {"colour": "red"},
        {"repository_path": ""},
        {"repository_path": "~nobody-of-that-name/x"},
        {"repository_paths": ["a", "b"]},
        {"repository_paths": "a"},
    ],
)
def test_an_invalid_workflow_is_an_input_error(world: World, bad: dict[str, Any]):
    with expect_error(Code.INVALID_INPUT, next(iter(bad))):
        world.create_workflow(**bad)


def test_a_repository_path_is_relative_to_the_project(world: World):
    id = world.create_workflow(repository_path="sub/../other")

    root = Path(world.app.settings.project_root)
    assert world.call("workflow_get", id=id)["repository_path"] == str(root / "other")


@pytest.mark.parametrize(
    "given",
    [
        {"repository_paths": ["sub/../other", "other"]},
        {"repository_path": "other", "repository_paths": ["other"]},
        {"repository_path": "other", "repository_paths": []},
    ],
)
def test_a_repository_can_be_named_in_a_list(world: World, given: dict[str, Any]):
    id = world.create_workflow(**given)

    root = Path(world.app.settings.project_root)
    assert world.call("workflow_get", id=id)["repository_path"] == str(root / "other")


def test_a_request_may_be_empty(world: World):
    id = world.create_workflow(source_content="")

    assert world.call("workflow_get", id=id)["source_content"] == ""


def test_a_creation_repeated_under_one_key_creates_one_workflow(world: World):
    given = {"name": "once", "source_type": "prompt", "source_content": "x", "key": world.new_caller()}

    first, second = world.call("workflow_create", **given), world.call("workflow_create", **given)

    assert first == second
    with expect_error(Code.KEY_REUSED):
        world.call("workflow_create", **(given | {"name": "twice"}))


# workflow_list


def test_workflows_are_listed_newest_first_with_their_total(world: World):
    here = {"repository_path": world.new_caller()}
    ids = []
    for name in ("one", "two", "three"):
        ids.append(world.create_workflow(name=name, **here))
        world.clock.advance(seconds=1)

    answer = world.call("workflow_list", limit=2, **here)

    assert answer["total"] == 3
    assert [workflow["id"] for workflow in answer["workflows"]] == [ids[2], ids[1]]
    assert world.call("workflow_list", limit=2, offset=2, **here)["workflows"][0]["name"] == "one"


def test_a_listed_workflow_has_only_its_main_fields(world: World):
    here = {"repository_path": world.new_caller()}
    id = world.create_workflow(**here)

    [line] = world.call("workflow_list", **here)["workflows"]

    now = world.clock.now
    assert line == {
        "id": id, "name": "release", "status": "planning", "source_type": "prompt",
        "created_at": now, "updated_at": now,
    }  # fmt: skip


def test_workflows_can_be_filtered_by_status(world: World):
    here = {"repository_path": world.new_caller()}
    planning, plan = world.create_workflow(**here), world.create_plan("a", **here)

    def ids(**given: Any) -> list[str]:
        return [each["id"] for each in world.call("workflow_list", **here, **given)["workflows"]]

    assert ids(status=["ready"]) == [plan.id]
    assert ids(status=["PLANNING"]) == [planning]
    assert len(ids(status=["planning", "ready"])) == len(ids(status=[])) == len(ids()) == 2
    assert ids(status=["failed"]) == []


def test_an_unknown_repository_has_no_workflows(world: World):
    world.create_workflow()

    assert world.call("workflow_list", repository_path="/nowhere") == {"workflows": [], "total": 0}


@pytest.mark.parametrize(
    "bad", [{"limit": 0}, {"limit": -1}, {"limit": 201}, {"offset": -1}, {"status": ["wat"]}]
)
def test_invalid_list_parameters_are_input_errors(world: World, bad: dict[str, Any]):
    with expect_error(Code.INVALID_INPUT, next(iter(bad))):
        world.call("workflow_list", **bad)


# workflow_set_plan


def test_a_plan_creates_its_tasks_and_makes_the_workflow_ready(world: World):
    id = world.create_workflow()

    answer = set_plan(
        world, id,
        {"name": "a", "description": "d", "sequence": 1, "parallel_group": "g"},
        {"name": "b", "description": "d", "sequence": 1, "parallel_group": "g"},
        {"name": "c", "description": "d", "sequence": 2, "parallel_group": "h"},
        approach="Step by step.",
    )  # fmt: skip

    warning = answer.pop("warning")
    assert answer == {"workflow_id": id, "tasks_created": 3, "parallelizable_groups": 2, "status": "ready"}
    assert warning.startswith("max_parallel_tasks is 1: tasks that could run in parallel wait for it;")


@pytest.mark.parametrize(
    ("limit", "tasks"),
    [
        (2, [{"name": "a"}, {"name": "b"}]),
        (1, [{"name": "a"}, {"name": "b", "sequence": 2}]),
        (1, [{"name": "a"}, {"name": "b", "depends_on": ["a"]}, {"name": "c", "depends_on": ["b"]}]),
    ],
)
def test_a_plan_that_the_limit_does_not_slow_down_has_no_warning(
    world: World, limit: int, tasks: list[dict[str, Any]]
):
    id = world.create_workflow(max_parallel_tasks=limit)

    assert "warning" not in set_plan(world, id, *tasks)


def test_a_plan_of_independent_tasks_warns_that_they_wait_for_the_limit(world: World):
    answer = set_plan(world, world.create_workflow(), *({"name": name, "depends_on": []} for name in "ab"))

    assert answer["warning"].startswith("max_parallel_tasks is 1")


@pytest.mark.parametrize(
    ("limit", "trees", "warns"), [(1, False, True), (1, True, True), (2, False, True), (2, True, False)]
)
def test_a_plan_that_commits_warns_if_its_tasks_get_no_worktrees(
    world: World, limit: int, trees: bool, warns: bool
):
    id = world.create_workflow(max_parallel_tasks=limit, auto_create_workspaces=trees)

    answer = set_plan(world, id, {"name": "a"}, commit=True)

    assert answer.get("warning", "").startswith("commit has no effect: ") is warns


def test_a_task_of_a_plan_is_stored_as_given(world: World):
    plan = world.create_plan(
        {"name": "a"},
        {
            "name": "b", "description": "Do b.", "sequence": 7, "parallel_group": "g", "depends_on": ["a"],
            "estimated_complexity": "high", "files_likely_affected": ["src/**"], "required_capabilities": ["sql"],
        },
    )  # fmt: skip

    task = plan.get_task("b")

    now = world.clock.now
    assert task == {
        "id": task["id"],
        "workflow_id": plan.id,
        "name": "b",
        "description": "Do b.",
        "status": "pending",
        "blocked": True,
        "sequence": 7,
        "parallel_group": "g",
        "depends_on": ["a"],
        "context": {
            "estimated_complexity": "high",
            "files_likely_affected": ["src/**"],
            "required_capabilities": ["sql"],
        },
        "attempts": 0,
        "created_at": now,
        "updated_at": now,
    }


def test_a_task_of_a_plan_needs_only_a_name(world: World):
    plan = world.create_plan({"name": "a"})

    task = plan.get_task("a")

    assert (task["description"], task["sequence"], task["status"]) == ("", 1, "pending")


def test_approach_risks_and_assumptions_are_stored(world: World):
    id = world.create_workflow()
    set_plan(world, id, {"name": "a"}, approach="Slowly.", risks=["rain"], assumptions=["sun"])

    workflow = world.call("workflow_get", id=id)

    assert workflow["plan_summary"] == "s"
    assert workflow["plan"] == {"approach": "Slowly.", "risks": ["rain"], "assumptions": ["sun"]}


def test_sequence_numbers_are_stored_and_may_be_shared(world: World):
    plan = world.create_plan(
        {"name": "a", "sequence": 7}, {"name": "b", "sequence": 7}, {"name": "c", "sequence": 9}
    )

    assert [task["sequence"] for task in plan.list_tasks()] == [7, 7, 9]


def test_a_plan_cannot_be_set_twice(world: World):
    plan = world.create_plan("a")

    with expect_error(Code.INVALID_STATE, "already has a plan"):
        set_plan(world, plan.id, {"name": "b"})


def test_an_abandoned_workflow_cannot_get_a_plan(world: World):
    id = world.create_workflow()
    world.call("workflow_update_status", id=id, status="abandoned")

    with expect_error(Code.INVALID_STATE, "abandoned"):
        set_plan(world, id, {"name": "a"})


@pytest.mark.parametrize(
    ("tasks", "code", "said"),
    [
        ([], Code.INVALID_INPUT, "no tasks"),
        ([{"name": " "}], Code.INVALID_INPUT, "no name"),
        ([{"name": "a"}, {"name": " a "}], Code.DUPLICATE_TASK_NAME, "'a'"),
        ([{"name": "a", "depends_on": ["a"]}], Code.SELF_DEPENDENCY, "'a'"),
        ([{"name": "a", "depends_on": ["z"]}], Code.UNKNOWN_DEPENDENCY, "'z'"),
        ([{"name": "a", "depends_on": ["b"]}, {"name": "b", "depends_on": ["a"]}], Code.CIRCULAR_DEPENDENCY, "a -> b"),
        ([{"name": "a", "sequence": -1}], Code.INVALID_INPUT, "sequence"),
        ([{"name": "a", "estimated_complexity": "epic"}], Code.INVALID_INPUT, "estimated_complexity"),
        ([{"name": "a", "owner": "me"}], Code.INVALID_INPUT, "owner"),
    ],
)  # fmt: skip
def test_an_invalid_plan_is_refused_and_creates_nothing(
    world: World, tasks: list[dict[str, Any]], code: Code, said: str
):
    id = world.create_workflow()

    with expect_error(code, said):
        set_plan(world, id, *tasks)

    workflow = world.call("workflow_get", id=id, include_tasks=True)
    assert (workflow["status"], workflow["tasks"], workflow["tasks_total"]) == ("planning", [], 0)


def test_all_problems_of_a_plan_are_reported_together(world: World):
    with expect_error(Code.DUPLICATE_TASK_NAME, r"(?s)'a'.*'x'.*'y'"):
        set_plan(
            world, world.create_workflow(),
            {"name": "a", "depends_on": ["x"]}, {"name": "a"}, {"name": "b", "depends_on": ["y"]},
        )  # fmt: skip


def test_a_repeated_dependency_counts_once(world: World):
    plan = world.create_plan("a", {"name": "b", "depends_on": ["a", " a ", "a"]})

    plan.set_status("a", "completed")

    assert plan.get_task("b")["depends_on"] == ["a"]
    assert plan.list_offered() == ["b"]


def test_a_dependency_may_come_later_in_the_plan(world: World):
    plan = world.create_plan({"name": "b", "depends_on": ["a"]}, "a")

    assert plan.list_offered() == ["a"]


def test_setting_a_plan_twice_under_one_key_has_one_effect(world: World):
    id, key = world.create_workflow(), world.new_caller()

    assert set_plan(world, id, {"name": "a"}, key=key) == set_plan(world, id, {"name": "a"}, key=key)


# workflow_get


def test_tasks_and_history_are_returned_only_on_request(world: World):
    plan = world.create_plan("a")

    assert "tasks" not in plan.get()
    assert "history" not in plan.get()


def test_a_task_summary_contains_its_dependencies(world: World):
    plan = world.create_plan(
        "a", {"name": "b", "depends_on": ["a"], "parallel_group": "g"}, {"name": "c", "sequence": 3}
    )
    agent = world.register_agent()
    plan.claim("a", agent)

    shown = plan.get(include_tasks=True)

    assert shown["tasks_total"] == 3
    assert shown["tasks"] == [
        {"id": plan["a"], "name": "a", "status": "pending", "sequence": 1, "depends_on": [], "assigned_agent_id": agent},
        {"id": plan["b"], "name": "b", "status": "pending", "blocked": True, "sequence": 1, "parallel_group": "g", "depends_on": ["a"]},
        {"id": plan["c"], "name": "c", "status": "pending", "blocked": True, "sequence": 3, "follows_sequence": 1},
    ]  # fmt: skip


def test_a_task_summary_contains_a_shortened_outcome_or_error(world: World):
    plan = world.create_plan("a", "b")
    plan.set_status("a", "completed", outcome="It\nworks. " + "x" * 500)
    plan.set_status("b", "failed", error="No disk.")

    done, failed = plan.list_tasks()

    assert done["outcome"].startswith("It works. x")
    assert len(done["outcome"]) == 200
    assert failed["outcome"] == "No disk."


def test_complete_tasks_are_returned_when_summaries_are_turned_off(world: World):
    plan = world.create_plan({"name": "a", "description": "All of it."})

    [task] = plan.list_tasks(include_task_summaries=False)

    assert task == plan.get_task("a")
    assert task["description"] == "All of it."


def test_tasks_are_sorted_and_limited(world: World):
    plan = world.create_plan({"name": "late", "sequence": 2}, {"name": "b"}, {"name": "a"})

    shown = plan.get(include_tasks=True, task_limit=2)

    assert [task["name"] for task in shown["tasks"]] == ["b", "a"]
    assert shown["tasks_total"] == 3


def test_many_dependencies_of_a_task_are_truncated_and_counted(world: World):
    names = [f"n{number}" for number in range(150)]
    plan = world.create_plan(*names, {"name": "last", "sequence": 2, "depends_on": names})

    line, task = plan.list_tasks()[-1], plan.get_task("last")

    assert (line["depends_on"], line["depends_on_total"]) == (names[:10], 150)
    assert (task["depends_on"], task["depends_on_total"]) == (names[:100], 150)


# workflow_update_status


@pytest.mark.parametrize(
    ("way", "status"),
    [
        (["paused"], "paused"),
        (["paused", "in_progress"], "in_progress"),
        (["in_progress", "failed"], "failed"),
        (["in_progress", "failed", "in_progress"], "in_progress"),
        (["paused", "failed"], "failed"),
        (["in_progress", "failed", "abandoned"], "abandoned"),
        (["abandoned"], "abandoned"),
    ],
)
def test_allowed_workflow_transitions_succeed(world: World, way: list[str], status: str):
    plan = world.create_plan("a")

    for step in way:
        assert world.call("workflow_update_status", id=plan.id, status=step) == {"success": True}

    assert plan.status == status


@pytest.mark.parametrize(
    ("way", "bad"),
    [
        ([], "failed"),
        ([], "planning"),
        (["paused"], "completed"),
        (["abandoned"], "in_progress"),
        (["in_progress", "failed"], "paused"),
    ],
)
def test_other_workflow_transitions_are_refused_with_the_allowed_ones(world: World, way: list[str], bad: str):
    plan = world.create_plan("a")
    for step in way:
        world.call("workflow_update_status", id=plan.id, status=step)

    with expect_error(Code.INVALID_TRANSITION):
        world.call("workflow_update_status", id=plan.id, status=bad)


@pytest.mark.parametrize("status", STATUSES)
def test_setting_a_workflow_to_its_current_status_changes_nothing(world: World, status: str):
    plan = world.create_plan("a")
    ways = {"planning": None, "ready": [], "completed": ["completed"], "failed": ["in_progress", "failed"]}
    if status == "planning":
        plan = Plan(world, world.create_workflow())
    for step in ways.get(status, [status]) or []:
        world.call("workflow_update_status", id=plan.id, status=step, force=True)
    events = plan.list_event_types()

    assert world.call("workflow_update_status", id=plan.id, status=status) == {"success": True}
    assert plan.list_event_types() == events


def test_without_a_plan_a_workflow_is_not_ready(world: World):
    with expect_error(Code.INVALID_STATE, "no plan"):
        world.call("workflow_update_status", id=world.create_workflow(), status="ready")


def test_a_workflow_with_open_tasks_is_completed_only_by_force(world: World):
    plan = world.create_plan("a", "b")
    plan.set_status("a", "completed")

    with expect_error(Code.INVALID_STATE, "1 task is not done"):
        world.call("workflow_update_status", id=plan.id, status="completed")
    world.call("workflow_update_status", id=plan.id, status="completed", force=True, reason="enough")

    assert plan.status == "completed"
    assert plan.list_history()[0]["reason"] == "enough"


@pytest.mark.parametrize("status", ["completed", "abandoned"])
def test_a_finished_workflow_cannot_be_changed(world: World, status: str):
    plan = world.create_plan("a", "b")
    agent = world.register_agent()
    plan.set_status("a", "in_progress")
    world.call("workflow_update_status", id=plan.id, status=status, force=True)

    changes: list[tuple[str, dict[str, Any]]] = [
        ("task_update_status", {"id": plan["a"], "status": "completed", "outcome": "x"}),
        ("task_set_plan", {"id": plan["b"], "plan": {"steps": []}}),
        ("task_replan", {"id": plan["a"], "reason": "r", "new_plan": {"steps": []}}),
        ("workflow_add_task", {"workflow_id": plan.id, "task": {"name": "c"}}),
        ("workflow_remove_task", {"workflow_id": plan.id, "task_id": plan["b"]}),
        ("workflow_replan", {"workflow_id": plan.id, "reason": "r", "tasks": [{"name": "c"}]}),
    ]
    for tool, arguments in changes:
        with expect_error(Code.INVALID_STATE, status):
            world.call(tool, **arguments)
    assert plan.claim("b", agent)["reason"] == "workflow"
    assert plan.get_next_tasks() == plan.get_next_tasks() | {
        "tasks": [],
        "recommended_count": 0,
        "total_available": 0,
    }
    assert status in plan.get_next_tasks()["reason"]
    assert plan.set_status("a", "in_progress") == {"success": True}, "repeating changes nothing"


def test_forcing_a_workflow_to_end_releases_its_claims(world: World):
    plan = world.create_plan("a", "b")
    agent = world.register_agent()
    plan.claim("a", agent)
    plan.set_status("a", "in_progress", agent_id=agent)

    world.call("workflow_update_status", id=plan.id, status="completed", force=True)

    holder = world.call("agent_get", id=agent)
    assert (holder["status"], holder.get("current_task_id")) == ("online", None)
    assert "assigned_agent_id" not in plan.get_task("a")
    assert plan.get_task("a")["status"] == "in_progress", "what it was when the workflow ended"
    assert plan.list_event_types().count("plan_task:released") == 1


# workflow_set_parallelism


def test_parallelism_can_be_set_at_any_time(world: World):
    plan = world.create_plan("a", max_parallel_tasks=1)

    answer = world.call(
        "workflow_set_parallelism", id=plan.id, max_parallel_tasks=4, auto_create_workspaces=True,
        file_conflicts="refuse",
    )  # fmt: skip

    assert answer == {"success": True}
    workflow = plan.get()
    assert workflow["max_parallel_tasks"] == plan.get_next_tasks()["max_parallel"] == 4
    assert (workflow["auto_create_workspaces"], workflow["file_conflicts"]) == (True, "refuse")


def test_omitted_parallelism_settings_are_kept(world: World):
    plan = world.create_plan("a", auto_create_workspaces=True)

    world.call("workflow_set_parallelism", id=plan.id, max_parallel_tasks=2)

    assert plan.get()["auto_create_workspaces"] is True
    assert plan.get()["file_conflicts"] == "warn"


def test_setting_the_same_parallelism_again_emits_no_event(world: World):
    plan = world.create_plan("a", max_parallel_tasks=2)
    events = plan.list_event_types()

    world.call("workflow_set_parallelism", id=plan.id, max_parallel_tasks=2)

    assert plan.list_event_types() == events


@pytest.mark.parametrize(
    "bad", [{"max_parallel_tasks": 0}, {"max_parallel_tasks": -3}, {"file_conflicts": "fight"}]
)
def test_parallelism_out_of_range_is_an_input_error(world: World, bad: dict[str, Any]):
    with expect_error(Code.INVALID_INPUT, next(iter(bad))):
        arguments: dict[str, Any] = {"id": world.create_workflow(), "max_parallel_tasks": 1} | bad
        world.call("workflow_set_parallelism", **arguments)


# workflow_add_task, workflow_remove_task, workflow_replan


def test_a_task_can_be_added_after_others_by_name_or_id(world: World):
    plan = world.create_plan("a", "b")

    added = world.call("workflow_add_task", workflow_id=plan.id, task={"name": "c"}, after=["a", plan["b"]])

    assert added == {"success": True, "task_id": plan["c"]}
    assert plan.get_task("c")["depends_on"] == ["a", "b"]
    assert plan.list_offered() == ["a", "b"]


def test_an_added_task_accepts_the_same_fields_as_in_a_plan(world: World):
    plan = world.create_plan("a")

    world.call(
        "workflow_add_task", workflow_id=plan.id,
        task={"name": "b", "description": "more", "sequence": 5, "depends_on": ["a"], "parallel_group": "g"},
    )  # fmt: skip

    task = plan.get_task("b")
    assert (task["description"], task["sequence"], task["depends_on"]) == ("more", 5, ["a"])


def test_a_task_added_after_the_last_task_gets_the_next_sequence(world: World):
    plan = world.create_plan(
        *({"name": name, "sequence": place} for place, name in enumerate("abc", start=1))
    )

    world.call("workflow_add_task", workflow_id=plan.id, task={"name": "d"}, after=["c"])

    assert plan.get_task("d")["sequence"] == 4
    for name in "abcd":
        assert plan.list_offered() == [name]
        plan.set_status(name, "completed")
    assert plan.status == "completed"


def test_a_task_added_without_a_position_joins_the_current_sequence(world: World):
    plan = world.create_plan({"name": "a"}, {"name": "b", "sequence": 2}, {"name": "c", "sequence": 3})
    plan.set_status("a", "completed")

    world.call("workflow_add_task", workflow_id=plan.id, task={"name": "urgent"})

    assert plan.list_offered() == ["b", "urgent"]
    assert plan.get_task("urgent")["sequence"] == 2
    plan.set_status("b", "completed")
    assert plan.list_offered() == ["urgent"], "what comes next waits for it too"


@pytest.mark.parametrize(
    ("task", "after", "code"),
    [
        ({"name": "a"}, None, Code.DUPLICATE_TASK_NAME),
        ({"name": "c", "depends_on": ["c"]}, None, Code.SELF_DEPENDENCY),
        ({"name": "c"}, ["nobody"], Code.UNKNOWN_DEPENDENCY),
        ({"name": "c"}, ["tk_000000000000"], Code.UNKNOWN_DEPENDENCY),
        ({"name": "", "sequence": 2}, None, Code.INVALID_INPUT),
        ({"name": "c", "sequence": 1}, ["b"], Code.CIRCULAR_DEPENDENCY),
    ],
)
def test_an_invalid_task_is_not_added(world: World, task: dict[str, Any], after: Any, code: Code):
    plan = world.create_plan({"name": "a"}, {"name": "b", "sequence": 2})

    with expect_error(code):
        world.call("workflow_add_task", workflow_id=plan.id, task=task, after=after)

    assert len(plan.list_tasks()) == 2


def test_a_task_of_another_workflow_cannot_be_a_dependency(world: World):
    plan, other = world.create_plan("a"), world.create_plan("a")

    with expect_error(Code.UNKNOWN_DEPENDENCY):
        world.call("workflow_add_task", workflow_id=plan.id, task={"name": "b"}, after=[other["a"]])


def test_a_task_cannot_be_added_to_a_workflow_without_a_plan(world: World):
    with expect_error(Code.INVALID_STATE, "no plan"):
        world.call("workflow_add_task", workflow_id=world.create_workflow(), task={"name": "a"})


def test_dependents_of_a_removed_task_inherit_its_dependencies(world: World):
    plan = world.create_plan("a", {"name": "b", "depends_on": ["a"]}, {"name": "c", "depends_on": ["b"]})
    last = plan["c"]

    answer = world.call("workflow_remove_task", workflow_id=plan.id, task_id=plan["b"])

    assert answer == {"success": True, "rewired": [last]}
    assert plan.get_task("c")["depends_on"] == ["a"]
    assert plan.list_offered() == ["a"]
    plan.set_status("a", "completed")
    assert plan.list_offered() == ["c"]


def test_dependents_inherit_the_implied_dependencies_of_a_removed_task(world: World):
    plan = world.create_plan(
        {"name": "a"},
        {"name": "b", "sequence": 2},
        {"name": "c", "sequence": 3},
        {"name": "d", "sequence": 4, "depends_on": ["b"]},
    )

    world.call("workflow_remove_task", workflow_id=plan.id, task_id=plan["b"])

    assert plan.get_task("c")["follows_sequence"] == 1
    assert plan.get_task("d")["depends_on"] == ["a"]


def test_a_removal_that_would_create_a_cycle_is_refused(world: World):
    plan = world.create_plan(
        {"name": "x", "depends_on": ["z"]},
        {"name": "t", "sequence": 2, "depends_on": []},
        {"name": "z", "sequence": 3},
    )

    with expect_error(Code.CIRCULAR_DEPENDENCY):
        world.call("workflow_remove_task", workflow_id=plan.id, task_id=plan["t"])

    assert len(plan.list_tasks()) == 3


def test_a_started_or_claimed_task_cannot_be_removed(world: World):
    plan = world.create_plan("claimed", "running", "failed", "free")
    plan.claim("claimed", world.register_agent())
    plan.set_status("running", "in_progress")
    plan.set_status("failed", "failed")

    for name in ("claimed", "running", "failed"):
        with expect_error(Code.INVALID_STATE, name):
            world.call("workflow_remove_task", workflow_id=plan.id, task_id=plan[name])


def test_a_task_whose_claim_expired_before_its_start_can_be_removed(world: World):
    plan = world.create_plan("a", "b")
    plan.claim("a", world.register_agent())
    world.let_leases_expire()

    assert world.call("workflow_remove_task", workflow_id=plan.id, task_id=plan["a"])["success"]


def test_the_only_task_of_a_plan_cannot_be_removed(world: World):
    plan = world.create_plan("a")

    with expect_error(Code.INVALID_STATE, "only task"):
        world.call("workflow_remove_task", workflow_id=plan.id, task_id=plan["a"])


def test_removing_the_last_open_task_completes_the_workflow(world: World):
    plan = world.create_plan("a", "b")
    plan.set_status("a", "completed")

    world.call("workflow_remove_task", workflow_id=plan.id, task_id=plan["b"])

    assert plan.status == "completed"


def test_a_task_of_another_workflow_cannot_be_removed(world: World):
    plan, other = world.create_plan("a", "b"), world.create_plan("a", "b")

    with expect_error(Code.TASK_NOT_FOUND):
        world.call("workflow_remove_task", workflow_id=plan.id, task_id=other["a"])


def test_replanning_replaces_unstarted_tasks_and_keeps_the_others(world: World):
    plan = world.create_plan(
        "done", "failed", "claimed", {"name": "running"}, "free", {"name": "later", "depends_on": ["free"]}
    )
    plan.set_status("done", "completed")
    plan.set_status("failed", "failed")
    plan.set_status("running", "in_progress")
    plan.claim("claimed", world.register_agent())

    answer = world.call(
        "workflow_replan", workflow_id=plan.id, reason="It failed.", summary="Another way.",
        tasks=[{"name": "new", "depends_on": ["done"]}, {"name": "newer", "depends_on": ["new", "running"]}],
    )  # fmt: skip

    assert answer == {"success": True, "tasks_created": 2, "tasks_removed": 2, "tasks_kept": 4}
    assert {task["name"] for task in plan.list_tasks()} == {
        "done",
        "failed",
        "claimed",
        "running",
        "new",
        "newer",
    }
    assert plan.get()["plan_summary"] == "Another way."
    assert "new" in plan.list_offered()
    assert "newer" not in plan.list_offered()


def test_the_replaced_plan_is_kept_in_the_history(world: World):
    plan = world.create_plan("a", {"name": "b", "description": "Do b.", "sequence": 2})
    old = plan["b"]

    world.call("workflow_replan", workflow_id=plan.id, reason="Too slow.", tasks=[{"name": "c"}])

    [line] = [line for line in plan.list_history() if line["what"] == "replanned"]
    assert line["reason"] == "Too slow."
    assert line["old_tasks_total"] == 2
    assert line["old_tasks"][1] == {"id": old, "name": "b", "description": "Do b.", "sequence": 2}


def test_the_name_of_a_replaced_task_can_be_reused(world: World):
    plan = world.create_plan("a", "late", {"name": "b", "depends_on": ["a"]})
    plan.set_status("a", "completed")
    plan.set_status("b", "failed")
    world.call("workflow_add_task", workflow_id=plan.id, task={"name": "c", "depends_on": ["late"]})
    plan.claim("late", world.register_agent())

    world.call("workflow_replan", workflow_id=plan.id, reason="r", tasks=[{"name": "c", "depends_on": ["b"]}])

    assert plan.list_tasks()[-1]["depends_on"] == ["b"]
    assert plan.get_dependencies("b")["satisfied"] is True


@pytest.mark.parametrize(
    ("tasks", "code"),
    [
        ([{"name": "done"}], Code.DUPLICATE_TASK_NAME),
        ([{"name": "x", "depends_on": ["free"]}], Code.UNKNOWN_DEPENDENCY),
        ([{"name": "x", "depends_on": ["y"]}, {"name": "y", "depends_on": ["x"]}], Code.CIRCULAR_DEPENDENCY),
    ],
)
def test_an_invalid_new_plan_leaves_the_old_one(world: World, tasks: list[dict[str, Any]], code: Code):
    plan = world.create_plan("done", "free")
    plan.set_status("done", "completed")

    with expect_error(code):
        world.call("workflow_replan", workflow_id=plan.id, reason="r", tasks=tasks)

    assert [task["name"] for task in plan.list_tasks()] == ["done", "free"]


def test_replanning_without_any_task_is_refused(world: World):
    plan = world.create_plan("a")

    with expect_error(Code.INVALID_INPUT, "no tasks"):
        world.call("workflow_replan", workflow_id=plan.id, reason="r", tasks=[])


def test_replanning_without_open_tasks_completes_the_workflow(world: World):
    plan = world.create_plan("a", "b")
    plan.set_status("a", "completed")

    world.call("workflow_replan", workflow_id=plan.id, reason="Enough.", tasks=[])

    assert plan.status == "completed"


# All of them


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("workflow_get", {"id": "wf_0"}),
        ("workflow_set_plan", {"id": "wf_0", "plan": {"summary": "s", "tasks": [{"name": "a"}]}}),
        ("workflow_update_status", {"id": "wf_0", "status": "paused"}),
        ("workflow_set_parallelism", {"id": "wf_0", "max_parallel_tasks": 1}),
        ("workflow_get_summary", {"id": "wf_0"}),
        ("workflow_next_tasks", {"workflow_id": "wf_0"}),
        ("workflow_progress", {"workflow_id": "wf_0"}),
        ("workflow_search", {"query": "x", "workflow_id": "wf_0"}),
        ("workflow_add_task", {"workflow_id": "wf_0", "task": {"name": "a"}}),
        ("workflow_remove_task", {"workflow_id": "wf_0", "task_id": "tk_0"}),
        ("workflow_replan", {"workflow_id": "wf_0", "reason": "r", "tasks": []}),
    ],
)
def test_an_unknown_workflow_has_its_own_error_code(world: World, tool: str, arguments: dict[str, Any]):
    with expect_error(Code.WORKFLOW_NOT_FOUND, "wf_0"):
        world.call(tool, **arguments)


def test_answers_about_a_large_plan_stay_small(world: World):
    tasks = [
        {"name": f"Task number {number}", "description": "What to do here. " * 40, "parallel_group": "g", "sequence": 1 + number // 500}
        for number in range(1000)
    ]  # fmt: skip
    plan = world.create_plan(*tasks, max_parallel_tasks=10)

    assert measure_bytes(plan.get_next_tasks()) < 20_000
    assert measure_bytes(plan.get_progress()) < 20_000
    assert measure_bytes(plan.get(include_tasks=True)) < 20_000
    assert measure_bytes(plan.get_next_tasks(limit=200)) < 200_000


# workflow_get_summary


def test_a_summary_is_an_object_or_markdown(world: World):
    plan = world.create_plan("Write it", {"name": "Ship it", "depends_on": ["Write it"]})
    plan.set_status("Write it", "completed", outcome="Written.")

    as_object, as_text = (
        world.call("workflow_get_summary", id=plan.id, **given) for given in ({}, {"format": "markdown"})
    )

    assert isinstance(as_object["summary"], dict)
    assert isinstance(as_text["summary"], str)
    assert as_object == as_object | world.call("workflow_get_summary", id=plan.id, format="json")
    for answer in (as_object, as_text):
        assert set(answer) == {"summary", "token_estimate"}
        assert answer["token_estimate"] > 0
        for said in ("Write it", "Written.", "Ship it"):
            assert said in str(answer["summary"])


def test_an_unknown_summary_format_is_refused(world: World):
    with expect_error(Code.INVALID_INPUT, "format"):
        world.call("workflow_get_summary", id=world.create_workflow(), format="xml")


def test_a_task_with_a_checkpoint_is_kept_when_replanning(world: World):
    plan = world.create_plan("a", "b")
    world.call("checkpoint_add", task_id=plan["a"], type="decision", summary="a huge insight")

    world.call("workflow_replan", workflow_id=plan.id, reason="new", tasks=[{"name": "c"}])

    assert [task["name"] for task in Plan(world, plan.id).list_tasks()] == ["a", "c"]


def test_new_tasks_do_not_come_before_started_ones(world: World):
    plan = world.create_plan({"name": "p", "sequence": 1}, {"name": "q", "sequence": 2})
    plan.set_status("p", "completed", outcome="done")
    plan.set_status("q", "in_progress")

    world.call(
        "workflow_replan",
        workflow_id=plan.id,
        reason="new",
        tasks=[{"name": "n"}, {"name": "m", "sequence": 2}],
    )

    sequences = {task["name"]: task["sequence"] for task in Plan(world, plan.id).list_tasks()}
    assert (sequences["n"], sequences["m"]) == (2, 3)


def test_a_replaced_plan_is_recorded_with_every_field(world: World):
    plan = world.create_plan(
        "a", {"name": "b", "depends_on": ["a"], "parallel_group": "g", "files_likely_affected": ["x.py"]}
    )
    b = plan["b"]

    world.call("workflow_replan", workflow_id=plan.id, reason="new", tasks=[{"name": "c"}])

    [old] = [line for line in plan.list_history() if line["what"] == "replanned"]
    assert old["old_tasks"][1] == {
        "id": b, "name": "b", "description": "", "sequence": 1, "parallel_group": "g",
        "depends_on": ["a"], "files_likely_affected": ["x.py"],
    }  # fmt: skip


def test_long_reasons_are_truncated_in_the_history(world: World):
    plan = world.create_plan("a")

    plan.set_status("a", "completed", outcome="word " * 10_000)

    assert max(len(line.get("reason") or "") for line in plan.list_history()) <= 500


def test_progress_and_summary_ignore_an_expired_claim(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    plan.claim("a", agent)
    plan.set_status("a", "in_progress", agent_id=agent)

    world.let_leases_expire()

    assert (plan.get_progress()["by_status"]["in_progress"], plan.get_progress()["by_status"]["pending"]) == (
        0,
        1,
    )
    summary = world.call("workflow_get_summary", id=plan.id)["summary"]
    assert (summary["running"], [task["name"] for task in summary["next"]]) == ([], ["a"])
