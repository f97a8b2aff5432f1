"""The ten tracking tools through a real MCP client: parameters and answers as specified."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import quick
from jobs.project import make_step, write_job
from jobs.tool_client import ToolCallError, ToolClient
from workspaces.make import create_repository, run_git

# What each tool takes in the seed; `!` marks what is required, words after a colon are all it may be.
TAKEN = {
    "start_workflow": "name! objective! profile:simple|standard|complex total_phases scope constraints",
    "complete_workflow": "workflow_id! status!:completed|failed|partial summary! achievements limitations",
    "get_context": "workflow_id! include! filter",
    "start_phase": "workflow_id! number! name! description is_parallel",
    "complete_phase": "phase_id! status!:completed|failed summary",
    "start_task": (
        "workflow_id! phase_id! caller_type!:orchestrator|subagent agent_name name! goal! parent_task_id areas"
    ),
    "complete_task": "task_id! status!:success|partial_success|failed outcome! metadata",
    "log_decision": (
        "task_id! category!:architecture|library_choice|trade_off|workaround|other question! "
        "options_considered chosen! reasoning! trade_offs"
    ),
    "log_issue": (
        "task_id! type!:documentation_gap|bug_encountered|dependency_conflict|unclear_requirement|other "
        "description! resolution! requires_human_review"
    ),
    "log_milestone": "task_id! message! progress metadata",
}
OURS = {"get_context": {"limit", "cursor"}, "start_task": {"cwd"}, "start_workflow": {"checks"}}
INCLUDED = ["phase_summary", "tasks", "decisions", "milestones", "blockers"]


def serving(root: Path, *flags: str) -> ToolClient:
    return ToolClient(quick.build_transport(root, *flags))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = create_repository(tmp_path_factory.mktemp("project"))
    write_job(project, "chain", [make_step("a"), make_step("b")])
    return project


@pytest.fixture(scope="module", params=["tracking", "all"])
def door(request: pytest.FixtureRequest, root: Path) -> Iterator[ToolClient]:
    """A server with tracking alone, and one with everything."""
    with serving(root, "--toolsets", request.param) as talk:
        yield talk


@pytest.fixture(scope="module")
def tracking_only(root: Path) -> Iterator[ToolClient]:
    with serving(root, "--toolsets", "tracking") as talk:
        yield talk


@pytest.fixture(scope="module")
def everything(root: Path) -> Iterator[ToolClient]:
    with serving(root) as talk:
        yield talk


def workflow(talk: ToolClient) -> tuple[str, str]:
    id = talk.call("start_workflow", name="n", objective="o")["workflow_id"]
    return id, talk.call("start_phase", workflow_id=id, number=1, name="Design")["phase_id"]


def task(talk: ToolClient, where: tuple[str, str]) -> str:
    id: str = talk.call(
        "start_task", workflow_id=where[0], phase_id=where[1], caller_type="subagent", agent_name="Ada",
        name="n", goal="g",
    )["task_id"]  # fmt: skip
    return id


# What they take


def test_the_tracking_toolset_has_fourteen_tools(tracking_only: ToolClient):
    assert set(tracking_only.list_tools()) == {
        *TAKEN, "abandon_task", "resolve_issue", "get_task_diff", "get_tracked_workflows",
    }  # fmt: skip


@pytest.mark.parametrize("tool", TAKEN)
def test_every_tool_has_the_parameters_of_the_specification(tracking_only: ToolClient, tool: str):
    schema = tracking_only.list_tools()[tool].input_schema

    required, words = set(), {}
    for field in TAKEN[tool].split():
        name, _, choices = field.partition(":")
        if name.endswith("!"):
            required.add(name.rstrip("!"))
        words[name.rstrip("!")] = choices.split("|") if choices else None
    assert set(schema["properties"]) == set(words) | OURS.get(tool, set())
    assert set(schema["required"]) == required
    assert {name: schema["properties"][name].get("enum") for name in words} == words


def test_nested_parameters_match_the_specification(tracking_only: ToolClient):
    tools = tracking_only.list_tools()

    context = tools["get_context"].input_schema["properties"]
    assert context["include"]["items"]["enum"] == INCLUDED
    assert set(context["filter"]["properties"]) == {"phase", "agent", "since"}
    end = tools["complete_task"].input_schema["properties"]
    assert end["outcome"]["required"] == ["summary"]
    assert set(end["outcome"]["properties"]) >= {
        "summary", "achievements", "limitations", "next_steps", "manual_review_needed",
    }  # fmt: skip
    assert end["metadata"]["properties"]["tests_status"]["enum"] == ["passed", "failed", "not_run"]
    assert "packages_added" in end["metadata"]["properties"]
    progress = tools["log_milestone"].input_schema["properties"]["progress"]
    assert (progress["minimum"], progress["maximum"]) == (0, 100)


def test_with_jobs_start_workflow_has_one_flat_schema_without_required_parameters(everything: ToolClient):
    schema = everything.list_tools()["start_workflow"].input_schema

    assert "required" not in schema
    assert not {"anyOf", "oneOf", "allOf"} & set(schema)
    assert set(schema["properties"]) == {
        "goal", "job_name", "workflow_name", "instance_id",
        "name", "objective", "profile", "total_phases", "scope", "constraints", "checks",
    }  # fmt: skip


# What they answer


def test_start_workflow_returns_the_documented_fields(door: ToolClient):
    answer = door.call(
        "start_workflow",
        name="n",
        objective="o",
        profile="simple",
        total_phases=2,
        scope="s",
        constraints="c",
    )

    assert set(answer) == {"workflow_id", "profile", "total_phases", "created_at"}
    assert (answer["profile"], answer["total_phases"]) == ("simple", 2)


def test_start_phase_and_complete_phase_return_the_documented_fields(door: ToolClient):
    id, _ = workflow(door)
    keys = {"phase_id", "workflow_id", "number", "name", "is_parallel", "status", "started_at"}

    begun = door.call(
        "start_phase", workflow_id=id, number=2, name="Build", description="d", is_parallel=True
    )
    again = door.call("start_phase", workflow_id=id, number=2, name="Build", is_parallel=True)
    ended = door.call("complete_phase", phase_id=begun["phase_id"], status="completed", summary="s")

    assert set(begun) == keys
    assert again == begun | {"already_exists": True}
    assert set(ended) == {
        "phase_id", "workflow_id", "number", "name", "status", "completed_at", "duration_ms", "tasks",
        "warnings",
    }  # fmt: skip
    assert set(ended["tasks"]) == {"total", "success", "partial", "failed", "in_progress"}


def test_start_task_and_complete_task_return_the_documented_fields(door: ToolClient, root: Path):
    where = workflow(door)

    begun = door.call(
        "start_task", workflow_id=where[0], phase_id=where[1], caller_type="orchestrator", name="n", goal="g",
        areas=["src"],
    )  # fmt: skip
    ended = door.call(
        "complete_task", task_id=begun["task_id"], status="partial_success",
        outcome={
            "summary": "s", "achievements": ["a"], "limitations": ["l"], "next_steps": ["n"],
            "manual_review_needed": True,
        },
        metadata={"packages_added": ["p"], "tests_status": "not_run"},
    )  # fmt: skip

    assert set(begun) == {
        "task_id", "workflow_id", "phase_id", "phase_number", "phase_name", "caller_type", "snapshot_id",
        "snapshot_type", "started_at",
    }  # fmt: skip
    assert begun["snapshot_id"] == run_git(root, "rev-parse", "HEAD")
    assert set(ended) >= {"task_id", "duration_seconds", "files_changed", "verification", "phase_status"}
    assert set(ended["files_changed"]) == {"added", "modified", "deleted"}
    assert set(ended["verification"]) == {"scope_match", "unexpected_files", "warnings"}
    assert ended["phase_status"] == "in_progress"


def test_logging_tools_return_the_documented_fields(door: ToolClient):
    id = task(door, workflow(door))

    decision = door.call(
        "log_decision", task_id=id, category="trade_off", question="q", options_considered=["a"], chosen="a",
        reasoning="r", trade_offs="t",
    )  # fmt: skip
    issue = door.call(
        "log_issue", task_id=id, type="bug_encountered", description="d", resolution="r",
        requires_human_review=True,
    )  # fmt: skip
    milestone = door.call("log_milestone", task_id=id, message="m", progress=12.5, metadata={"k": 1})
    resolved = door.call("resolve_issue", issue_id=issue["issue_id"], note="n")

    assert set(decision) == {"decision_id", "created_at"}
    assert set(issue) == {"issue_id", "created_at"}
    assert set(milestone) == {"milestone_id", "created_at"}
    assert set(resolved) == {"issue_id", "resolved_at"}


def test_get_context_returns_the_documented_fields(door: ToolClient):
    where = workflow(door)
    id = task(door, where)
    door.call("log_decision", task_id=id, category="other", question="q", chosen="c", reasoning="r")
    door.call("log_milestone", task_id=id, message="m")
    door.call(
        "log_issue", task_id=id, type="other", description="d", resolution="r", requires_human_review=True
    )

    answer = door.call(
        "get_context", workflow_id=where[0], include=INCLUDED,
        filter={"phase": 1, "agent": "Ada", "since": "2020-01-01T00:00:00Z"},
    )  # fmt: skip

    assert set(answer) >= {
        "workflow_id", "workflow_name", "workflow_status", "current_phase", "total_phases", *INCLUDED,
        "tasks_count", "decisions_count", "milestones_count", "blockers_count", "has_blockers",
    }  # fmt: skip
    assert set(answer["filters_applied"]) == {"phase", "agent", "since"}
    assert set(answer["phase_summary"][0]) >= {
        "phase_number", "phase_name", "phase_id", "status", "is_parallel", "tasks", "duration_seconds",
        "started_at", "completed_at",
    }  # fmt: skip
    assert set(answer["phase_summary"][0]["tasks"]) == {"total", "completed", "failed", "in_progress"}
    assert set(answer["tasks"][0]) >= {"id", "phase_id", "name", "goal", "status", "agent_name"}
    assert answer["workflow_status"] == "blocked"
    bare = door.call("get_context", workflow_id=where[0], include=[])
    assert not set(bare) & {*INCLUDED, "filters_applied", "tasks_count"}


def test_complete_workflow_returns_the_documented_fields(door: ToolClient):
    id, _ = workflow(door)

    answer = door.call(
        "complete_workflow",
        workflow_id=id,
        status="partial",
        summary="s",
        achievements=["a"],
        limitations=["l"],
    )

    assert set(answer) >= {"workflow_id", "status", "metrics"}
    assert set(answer["metrics"]) >= {"total_phases", "total_tasks", "duration", "files_changed"}


def test_abandon_task_and_get_task_diff_return_the_documented_fields(door: ToolClient, root: Path):
    id = task(door, workflow(door))
    new = root / f"{id}.txt"
    new.write_text("x\n")

    ended = door.call("abandon_task", task_id=id, reason="r")
    listed = door.call("get_task_diff", task_id=id)
    shown = door.call("get_task_diff", task_id=id, path=new.name, max_bytes=1000)

    assert (ended["status"], ended["files_changed"]["added"]) == ("failed", [new.name])
    assert set(listed) == {"task_id", "files", "files_count"}
    assert set(shown["files"][0]) >= {"path", "status", "attribution", "added", "removed", "diff"}


# The two forms of start_workflow


def test_start_workflow_accepts_the_arguments_of_a_job_or_of_tracking(everything: ToolClient):
    job = everything.call("start_workflow", goal="g", job_name="chain", workflow_name="main")
    record = everything.call("start_workflow", name="n", objective="o")

    assert job["begin_step"]["step_id"] == "a"
    assert record["workflow_id"].startswith("tw_")
    everything.abort_all()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "No arguments were given."),
        (
            {"goal": "g", "name": "n"},
            "Use one form, not both: `goal` belongs to a job and `name` to a tracked workflow.",
        ),
        ({"name": "n"}, "`objective` is missing."),
        ({"profile": "simple"}, "`name` and `objective` are missing."),
        ({"goal": "g", "job_name": "chain"}, "`workflow_name` is missing."),
        ({"instance_id": "i"}, "`goal` and `job_name` and `workflow_name` are missing."),
    ],
)
def test_incomplete_or_mixed_arguments_are_refused_and_both_signatures_are_shown(
    everything: ToolClient, given: dict[str, str], said: str
):
    [error] = everything.call_together(("start_workflow", given))

    assert (error["code"], error["message"]) == ("INVALID_INPUT", said)
    assert "start_workflow(goal, job_name, workflow_name)" in error["suggestion"]
    assert "start_workflow(name, objective)" in error["suggestion"]


def test_without_jobs_start_workflow_names_missing_and_unknown_parameters(tracking_only: ToolClient):
    with pytest.raises(ToolCallError) as refused:
        tracking_only.call("start_workflow", name="n")

    assert refused.value.code == "INVALID_INPUT"
    assert "objective" in refused.value.message
    with pytest.raises(ToolCallError, match="goal"):
        tracking_only.call("start_workflow", name="n", objective="o", goal="g")


def test_a_workflow_started_twice_under_one_key_is_created_once(door: ToolClient):
    said = {"name": "keyed", "objective": "o"}
    key = str(uuid4())  # both doors lead to one store

    first = door.call("start_workflow", key=key, **said)

    assert door.call("start_workflow", key=key, **said) == first
    with pytest.raises(ToolCallError) as refused:
        door.call("start_workflow", key=key, **(said | {"objective": "p"}))
    assert refused.value.code == "KEY_REUSED"


@pytest.mark.parametrize(
    ("tool", "given", "code"),
    [
        ("get_context", {"workflow_id": "tw_0", "include": []}, "WORKFLOW_NOT_FOUND"),
        ("start_phase", {"workflow_id": "tw_0", "number": 1, "name": "n"}, "WORKFLOW_NOT_FOUND"),
        ("complete_phase", {"phase_id": "ph_0", "status": "failed"}, "PHASE_NOT_FOUND"),
        (
            "complete_task",
            {"task_id": "tt_0", "status": "failed", "outcome": {"summary": "s"}},
            "TASK_NOT_FOUND",
        ),
        ("log_milestone", {"task_id": "tt_0", "message": "m"}, "TASK_NOT_FOUND"),
        ("resolve_issue", {"issue_id": "is_0", "note": "n"}, "ISSUE_NOT_FOUND"),
        ("log_milestone", {"task_id": "tt_0", "message": "m", "progress": 101}, "INVALID_INPUT"),
    ],
)
def test_errors_have_a_code_and_a_suggestion(door: ToolClient, tool: str, given: dict[str, Any], code: str):
    [error] = door.call_together((tool, given))

    assert set(error) == {"code", "message", "recoverable", "suggestion"}
    assert error["code"] == code
    assert error["suggestion"]
