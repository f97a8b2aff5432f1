"""Every transition between two statuses, and what else each requires."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from deepwork.kernel.errors import Code, InvalidInput, NotAllowed, ToolError
from deepwork.work.plans.models import PlanStatus, TaskStatus
from deepwork.work.plans.rules import transitions
from plans.make import make_task, make_workflow

TASK_TABLE = {
    "pending": "planning in_progress completed failed skipped",
    "planning": "pending in_progress paused completed failed skipped",
    "in_progress": "planning paused completed failed skipped",
    "paused": "pending in_progress failed skipped",
    "failed": "pending planning in_progress skipped",
    "completed": "",
    "skipped": "",
}
WORKFLOW_TABLE = {
    "planning": "ready abandoned",
    "ready": "in_progress paused completed abandoned",
    "in_progress": "paused completed failed abandoned",
    "paused": "in_progress failed abandoned",
    "failed": "in_progress abandoned",
    "completed": "",
    "abandoned": "",
}
TASK_PAIRS = [pair for pair in product(TASK_TABLE, TaskStatus) if pair[0] != pair[1]]
WORKFLOW_PAIRS = [pair for pair in product(WORKFLOW_TABLE, PlanStatus) if pair[0] != pair[1]]
STARTS = ["planning", "in_progress", "completed", "failed"]


def move_task(current: str, wanted: str, **given: Any) -> TaskStatus | None:
    """Return the task's new status; the task has everything a transition may require."""
    ordinary: dict[str, Any] = {
        "open_dependencies": [],
        "open_count": 0,
        "outcome": "It works.",
        "error": "It broke.",
    }
    return transitions.check_task_transition(
        make_task(status=current), TaskStatus(wanted), **(ordinary | given)
    )


def move_workflow(current: str, wanted: str, **given: Any) -> PlanStatus | None:
    """Return the new status of a workflow with three tasks, all done."""
    ordinary: dict[str, Any] = {"task_count": 3, "open_count": 0}
    return transitions.check_workflow_transition(
        make_workflow(current), PlanStatus(wanted), **(ordinary | given)
    )


def get_refusal(current: str, wanted: str, **given: Any) -> ToolError:
    with pytest.raises(ToolError) as refused:
        move_task(current, wanted, **given)
    return refused.value


def get_workflow_refusal(current: str, wanted: str, **given: Any) -> NotAllowed:
    with pytest.raises(NotAllowed) as refused:
        move_workflow(current, wanted, **given)
    return refused.value


# Tasks


def test_the_transition_tables_cover_every_stored_status():
    assert set(transitions.TASK_TRANSITIONS) == set(TASK_TABLE) == set(TaskStatus) - {"blocked"}
    assert set(transitions.WORKFLOW_TRANSITIONS) == set(WORKFLOW_TABLE) == set(PlanStatus)


@pytest.mark.parametrize(("current", "wanted"), TASK_PAIRS)
def test_task_transitions_match_the_table(current: str, wanted: str):
    if wanted in TASK_TABLE[current].split():
        assert move_task(current, wanted) == wanted
    else:
        assert get_refusal(current, wanted).code is Code.INVALID_TRANSITION


@pytest.mark.parametrize("status", TASK_TABLE)
def test_a_task_set_to_its_own_status_does_not_change(status: str):
    nothing_given = {"outcome": None, "error": None, "open_dependencies": ["a"], "open_count": 1}

    assert move_task(status, status, **nothing_given) is None


def test_a_refused_task_transition_names_the_task_and_the_allowed_statuses():
    error = get_refusal("in_progress", "pending")

    assert error.message == "The task 'build' is in_progress and cannot become pending."
    assert (
        error.suggestion
        == "From 'in_progress' it can change to: planning, paused, completed, failed, skipped."
    )
    assert not error.recoverable


def test_a_final_status_is_reported_as_final():
    assert get_refusal("completed", "pending").suggestion == "Status 'completed' is final."


@pytest.mark.parametrize("current", TASK_TABLE)
def test_blocked_is_computed_and_cannot_be_set(current: str):
    error = get_refusal(current, "blocked")

    assert error.code is Code.INVALID_TRANSITION
    assert "computed" in error.message


@pytest.mark.parametrize(("current", "wanted"), [("pending", to) for to in STARTS])
def test_a_blocked_pending_task_can_neither_start_nor_end(current: str, wanted: str):
    error = get_refusal(current, wanted, open_dependencies=["design"], open_count=1)

    assert isinstance(error, NotAllowed)
    assert error.code is Code.TASK_BLOCKED
    assert error.recoverable
    assert error.message == "Task 'build' waits for 'design'."


@pytest.mark.parametrize("wanted", ["planning", "in_progress"])
def test_a_blocked_failed_task_cannot_be_retried(wanted: str):
    assert get_refusal("failed", wanted, open_dependencies=["design"], open_count=1).code is Code.TASK_BLOCKED


@pytest.mark.parametrize(
    ("current", "wanted"),
    [("pending", "skipped"), ("failed", "skipped"), ("failed", "pending"), ("in_progress", "completed")],
)
def test_skipping_requeueing_and_completing_a_running_task_ignore_open_dependencies(
    current: str, wanted: str
):
    assert move_task(current, wanted, open_dependencies=["design"], open_count=1) == wanted


def test_three_open_dependencies_are_named_and_the_rest_are_counted():
    error = get_refusal("pending", "planning", open_dependencies=["a", "b", "c", "d"], open_count=5_000)

    assert error.message == "Task 'build' waits for 'a', 'b', 'c' and 4997 more."


@pytest.mark.parametrize("blank", [None, "", " \n"])
def test_a_completed_task_needs_an_outcome(blank: str | None):
    error = get_refusal("in_progress", "completed", outcome=blank)

    assert isinstance(error, InvalidInput)
    assert error.code is Code.MISSING_OUTCOME
    assert error.recoverable
    assert "`outcome`" in error.suggestion


@pytest.mark.parametrize("blank", [None, "", " \n"])
def test_a_failed_task_needs_an_error(blank: str | None):
    error = get_refusal("in_progress", "failed", error=blank)

    assert error.code is Code.MISSING_ERROR
    assert error.recoverable


def test_the_transition_is_checked_first_then_dependencies_then_required_fields():
    waiting: dict[str, Any] = {"open_dependencies": ["design"], "open_count": 1}

    assert get_refusal("skipped", "completed", outcome=None, **waiting).code is Code.INVALID_TRANSITION
    assert get_refusal("pending", "completed", outcome=None, **waiting).code is Code.TASK_BLOCKED
    assert get_refusal("pending", "completed", outcome=None).code is Code.MISSING_OUTCOME


@pytest.mark.parametrize(
    "path",
    [
        ["planning", "in_progress", "completed"],  # as in the seed's diagram
        ["in_progress", "completed"],  # as in its examples (fault B1)
        ["completed"],  # for agents that only claim and report
        ["in_progress", "failed", "in_progress", "completed"],
        ["planning", "paused", "in_progress", "completed"],
    ],
)
def test_every_documented_sequence_of_task_statuses_works(path: list[str]):
    status = "pending"
    for wanted in path:
        assert move_task(status, wanted) == wanted
        status = wanted


@pytest.mark.parametrize(
    ("held", "released"),
    [
        ("pending", "pending"),
        ("planning", "pending"),
        ("in_progress", "pending"),
        ("paused", "pending"),
        ("failed", "failed"),
        ("completed", "completed"),
        ("skipped", "skipped"),
    ],
)
def test_a_released_task_can_be_started_again_unless_it_ended(held: str, released: str):
    assert transitions.derive_released_status(TaskStatus(held)) == released


# Workflows


@pytest.mark.parametrize(("current", "wanted"), WORKFLOW_PAIRS)
def test_workflow_transitions_match_the_table(current: str, wanted: str):
    if wanted in WORKFLOW_TABLE[current].split():
        assert move_workflow(current, wanted) == wanted
    else:
        assert get_workflow_refusal(current, wanted).code is Code.INVALID_TRANSITION


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("status", WORKFLOW_TABLE)
def test_a_workflow_set_to_its_own_status_does_not_change(status: str, force: bool):
    assert move_workflow(status, status, task_count=0, open_count=0, force=force) is None


def test_a_refused_workflow_transition_names_the_workflow_and_the_allowed_statuses():
    error = get_workflow_refusal("paused", "completed")

    assert error.message == "The workflow 'release' is paused and cannot become completed."
    assert error.suggestion == "From 'paused' it can change to: in_progress, failed, abandoned."


def test_a_workflow_without_tasks_is_not_ready():
    error = get_workflow_refusal("planning", "ready", task_count=0)

    assert error.code is Code.INVALID_STATE
    assert "no plan yet" in error.message
    assert "workflow_set_plan" in error.suggestion


@pytest.mark.parametrize("current", ["ready", "in_progress"])
def test_a_workflow_with_open_tasks_is_completed_only_by_force(current: str):
    error = get_workflow_refusal(current, "completed", open_count=2)

    assert error.code is Code.INVALID_STATE
    assert "2 tasks are not done" in error.message
    assert "`force: true`" in error.suggestion
    assert move_workflow(current, "completed", open_count=2, force=True) == "completed"


def test_one_open_task_is_reported_in_the_singular():
    assert "1 task is not done" in get_workflow_refusal("in_progress", "completed", open_count=1).message


def test_force_does_not_reopen_a_finished_workflow():
    assert get_workflow_refusal("completed", "in_progress", force=True).code is Code.INVALID_TRANSITION


def test_a_workflow_with_open_tasks_can_be_abandoned():
    assert move_workflow("in_progress", "abandoned", open_count=2) == "abandoned"


@pytest.mark.parametrize(
    ("status", "untouched", "begun", "done"),
    [
        ("planning", "planning", "planning", "planning"),
        ("ready", "ready", "in_progress", "completed"),
        ("in_progress", "in_progress", "in_progress", "completed"),
        ("paused", "paused", "paused", "completed"),
        ("failed", "failed", "failed", "completed"),
        ("completed", "completed", "completed", "completed"),
        ("abandoned", "abandoned", "abandoned", "abandoned"),
    ],
)
def test_the_first_started_task_starts_a_workflow_and_the_last_completed_one_completes_it(
    status: str, untouched: str, begun: str, done: str
):
    now = PlanStatus(status)

    assert transitions.derive_workflow_status(now, any_started=False, all_done=False) == untouched
    assert transitions.derive_workflow_status(now, any_started=True, all_done=False) == begun
    assert transitions.derive_workflow_status(now, any_started=True, all_done=True) == done


@pytest.mark.parametrize("status", ["completed", "abandoned"])
def test_tasks_of_a_finished_workflow_cannot_change(status: str):
    with pytest.raises(NotAllowed) as refused:
        transitions.require_open(make_workflow(status))

    assert refused.value.code is Code.INVALID_STATE
    assert f"'release' is {status}" in refused.value.message


@pytest.mark.parametrize("status", ["planning", "ready", "in_progress", "paused", "failed"])
def test_tasks_of_an_unfinished_workflow_can_change(status: str):
    transitions.require_open(make_workflow(status))
