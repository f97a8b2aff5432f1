"""What can be recorded of tasks, on every database; which files they change is told elsewhere."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from application import NOW, Clock, ask, events, told
from deepwork.errors import Code, DeepworkError
from deepwork.events.log import iso
from deepwork.server.application import Application
from tracking.make_tracking import (
    begun,
    complete,
    context,
    phase,
    refusal,
    start_task,
    task,
    workflow,
)

pytestmark = pytest.mark.usefixtures("project")


def shown(app: Application, workflow_id: str) -> Any:
    return context(app, workflow_id, "tasks")["tasks"]


def arguments(where: tuple[str, str], **given: Any) -> dict[str, Any]:
    least = {
        "workflow_id": where[0],
        "phase_id": where[1],
        "caller_type": "orchestrator",
        "name": "n",
        "goal": "g",
    }
    return least | given


# start_task


def test_a_task_is_begun(app: Application):
    where = begun(app)

    answer = ask(app, "start_task", **arguments(where))

    assert answer == {
        "task_id": answer["task_id"], "workflow_id": where[0], "phase_id": where[1], "phase_number": 1,
        "phase_name": "Phase 1", "caller_type": "orchestrator", "snapshot_id": answer["snapshot_id"],
        "snapshot_type": "git", "started_at": iso(NOW),
    }  # fmt: skip
    assert answer["task_id"].startswith("tt_")
    assert told(app)[-1] == "task:created"


def test_all_that_was_told_of_a_task_is_kept(app: Application):
    where = begun(app)
    parent = task(app, where, "parent")

    answer = ask(
        app, "start_task",
        **arguments(
            where, caller_type="SUBAGENT", agent_name="Ada", name="child", goal="Do it.",
            parent_task_id=parent, areas=["src", "*.md"],
        ),
    )  # fmt: skip

    assert (answer["caller_type"], answer["agent_name"]) == ("subagent", "Ada")
    kept = next(each for each in shown(app, where[0]) if each["id"] == answer["task_id"])
    assert kept == {
        "id": answer["task_id"], "workflow_id": where[0], "phase_id": where[1], "parent_task_id": parent,
        "name": "child", "goal": "Do it.", "status": "in_progress", "caller_type": "subagent",
        "agent_name": "Ada", "areas": ["src", "*.md"], "started_at": iso(NOW), "completed_at": None,
        "duration_seconds": None, "manual_review_needed": False, "summary": None,
    }  # fmt: skip
    assert events(app)[-1].data == kept


@pytest.mark.parametrize("agent_name", [None, "", "   "])
def test_a_subagent_says_who_it_is(app: Application, agent_name: str | None):
    where = begun(app)
    before = told(app)

    error = refusal(app, "start_task", **arguments(where, caller_type="subagent", agent_name=agent_name))

    assert error.code is Code.INVALID_INPUT
    assert "agent_name" in error.message
    assert told(app) == before


@pytest.mark.parametrize(
    "wrong", [{"caller_type": "robot"}, {"name": ""}, {"goal": ""}, {"areas": "src"}, {"x": 1}]
)
def test_a_task_that_makes_no_sense_is_refused(app: Application, wrong: dict[str, Any]):
    where = begun(app)

    error = refusal(app, "start_task", **arguments(where, **wrong))

    assert error.code is Code.INVALID_INPUT
    assert shown(app, where[0]) == []


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"workflow_id": "tw_0"}, Code.WORKFLOW_NOT_FOUND),
        ({"phase_id": "ph_0"}, Code.PHASE_NOT_FOUND),
        ({"parent_task_id": "tt_0"}, Code.TASK_NOT_FOUND),
    ],
)
def test_a_task_of_nothing_is_refused(app: Application, wrong: dict[str, str], code: Code):
    error = refusal(app, "start_task", **arguments(begun(app), **wrong))

    assert error.code is code
    assert repr(next(iter(wrong.values()))) in error.message


def test_a_phase_of_another_workflow_is_refused(app: Application):
    (id, _), (_, other) = begun(app), begun(app)

    assert refusal(app, "start_task", **arguments((id, other))).code is Code.INVALID_INPUT


def test_no_task_is_begun_in_a_phase_that_is_over(app: Application):
    where = begun(app)
    ask(app, "complete_phase", phase_id=where[1], status="completed")

    error = refusal(app, "start_task", **arguments(where))

    assert error.code is Code.INVALID_STATE
    assert "completed" in error.message


def test_no_task_is_begun_in_a_workflow_that_is_over(app: Application):
    where = begun(app)
    ask(app, "complete_workflow", workflow_id=where[0], status="partial", summary="s")

    assert refusal(app, "start_task", **arguments(where)).code is Code.INVALID_STATE
    assert context(app, where[0])["workflow_status"] == "failed"


def test_a_second_task_in_a_phase_that_is_not_parallel_is_a_warning(app: Application):
    id = workflow(app)
    where = (id, phase(app, id, is_parallel=False))
    first = start_task(app, where)

    second = start_task(app, where)
    child = start_task(app, where, parent_task_id=first["task_id"])

    assert "warnings" not in first
    assert second["warnings"] == ["Another task runs in phase 1, which is not parallel"]
    assert "warnings" not in child


# Nested tasks


def test_a_parent_of_another_workflow_is_refused(app: Application):
    stranger = task(app, begun(app))

    error = refusal(app, "start_task", **arguments(begun(app), parent_task_id=stranger))

    assert error.code is Code.INVALID_INPUT


def test_nothing_is_begun_below_a_task_that_is_over(app: Application):
    where = begun(app)
    parent = task(app, where)
    complete(app, parent)

    assert refusal(app, "start_task", **arguments(where, parent_task_id=parent)).code is Code.INVALID_STATE


def test_tasks_are_nested_eight_levels_deep_at_most(app: Application):
    where = begun(app)
    parent = task(app, where)
    for _ in range(7):
        parent = task(app, where, parent_task_id=parent)

    assert refusal(app, "start_task", **arguments(where, parent_task_id=parent)).code is Code.INVALID_INPUT


def test_a_task_ends_after_those_below_it(app: Application):
    where = begun(app)
    parent = task(app, where, "parent")
    child = task(app, where, "child", parent_task_id=parent)

    error = refusal(app, "complete_task", task_id=parent, status="success", outcome={"summary": "s"})

    assert error.code is Code.INVALID_STATE
    assert child in error.message
    assert "'child'" in error.message
    ask(app, "abandon_task", task_id=child, reason="Its agent is gone.")
    assert complete(app, parent)["status"] == "success"


# complete_task


@pytest.mark.parametrize("status", ["success", "partial_success", "failed"])
def test_a_task_is_ended(app: Application, clock: Clock, status: str):
    where = begun(app)
    id = task(app, where)
    task(app, where, "other")
    clock.advance(seconds=89.6)

    answer = complete(app, id, status.upper())

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
    assert told(app)[-1] == "task:updated"


def test_the_last_task_of_a_phase_is_told_so_and_changes_nothing_else(app: Application):
    where = begun(app)

    answer = complete(app, task(app, where))

    assert answer["phase_progress"]["all_tasks_done"] is True
    assert answer["phase_status"] == "in_progress"
    assert context(app, where[0])["workflow_status"] == "in_progress"


def test_all_that_was_told_of_its_end_is_kept(app: Application, clock: Clock):
    where = begun(app)
    id = task(app, where)
    clock.advance(seconds=5)
    outcome = {
        "summary": "Done.", "achievements": ["a"], "limitations": ["l"], "next_steps": ["n"],
        "manual_review_needed": True, "manual_review_reason": "Money.",
    }  # fmt: skip
    metadata = {
        "packages_added": ["anyio"], "packages_removed": ["six"], "commands_executed": ["make"],
        "tests_status": "PASSED", "tokens_input": 5, "tokens_output": 6, "model": "m", "cost_usd": 0.5,
    }  # fmt: skip

    complete(app, id, outcome=outcome, metadata=metadata)

    [kept] = shown(app, where[0])
    assert kept["outcome"] == outcome
    assert kept["metadata"] == metadata | {"tests_status": "passed"}
    assert (kept["summary"], kept["manual_review_needed"]) == ("Done.", True)
    assert (kept["completed_at"], kept["duration_seconds"]) == (iso(clock.now), 5)
    assert kept["files_changed"] == {"added": 0, "modified": 0, "deleted": 0}
    assert events(app)[-1].data == kept


@pytest.mark.parametrize("tests_status", ["passed", "failed", "not_run"])
def test_what_became_of_the_tests(app: Application, tests_status: str):
    where = begun(app)

    complete(app, task(app, where), metadata={"tests_status": tests_status})

    assert shown(app, where[0])[0]["metadata"] == {"tests_status": tests_status}


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
def test_an_end_that_makes_no_sense_is_refused(app: Application, wrong: dict[str, Any]):
    where = begun(app)
    said = {"task_id": task(app, where), "status": "success", "outcome": {"summary": "s"}}

    error = refusal(app, "complete_task", **(said | wrong))

    assert error.code is Code.INVALID_INPUT
    assert next(iter(wrong)) in error.message
    assert shown(app, where[0])[0]["status"] == "in_progress"


def test_an_unknown_task_cannot_be_ended(app: Application):
    error = refusal(app, "complete_task", task_id="tt_0", status="failed", outcome={"summary": "s"})

    assert error.code is Code.TASK_NOT_FOUND


def test_ending_a_task_again_with_the_same_words_gives_the_first_answer(app: Application, clock: Clock):
    id = task(app, begun(app))
    first = complete(app, id, metadata={"tests_status": "passed"})
    before = told(app)
    clock.advance(seconds=60)

    again = complete(
        app, id, outcome={"summary": "Done.", "next_steps": []},
        metadata={"tests_status": "passed", "packages_added": [], "model": None},
    )  # fmt: skip

    assert again == first | {"already_completed": True}
    assert told(app) == before


@pytest.mark.parametrize(
    "other", [{"status": "failed"}, {"outcome": {"summary": "t"}}, {"metadata": {"tests_status": "failed"}}]
)
def test_ending_a_task_again_with_other_words_is_refused(app: Application, other: dict[str, Any]):
    id = task(app, begun(app))
    complete(app, id)

    said = {"task_id": id, "status": "success", "outcome": {"summary": "Done."}} | other
    assert refusal(app, "complete_task", **said).code is Code.INVALID_STATE


def test_of_many_who_end_a_task_at_once_one_does(app: Application):
    id = task(app, begun(app))

    with ThreadPoolExecutor(4) as callers:
        answers = list(callers.map(lambda _: complete(app, id), range(4)))

    assert sum("already_completed" not in answer for answer in answers) == 1
    assert told(app).count("task:updated") == 1


def test_of_two_who_end_a_task_differently_at_once_one_is_refused(app: Application):
    id = task(app, begun(app))

    def end(status: str) -> str:
        try:
            return str(complete(app, id, status)["status"])
        except DeepworkError as error:
            return error.code

    with ThreadPoolExecutor(2) as callers:
        answers = sorted(callers.map(end, ["success", "failed"]))

    assert answers in (["INVALID_STATE", "failed"], ["INVALID_STATE", "success"])


# abandon_task


def test_a_task_that_nobody_works_on_is_ended_as_failed(app: Application):
    where = begun(app)
    id = task(app, where)

    answer = ask(app, "abandon_task", task_id=id, reason="The agent crashed.")

    assert set(answer) == {
        "task_id", "workflow_id", "status", "duration_seconds", "files_changed", "files_count",
        "verification", "phase_status", "phase_progress",
    }  # fmt: skip
    assert answer["status"] == "failed"
    [kept] = shown(app, where[0])
    assert kept["summary"] == "Abandoned: The agent crashed."
    assert kept["outcome"]["limitations"] == ["The agent crashed."]


def test_a_task_is_abandoned_once(app: Application):
    id = task(app, begun(app))
    first = ask(app, "abandon_task", task_id=id, reason="r")

    assert ask(app, "abandon_task", task_id=id, reason="r") == first | {"already_completed": True}
    assert refusal(app, "abandon_task", task_id=id, reason="s").code is Code.INVALID_STATE


def test_a_task_that_is_done_is_not_abandoned(app: Application):
    id = task(app, begun(app))
    complete(app, id)

    assert refusal(app, "abandon_task", task_id=id, reason="r").code is Code.INVALID_STATE
    assert refusal(app, "abandon_task", task_id="tt_0", reason="r").code is Code.TASK_NOT_FOUND
    assert refusal(app, "abandon_task", task_id=id, reason="").code is Code.INVALID_INPUT


# Keys


def test_a_start_repeated_under_its_key_is_one_task_whatever_happened_since(app: Application):
    where = begun(app)
    first = start_task(app, where, key="k")
    ask(app, "complete_phase", phase_id=where[1], status="completed")

    assert start_task(app, where, key="k") == first
    assert len(shown(app, where[0])) == 1


def test_an_end_repeated_under_its_key_gives_the_first_answer(app: Application):
    id = task(app, begun(app))
    said: dict[str, Any] = {"task_id": id, "status": "success", "outcome": {"summary": "s"}}
    first = ask(app, "complete_task", "k", **said)

    assert ask(app, "complete_task", "k", **said) == first
    assert ask(app, "complete_task", "other", **said) == first | {"already_completed": True}
    with pytest.raises(DeepworkError) as refused:
        ask(app, "complete_task", "k", **(said | {"status": "failed"}))
    assert refused.value.code is Code.KEY_REUSED


def test_a_start_that_was_refused_may_be_mended_under_its_key(app: Application):
    where = begun(app)
    wrong = arguments((where[0], "ph_0"))
    with pytest.raises(DeepworkError, match="ph_0"):
        ask(app, "start_task", "k", **wrong)

    assert ask(app, "start_task", "k", **arguments(where))["task_id"].startswith("tt_")


# Stale tasks


def test_a_task_that_nobody_mentions_for_half_an_hour_is_stale(app: Application, clock: Clock):
    where = begun(app)
    id = task(app, where)
    clock.advance(seconds=1800)
    assert "is_stale" not in shown(app, where[0])[0]

    clock.advance(seconds=1)
    assert shown(app, where[0])[0]["is_stale"] is True

    ask(app, "log_milestone", task_id=id, message="Still here.")
    assert "is_stale" not in shown(app, where[0])[0]


def test_a_task_that_is_over_is_never_stale(app: Application, clock: Clock):
    where = begun(app)
    complete(app, task(app, where))
    clock.advance(seconds=7200)

    assert "is_stale" not in shown(app, where[0])[0]
