"""Tools to record tasks, on every database; changed files have their own module."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from application import NOW, Clock, call_tool, list_event_types, list_events
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code, DeepworkError
from deepwork.kernel.values import format_timestamp
from tracking.make import (
    complete_task,
    create_phase,
    create_task,
    create_workflow,
    create_workflow_and_phase,
    expect_error,
    get_context,
    start_task,
)

pytestmark = pytest.mark.usefixtures("project")


def get_shown_tasks(app: Application, workflow_id: str) -> Any:
    return get_context(app, workflow_id, "tasks")["tasks"]


def build_arguments(where: tuple[str, str], **given: Any) -> dict[str, Any]:
    least = {
        "workflow_id": where[0],
        "phase_id": where[1],
        "caller_type": "orchestrator",
        "name": "n",
        "goal": "g",
    }
    return least | given


# start_task


def test_a_task_can_be_started(app: Application):
    where = create_workflow_and_phase(app)

    answer = call_tool(app, "start_task", **build_arguments(where))

    assert answer == {
        "task_id": answer["task_id"], "workflow_id": where[0], "phase_id": where[1], "phase_number": 1,
        "phase_name": "Phase 1", "caller_type": "orchestrator", "snapshot_id": answer["snapshot_id"],
        "snapshot_type": "git", "started_at": format_timestamp(NOW),
    }  # fmt: skip
    assert answer["task_id"].startswith("tt_")
    assert list_event_types(app)[-1] == "task:created"


def test_everything_given_at_the_start_of_a_task_is_saved(app: Application):
    where = create_workflow_and_phase(app)
    parent = create_task(app, where, "parent")

    answer = call_tool(
        app, "start_task",
        **build_arguments(
            where, caller_type="SUBAGENT", agent_name="Ada", name="child", goal="Do it.",
            parent_task_id=parent, areas=["src", "*.md"],
        ),
    )  # fmt: skip

    assert (answer["caller_type"], answer["agent_name"]) == ("subagent", "Ada")
    kept = next(each for each in get_shown_tasks(app, where[0]) if each["id"] == answer["task_id"])
    assert kept == {
        "id": answer["task_id"], "workflow_id": where[0], "phase_id": where[1], "parent_task_id": parent,
        "name": "child", "goal": "Do it.", "status": "in_progress", "caller_type": "subagent",
        "agent_name": "Ada", "areas": ["src", "*.md"], "started_at": format_timestamp(NOW), "completed_at": None,
        "duration_seconds": None, "manual_review_needed": False, "summary": None,
    }  # fmt: skip
    assert list_events(app)[-1].data == kept


@pytest.mark.parametrize("agent_name", [None, "", "   "])
def test_a_subagent_must_give_its_name(app: Application, agent_name: str | None):
    where = create_workflow_and_phase(app)
    before = list_event_types(app)

    error = expect_error(
        app, "start_task", **build_arguments(where, caller_type="subagent", agent_name=agent_name)
    )

    assert error.code is Code.INVALID_INPUT
    assert "agent_name" in error.message
    assert list_event_types(app) == before


@pytest.mark.parametrize(
    "wrong", [{"caller_type": "robot"}, {"name": ""}, {"goal": ""}, {"areas": "src"}, {"x": 1}]
)
def test_an_invalid_task_is_refused(app: Application, wrong: dict[str, Any]):
    where = create_workflow_and_phase(app)

    error = expect_error(app, "start_task", **build_arguments(where, **wrong))

    assert error.code is Code.INVALID_INPUT
    assert get_shown_tasks(app, where[0]) == []


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"workflow_id": "tw_0"}, Code.WORKFLOW_NOT_FOUND),
        ({"phase_id": "ph_0"}, Code.PHASE_NOT_FOUND),
        ({"parent_task_id": "tt_0"}, Code.TASK_NOT_FOUND),
    ],
)
def test_a_task_with_an_unknown_workflow_phase_or_parent_is_refused(
    app: Application, wrong: dict[str, str], code: Code
):
    error = expect_error(app, "start_task", **build_arguments(create_workflow_and_phase(app), **wrong))

    assert error.code is code
    assert repr(next(iter(wrong.values()))) in error.message


def test_a_phase_of_another_workflow_is_refused(app: Application):
    (id, _), (_, other) = create_workflow_and_phase(app), create_workflow_and_phase(app)

    assert expect_error(app, "start_task", **build_arguments((id, other))).code is Code.INVALID_INPUT


def test_a_task_cannot_be_started_in_a_completed_phase(app: Application):
    where = create_workflow_and_phase(app)
    call_tool(app, "complete_phase", phase_id=where[1], status="completed")

    error = expect_error(app, "start_task", **build_arguments(where))

    assert error.code is Code.INVALID_STATE
    assert "completed" in error.message


def test_a_task_cannot_be_started_in_a_completed_workflow(app: Application):
    where = create_workflow_and_phase(app)
    call_tool(app, "complete_workflow", workflow_id=where[0], status="partial", summary="s")

    assert expect_error(app, "start_task", **build_arguments(where)).code is Code.INVALID_STATE
    assert get_context(app, where[0])["workflow_status"] == "failed"


def test_a_second_task_in_a_phase_that_is_not_parallel_is_a_warning(app: Application):
    id = create_workflow(app)
    where = (id, create_phase(app, id, is_parallel=False))
    first = start_task(app, where)

    second = start_task(app, where)
    child = start_task(app, where, parent_task_id=first["task_id"])

    assert "warnings" not in first
    assert second["warnings"] == ["Another task runs in phase 1, which is not parallel"]
    assert "warnings" not in child


# Nested tasks


def test_a_parent_of_another_workflow_is_refused(app: Application):
    stranger = create_task(app, create_workflow_and_phase(app))

    error = expect_error(
        app, "start_task", **build_arguments(create_workflow_and_phase(app), parent_task_id=stranger)
    )

    assert error.code is Code.INVALID_INPUT


def test_a_task_cannot_be_started_below_a_completed_task(app: Application):
    where = create_workflow_and_phase(app)
    parent = create_task(app, where)
    complete_task(app, parent)

    assert (
        expect_error(app, "start_task", **build_arguments(where, parent_task_id=parent)).code
        is Code.INVALID_STATE
    )


def test_tasks_can_be_nested_at_most_eight_levels_deep(app: Application):
    where = create_workflow_and_phase(app)
    parent = create_task(app, where)
    for _ in range(7):
        parent = create_task(app, where, parent_task_id=parent)

    assert (
        expect_error(app, "start_task", **build_arguments(where, parent_task_id=parent)).code
        is Code.INVALID_INPUT
    )


def test_a_task_cannot_be_completed_before_its_children(app: Application):
    where = create_workflow_and_phase(app)
    parent = create_task(app, where, "parent")
    child = create_task(app, where, "child", parent_task_id=parent)

    error = expect_error(app, "complete_task", task_id=parent, status="success", outcome={"summary": "s"})

    assert error.code is Code.INVALID_STATE
    assert child in error.message
    assert "'child'" in error.message
    call_tool(app, "abandon_task", task_id=child, reason="Its agent is gone.")
    assert complete_task(app, parent)["status"] == "success"


# complete_task


@pytest.mark.parametrize("status", ["success", "partial_success", "failed"])
def test_a_task_can_be_completed(app: Application, clock: Clock, status: str):
    where = create_workflow_and_phase(app)
    id = create_task(app, where)
    create_task(app, where, "other")
    clock.advance(seconds=89.6)

    answer = complete_task(app, id, status.upper())

    done = {"completed": 0, "failed": 1} if status == "failed" else {"completed": 1, "failed": 0}
    assert answer == {
        "task_id": id, "workflow_id": where[0], "status": status, "duration_seconds": 90,
        "files_changed": {"added": [], "modified": [], "deleted": []}, "files_count": 0,
        "verification": {"scope_match": True, "unexpected_files": [], "warnings": []},
        "phase_status": "in_progress",
        "phase_progress": {
            "number": 1, "name": "Phase 1", "tasks": {"total": 2, **done, "in_progress": 1},
            "all_tasks_done": False,
        },
    }  # fmt: skip
    assert list_event_types(app)[-1] == "task:updated"


def test_completing_the_last_task_of_a_phase_does_not_complete_the_phase(app: Application):
    where = create_workflow_and_phase(app)

    answer = complete_task(app, create_task(app, where))

    assert answer["phase_progress"]["all_tasks_done"] is True
    assert answer["phase_status"] == "in_progress"
    assert get_context(app, where[0])["workflow_status"] == "in_progress"


def test_everything_given_at_the_end_of_a_task_is_saved(app: Application, clock: Clock):
    where = create_workflow_and_phase(app)
    id = create_task(app, where)
    clock.advance(seconds=5)
    outcome = {
        "summary": "Done.", "achievements": ["a"], "limitations": ["l"], "next_steps": ["n"],
        "manual_review_needed": True, "manual_review_reason": "Money.",
    }  # fmt: skip
    metadata = {
        "packages_added": ["anyio"], "packages_removed": ["six"], "commands_executed": ["make"],
        "tests_status": "PASSED", "tokens_input": 5, "tokens_output": 6, "model": "m", "cost_usd": 0.5,
    }  # fmt: skip

    complete_task(app, id, outcome=outcome, metadata=metadata)

    [kept] = get_shown_tasks(app, where[0])
    assert kept["outcome"] == outcome
    assert kept["metadata"] == metadata | {"tests_status": "passed"}
    assert (kept["summary"], kept["manual_review_needed"]) == ("Done.", True)
    assert (kept["completed_at"], kept["duration_seconds"]) == (format_timestamp(clock.now), 5)
    assert kept["files_changed"] == {"added": 0, "modified": 0, "deleted": 0}
    *_, completed, spending = list_events(app)
    assert completed.data == kept
    assert (spending.type, spending.data["task_id"]) == ("spending:recorded", id)


def test_an_outcome_with_nothing_but_a_summary_is_not_shown_twice(app: Application):
    where = create_workflow_and_phase(app)

    complete_task(app, create_task(app, where), outcome={"summary": "Done.", "achievements": []})

    [kept] = get_shown_tasks(app, where[0])
    assert (kept["summary"], "outcome" in kept) == ("Done.", False)


@pytest.mark.parametrize("tests_status", ["passed", "failed", "not_run"])
def test_every_tests_status_is_accepted(app: Application, tests_status: str):
    where = create_workflow_and_phase(app)

    complete_task(app, create_task(app, where), metadata={"tests_status": tests_status})

    assert get_shown_tasks(app, where[0])[0]["metadata"] == {"tests_status": tests_status}


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "done"},
        {"status": "in_progress"},
        {"outcome": {}},
        {"outcome": {"summary": ""}},
        {"outcome": {"summary": "s", "mood": "good"}},
        {"outcome": {"summary": "s", "achievements": "a"}},
        {"metadata": {"tests_status": "maybe"}},
        {"metadata": {"tokens_input": -1}},
        {"metadata": {"cost_usd": float("inf")}},
    ],
)
def test_invalid_arguments_for_completing_a_task_are_refused(app: Application, wrong: dict[str, Any]):
    where = create_workflow_and_phase(app)
    said = {"task_id": create_task(app, where), "status": "success", "outcome": {"summary": "s"}}

    error = expect_error(app, "complete_task", **(said | wrong))

    assert error.code is Code.INVALID_INPUT
    assert next(iter(wrong)) in error.message
    assert get_shown_tasks(app, where[0])[0]["status"] == "in_progress"


def test_an_unknown_task_cannot_be_completed(app: Application):
    error = expect_error(app, "complete_task", task_id="tt_0", status="failed", outcome={"summary": "s"})

    assert error.code is Code.TASK_NOT_FOUND


def test_completing_a_task_again_with_the_same_arguments_returns_the_first_answer(
    app: Application, clock: Clock
):
    id = create_task(app, create_workflow_and_phase(app))
    first = complete_task(app, id, metadata={"tests_status": "passed"})
    before = list_event_types(app)
    clock.advance(seconds=60)

    again = complete_task(
        app, id, outcome={"summary": "Done.", "next_steps": []},
        metadata={"tests_status": "passed", "packages_added": [], "model": None},
    )  # fmt: skip

    assert again == first | {"already_completed": True}
    assert list_event_types(app) == before


@pytest.mark.parametrize(
    "other", [{"status": "failed"}, {"outcome": {"summary": "t"}}, {"metadata": {"tests_status": "failed"}}]
)
def test_completing_a_task_again_with_different_arguments_is_refused(app: Application, other: dict[str, Any]):
    id = create_task(app, create_workflow_and_phase(app))
    complete_task(app, id)

    said = {"task_id": id, "status": "success", "outcome": {"summary": "Done."}} | other
    assert expect_error(app, "complete_task", **said).code is Code.INVALID_STATE


@pytest.mark.differs
def test_only_one_of_many_concurrent_completions_takes_effect(app: Application):
    id = create_task(app, create_workflow_and_phase(app))

    with ThreadPoolExecutor(4) as callers:
        answers = list(callers.map(lambda _: complete_task(app, id), range(4)))

    assert sum("already_completed" not in answer for answer in answers) == 1
    assert list_event_types(app).count("task:updated") == 1


@pytest.mark.differs
def test_one_of_two_different_concurrent_completions_is_refused(app: Application):
    id = create_task(app, create_workflow_and_phase(app))

    def end(status: str) -> str:
        try:
            return str(complete_task(app, id, status)["status"])
        except DeepworkError as error:
            return error.code

    with ThreadPoolExecutor(2) as callers:
        answers = sorted(callers.map(end, ["success", "failed"]))

    assert answers in (["INVALID_STATE", "failed"], ["INVALID_STATE", "success"])


# abandon_task


def test_an_abandoned_task_ends_as_failed(app: Application):
    where = create_workflow_and_phase(app)
    id = create_task(app, where)

    answer = call_tool(app, "abandon_task", task_id=id, reason="The agent crashed.")

    assert set(answer) == {
        "task_id", "workflow_id", "status", "duration_seconds", "files_changed", "files_count",
        "verification", "phase_status", "phase_progress",
    }  # fmt: skip
    assert answer["status"] == "failed"
    [kept] = get_shown_tasks(app, where[0])
    assert kept["summary"] == "Abandoned: The agent crashed."
    assert kept["outcome"]["limitations"] == ["The agent crashed."]


def test_abandoning_a_task_again_returns_the_first_answer(app: Application):
    id = create_task(app, create_workflow_and_phase(app))
    first = call_tool(app, "abandon_task", task_id=id, reason="r")

    assert call_tool(app, "abandon_task", task_id=id, reason="r") == first | {"already_completed": True}
    assert expect_error(app, "abandon_task", task_id=id, reason="s").code is Code.INVALID_STATE


def test_a_completed_task_cannot_be_abandoned(app: Application):
    id = create_task(app, create_workflow_and_phase(app))
    complete_task(app, id)

    assert expect_error(app, "abandon_task", task_id=id, reason="r").code is Code.INVALID_STATE
    assert expect_error(app, "abandon_task", task_id="tt_0", reason="r").code is Code.TASK_NOT_FOUND
    assert expect_error(app, "abandon_task", task_id=id, reason="").code is Code.INVALID_INPUT


# Keys


def test_starting_a_task_again_under_its_key_always_returns_the_first_answer(app: Application):
    where = create_workflow_and_phase(app)
    first = start_task(app, where, key="k")
    call_tool(app, "complete_phase", phase_id=where[1], status="completed")

    assert start_task(app, where, key="k") == first
    assert len(get_shown_tasks(app, where[0])) == 1


def test_completing_a_task_again_under_its_key_returns_the_first_answer(app: Application):
    id = create_task(app, create_workflow_and_phase(app))
    said: dict[str, Any] = {"task_id": id, "status": "success", "outcome": {"summary": "s"}}
    first = call_tool(app, "complete_task", "k", **said)

    assert call_tool(app, "complete_task", "k", **said) == first
    assert call_tool(app, "complete_task", "other", **said) == first | {"already_completed": True}
    with pytest.raises(DeepworkError) as refused:
        call_tool(app, "complete_task", "k", **(said | {"status": "failed"}))
    assert refused.value.code is Code.KEY_REUSED


def test_a_refused_start_may_be_corrected_under_its_key(app: Application):
    where = create_workflow_and_phase(app)
    wrong = build_arguments((where[0], "ph_0"))
    with pytest.raises(DeepworkError, match="ph_0"):
        call_tool(app, "start_task", "k", **wrong)

    assert call_tool(app, "start_task", "k", **build_arguments(where))["task_id"].startswith("tt_")


# Stale tasks


def test_a_task_without_activity_for_half_an_hour_is_stale(app: Application, clock: Clock):
    where = create_workflow_and_phase(app)
    id = create_task(app, where)
    clock.advance(seconds=1800)
    assert "is_stale" not in get_shown_tasks(app, where[0])[0]

    clock.advance(seconds=1)
    assert get_shown_tasks(app, where[0])[0]["is_stale"] is True

    call_tool(app, "log_milestone", task_id=id, message="Still here.")
    assert "is_stale" not in get_shown_tasks(app, where[0])[0]


def test_a_completed_task_is_never_stale(app: Application, clock: Clock):
    where = create_workflow_and_phase(app)
    complete_task(app, create_task(app, where))
    clock.advance(seconds=7200)

    assert "is_stale" not in get_shown_tasks(app, where[0])[0]
