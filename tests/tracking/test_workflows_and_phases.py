"""Tools to record workflows and phases, on every database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from application import NOW, Clock, call_tool, list_event_types, list_events, make_app
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code, DeepworkError
from deepwork.kernel.values import format_timestamp
from tracking.make import (
    complete_task,
    create_blocker,
    create_phase,
    create_task,
    create_workflow,
    create_workflow_and_phase,
    expect_error,
    get_context,
    start_workflow,
)


def end_workflow(app: Application, workflow_id: str, status: str = "completed", **given: Any) -> Any:
    return call_tool(
        app, "complete_workflow", workflow_id=workflow_id, status=status, **({"summary": "Shipped."} | given)
    )  # fmt: skip


# start_workflow


def test_a_workflow_can_be_started(app: Application):
    answer = start_workflow(app)

    assert answer == {
        "workflow_id": answer["workflow_id"], "profile": "standard", "total_phases": 3,
        "created_at": format_timestamp(NOW),
    }  # fmt: skip
    assert answer["workflow_id"].startswith("tw_")
    assert list_event_types(app) == ["workflow:created"]


def test_everything_given_for_a_workflow_is_saved(app: Application):
    id = create_workflow(
        app, name="Shop", objective="Sell.", profile="complex", total_phases=7, scope="Not the till.",
        constraints="Python only.",
    )  # fmt: skip

    assert get_context(app, id) == {
        "workflow_id": id, "workflow_name": "Shop", "workflow_status": "in_progress", "current_phase": 0,
        "total_phases": 7, "objective": "Sell.", "scope": "Not the till.", "constraints": "Python only.",
        "profile": "complex",
    }  # fmt: skip


@pytest.mark.parametrize(("profile", "phases"), [("simple", 2), ("standard", 3), ("complex", 4)])
def test_the_profile_determines_the_number_of_expected_phases(app: Application, profile: str, phases: int):
    answer = start_workflow(app, profile=profile.upper())

    assert (answer["profile"], answer["total_phases"]) == (profile, phases)


@pytest.mark.parametrize("total", [1, 1000])
def test_any_number_of_phases_may_be_expected(app: Application, total: int):
    assert start_workflow(app, total_phases=total)["total_phases"] == total


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "   "},
        {"name": "x" * 201},
        {"objective": ""},
        {"profile": "huge"},
        {"total_phases": 0},
        {"total_phases": 1001},
        {"total_phases": 2.5},
        {"colour": "red"},
    ],
)
def test_an_invalid_workflow_is_refused(app: Application, wrong: dict[str, Any]):
    with pytest.raises(DeepworkError) as refused:
        start_workflow(app, **wrong)

    assert refused.value.code is Code.INVALID_INPUT
    assert next(iter(wrong)) in refused.value.message
    assert list_event_types(app) == []


# start_phase


def test_a_phase_can_be_started(app: Application):
    id = create_workflow(app)

    answer = call_tool(
        app, "start_phase", workflow_id=id, number=2, name="Design", description="How it looks."
    )

    assert answer == {
        "phase_id": answer["phase_id"], "workflow_id": id, "number": 2, "name": "Design",
        "is_parallel": False, "status": "in_progress", "started_at": format_timestamp(NOW),
    }  # fmt: skip
    assert answer["phase_id"].startswith("ph_")
    assert get_context(app, id)["current_phase"] == 2
    assert list_event_types(app) == ["workflow:created", "phase:created", "workflow:updated"]


def test_starting_an_existing_phase_returns_it_unchanged(app: Application, clock: Clock):
    id = create_workflow(app)
    first = call_tool(app, "start_phase", workflow_id=id, number=1, name="Design", description="d")
    create_phase(app, id, 2)
    clock.advance(seconds=60)
    before = list_event_types(app)

    again = call_tool(app, "start_phase", workflow_id=id, number=1, name="Design")
    other = call_tool(
        app, "start_phase", workflow_id=id, number=1, name="Plan", description="e", is_parallel=True
    )

    assert again == first | {"already_exists": True}
    assert other == first | {"already_exists": True, "differs": ["name", "description", "is_parallel"]}
    assert get_context(app, id)["current_phase"] == 2
    assert list_event_types(app) == before


def test_starting_a_completed_phase_returns_it_even_in_a_completed_workflow(app: Application):
    id = create_workflow(app)
    one = create_phase(app, id)
    call_tool(app, "complete_phase", phase_id=one, status="failed")
    end_workflow(app, id)

    answer = call_tool(app, "start_phase", workflow_id=id, number=1, name="Phase 1", is_parallel=True)

    assert (answer["phase_id"], answer["status"], answer["already_exists"]) == (one, "failed", True)


@pytest.mark.differs
def test_only_one_of_many_concurrent_callers_starts_the_phase(app: Application):
    id = create_workflow(app)

    with ThreadPoolExecutor(8) as callers:
        answers = list(
            callers.map(lambda _: call_tool(app, "start_phase", workflow_id=id, number=1, name="n"), range(8))
        )

    assert len({answer["phase_id"] for answer in answers}) == 1
    assert sum("already_exists" not in answer for answer in answers) == 1
    assert list_event_types(app).count("phase:created") == 1


def test_phases_may_start_in_any_order_and_exceed_the_expected_number(app: Application):
    id = create_workflow(app, total_phases=2)
    create_phase(app, id, 9)
    create_phase(app, id, 4)

    shown = get_context(app, id, "phase_summary")

    assert [each["phase_number"] for each in shown["phase_summary"]] == [4, 9]
    assert (shown["current_phase"], shown["total_phases"]) == (4, 9)


@pytest.mark.parametrize(
    "wrong", [{"number": 0}, {"number": -1}, {"number": 1.5}, {"name": ""}, {"name": "x" * 201}]
)
def test_an_invalid_phase_is_refused(app: Application, wrong: dict[str, Any]):
    id = create_workflow(app)

    error = expect_error(app, "start_phase", **({"workflow_id": id, "number": 1, "name": "n"} | wrong))

    assert error.code is Code.INVALID_INPUT
    assert list_event_types(app) == ["workflow:created"]


def test_a_phase_of_an_unknown_workflow_is_refused(app: Application):
    error = expect_error(app, "start_phase", workflow_id="tw_0", number=1, name="n")

    assert error.code is Code.WORKFLOW_NOT_FOUND
    assert "'tw_0'" in error.message


def test_a_phase_cannot_be_started_in_a_completed_workflow(app: Application):
    id = create_workflow(app)
    end_workflow(app, id)

    assert expect_error(app, "start_phase", workflow_id=id, number=1, name="n").code is Code.INVALID_STATE


# complete_phase


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_a_phase_can_be_completed(app: Application, clock: Clock, status: str):
    where = create_workflow_and_phase(app)
    for ending in ("success", "partial_success", "failed"):
        complete_task(app, create_task(app, where, ending), ending)
    clock.advance(seconds=90)
    before = len(list_event_types(app))

    answer = call_tool(app, "complete_phase", phase_id=where[1], status=status.upper(), summary="All well.")

    assert answer == {
        "phase_id": where[1], "workflow_id": where[0], "number": 1, "name": "Phase 1", "status": status,
        "completed_at": format_timestamp(clock.now), "duration_ms": 90_000,
        "tasks": {"total": 3, "success": 1, "partial": 1, "failed": 1, "in_progress": 0},
        "warnings": ["1 task(s) failed"] if status == "completed" else [],
    }  # fmt: skip
    assert list_event_types(app)[before:] == ["phase:updated", "workflow:updated"]
    [shown] = get_context(app, where[0], "phase_summary")["phase_summary"]
    assert shown["summary"] == "All well."


def test_completing_a_phase_warns_about_open_items(app: Application):
    id = create_workflow(app)
    create_phase(app, id, 1)
    two = create_phase(app, id, 2)
    running = create_task(app, (id, two))
    create_blocker(app, running)

    answer = call_tool(app, "complete_phase", phase_id=two, status="completed")

    assert answer["warnings"] == [
        "1 task(s) still in progress", "1 blocker(s) still open", "Earlier phase(s) still open: 1",
    ]  # fmt: skip
    assert complete_task(app, running)["phase_status"] == "completed"


def test_completing_a_phase_without_tasks_is_a_warning(app: Application):
    _, id = create_workflow_and_phase(app)

    answer = call_tool(app, "complete_phase", phase_id=id, status="completed")

    assert answer["warnings"] == ["It has no tasks"]


def test_completing_a_phase_again_with_the_same_arguments_returns_the_first_answer(
    app: Application, clock: Clock
):
    _, id = create_workflow_and_phase(app)
    first = call_tool(app, "complete_phase", phase_id=id, status="completed", summary="s")
    before = list_event_types(app)
    clock.advance(seconds=60)

    again = call_tool(app, "complete_phase", phase_id=id, status="completed", summary="s")

    assert again == first | {"already_completed": True}
    assert list_event_types(app) == before


@pytest.mark.parametrize("other", [{"status": "failed"}, {"summary": "t"}, {"summary": None}])
def test_completing_a_phase_again_with_different_arguments_is_refused(
    app: Application, other: dict[str, Any]
):
    _, id = create_workflow_and_phase(app)
    said = {"phase_id": id, "status": "completed", "summary": "s"}
    call_tool(app, "complete_phase", **said)

    assert expect_error(app, "complete_phase", **(said | other)).code is Code.INVALID_STATE


def test_an_unknown_phase_cannot_be_completed(app: Application):
    assert expect_error(app, "complete_phase", phase_id="ph_0", status="failed").code is Code.PHASE_NOT_FOUND


@pytest.mark.parametrize("status", ["partial", "in_progress", "", None])
def test_a_phase_cannot_end_with_another_status(app: Application, status: str | None):
    _, id = create_workflow_and_phase(app)

    assert expect_error(app, "complete_phase", phase_id=id, status=status).code is Code.INVALID_INPUT


# complete_workflow


@pytest.mark.parametrize(
    ("status", "reads_as"), [("completed", "completed"), ("failed", "failed"), ("partial", "failed")]
)
@pytest.mark.usefixtures("project")
def test_a_workflow_can_be_completed(app: Application, clock: Clock, status: str, reads_as: str):
    where = create_workflow_and_phase(app)
    id = where[0]
    for tokens in (5, 7):
        made = create_task(app, where)
        clock.advance(seconds=10)
        complete_task(app, made, metadata={"tokens_input": tokens, "tokens_output": 1})
    call_tool(app, "log_decision", task_id=made, category="other", question="q", chosen="c", reasoning="r")
    call_tool(app, "log_issue", task_id=made, type="other", description="d", resolution="r")
    call_tool(app, "complete_phase", phase_id=where[1], status="completed")

    answer = end_workflow(app, id, status, achievements=["Sold."], limitations=["Slow."])

    assert answer == {
        "workflow_id": id, "status": status, "summary": "Shipped.", "achievements": ["Sold."],
        "limitations": ["Slow."], "completed_at": format_timestamp(clock.now), "warnings": [],
        "metrics": {
            "total_phases": 1, "total_tasks": 2, "duration": 20, "task_seconds": 20, "files_changed": 0,
            "total_tokens": 14, "decisions": 1, "issues": 1, "blockers_open": 0,
        },
    }  # fmt: skip
    shown = get_context(app, id)
    assert (shown["workflow_status"], shown["outcome"], shown["summary"]) == (reads_as, status, "Shipped.")
    assert (shown["achievements"], shown["limitations"]) == (["Sold."], ["Slow."])
    assert list_event_types(app)[-1] == "workflow:updated"


def test_completing_a_workflow_warns_about_open_items(app: Application):
    where = create_workflow_and_phase(app)
    create_blocker(app, create_task(app, where))

    answer = end_workflow(app, where[0])

    assert answer["warnings"] == [
        "1 phase(s) still in progress", "1 task(s) still in progress", "1 blocker(s) still open",
    ]  # fmt: skip
    assert answer["metrics"]["blockers_open"] == 1
    assert get_context(app, where[0])["workflow_status"] == "completed"


def test_completing_a_workflow_again_with_the_same_arguments_returns_the_first_answer(
    app: Application, clock: Clock
):
    id = create_workflow(app)
    first = end_workflow(app, id, achievements=["a"])
    before = list_event_types(app)
    clock.advance(seconds=60)

    assert end_workflow(app, id, achievements=["a"]) == first | {"already_completed": True}
    assert list_event_types(app) == before


@pytest.mark.parametrize(
    "other", [{"status": "partial"}, {"summary": "t"}, {"achievements": []}, {"limitations": ["l"]}]
)
def test_completing_a_workflow_again_with_different_arguments_is_refused(
    app: Application, other: dict[str, Any]
):
    id = create_workflow(app)
    end_workflow(app, id, achievements=["a"])

    said = {"workflow_id": id, "status": "completed", "summary": "Shipped.", "achievements": ["a"]} | other
    assert expect_error(app, "complete_workflow", **said).code is Code.INVALID_STATE


@pytest.mark.parametrize("wrong", [{"status": "done"}, {"summary": ""}, {"achievements": "one"}])
def test_invalid_arguments_for_completing_a_workflow_are_refused(app: Application, wrong: dict[str, Any]):
    id = create_workflow(app)

    said = {"workflow_id": id, "status": "completed", "summary": "s"} | wrong
    assert expect_error(app, "complete_workflow", **said).code is Code.INVALID_INPUT
    assert get_context(app, id)["workflow_status"] == "in_progress"


def test_an_unknown_workflow_cannot_be_completed(app: Application):
    error = expect_error(app, "complete_workflow", workflow_id="tw_0", status="failed", summary="s")

    assert error.code is Code.WORKFLOW_NOT_FOUND


def test_events_contain_the_same_data_as_get_context(app: Application):
    where = create_workflow_and_phase(app)
    create_blocker(app, create_task(app, where))
    call_tool(app, "complete_phase", phase_id=where[1], status="completed")

    by_type = {event.type: event for event in list_events(app)}

    assert by_type["workflow:updated"].data["status"] == "blocked"
    assert by_type["workflow:updated"].data["id"] == by_type["workflow:updated"].workflow_id == where[0]
    [shown] = get_context(app, where[0], "phase_summary")["phase_summary"]
    assert by_type["phase:updated"].data == shown


@pytest.mark.differs
def test_several_processes_share_one_record(app: Application, tmp_path: Path, location: str, clock: Clock):
    id = create_workflow(app)
    other = make_app(tmp_path, location, clock)

    create_phase(other, id)
    other.close()

    assert get_context(app, id)["current_phase"] == 1
