"""Decisions, issues and milestones, on tasks of every kind and on every database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from application import NOW, Clock, call_tool, list_event_types, list_events
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code
from deepwork.kernel.values import format_timestamp
from tracking.make import (
    complete_task,
    create_blocker,
    create_task,
    create_workflow_and_phase,
    expect_error,
    get_context,
)
from workspaces.make import create_plan

DECISION = {"category": "architecture", "question": "q", "chosen": "c", "reasoning": "r"}
ISSUE = {"type": "other", "description": "d", "resolution": "r"}


@pytest.fixture
def where(app: Application) -> tuple[str, str]:
    return create_workflow_and_phase(app)


@pytest.fixture
def running(app: Application, where: tuple[str, str]) -> str:
    return create_task(app, where)


# log_decision


def test_a_decision_is_stored_with_every_field(app: Application, where: tuple[str, str], running: str):
    answer = call_tool(
        app, "log_decision", task_id=running, category="LIBRARY_CHOICE", question="Which?",
        options_considered=["a", "b"], chosen="a", reasoning="Smaller.", trade_offs="Younger.",
    )  # fmt: skip

    assert answer == {"decision_id": answer["decision_id"], "created_at": format_timestamp(NOW)}
    assert answer["decision_id"].startswith("dc_")
    shown = get_context(app, where[0], "decisions")
    assert shown["decisions_count"] == 1
    assert shown["decisions"] == [
        {
            "id": answer["decision_id"], "workflow_id": where[0], "task_id": running, "task_name": "build",
            "agent_name": "Ada", "created_at": format_timestamp(NOW), "category": "library_choice", "question": "Which?",
            "options_considered": ["a", "b"], "chosen": "a", "reasoning": "Smaller.",
            "trade_offs": "Younger.",
        }
    ]  # fmt: skip
    assert (list_events(app)[-1].type, list_events(app)[-1].data) == (
        "decision:created",
        shown["decisions"][0],
    )


@pytest.mark.parametrize("category", ["architecture", "library_choice", "trade_off", "workaround", "other"])
def test_every_decision_category_is_accepted(
    app: Application, where: tuple[str, str], running: str, category: str
):
    call_tool(app, "log_decision", task_id=running, **(DECISION | {"category": category.upper()}))

    assert get_context(app, where[0], "decisions")["decisions"][0]["category"] == category


@pytest.mark.parametrize("wrong", [{"category": "whim"}, {"question": ""}, {"chosen": ""}, {"reasoning": ""}])
def test_an_invalid_decision_is_refused(app: Application, running: str, wrong: dict[str, str]):
    error = expect_error(app, "log_decision", task_id=running, **(DECISION | wrong))

    assert error.code is Code.INVALID_INPUT
    assert next(iter(wrong)) in error.message
    assert "decision:created" not in list_event_types(app)


# log_issue and resolve_issue


def test_an_issue_is_stored(app: Application, where: tuple[str, str], running: str):
    answer = call_tool(app, "log_issue", task_id=running, **ISSUE)

    assert answer == {"issue_id": answer["issue_id"], "created_at": format_timestamp(NOW)}
    assert answer["issue_id"].startswith("is_")
    shown = get_context(app, where[0], "blockers")
    assert (shown["blockers"], shown["blockers_count"], shown["has_blockers"]) == ([], 0, False)
    assert shown["workflow_status"] == "in_progress"
    assert list_events(app)[-1].type == "issue:created"


@pytest.mark.parametrize(
    "type", ["documentation_gap", "bug_encountered", "dependency_conflict", "unclear_requirement", "other"]
)
def test_every_issue_type_is_accepted(app: Application, where: tuple[str, str], running: str, type: str):
    call_tool(
        app, "log_issue", task_id=running, **(ISSUE | {"type": type.upper()}), requires_human_review=True
    )

    assert get_context(app, where[0], "blockers")["blockers"][0]["type"] == type


@pytest.mark.parametrize(
    "wrong", [{"type": "bug"}, {"description": ""}, {"resolution": ""}, {"resolution": None}]
)
def test_an_invalid_issue_is_refused(app: Application, running: str, wrong: dict[str, Any]):
    error = expect_error(app, "log_issue", task_id=running, **(ISSUE | wrong))

    assert error.code is Code.INVALID_INPUT
    assert next(iter(wrong)) in error.message


def test_a_workflow_with_an_open_blocker_is_shown_as_blocked(
    app: Application, where: tuple[str, str], running: str
):
    id = create_blocker(app, running, "Which bank?")

    shown = get_context(app, where[0], "blockers")

    assert shown["workflow_status"] == "blocked"
    assert (shown["blockers_count"], shown["has_blockers"]) == (1, True)
    assert shown["blockers"] == [
        {
            "id": id, "workflow_id": where[0], "task_id": running, "task_name": "build", "agent_name": "Ada",
            "created_at": format_timestamp(NOW), "type": "unclear_requirement", "description": "Which bank?",
            "resolution": "Asked.", "requires_human_review": True,
        }
    ]  # fmt: skip


def test_a_blocker_does_not_prevent_completion_and_ends_when_resolved(
    app: Application, clock: Clock, where: tuple[str, str], running: str
):
    id = create_blocker(app, running)
    complete_task(app, running)
    clock.advance(seconds=60)

    answer = call_tool(app, "resolve_issue", issue_id=id, note="The second.")

    assert answer == {"issue_id": id, "resolved_at": format_timestamp(clock.now)}
    shown = get_context(app, where[0], "blockers")
    assert (shown["workflow_status"], shown["blockers"]) == ("in_progress", [])
    told_last = list_events(app)[-1]
    assert told_last.type == "issue:resolved"
    assert told_last.data["resolved_by"] == "local"
    assert told_last.data["resolution_note"] == "The second."


def test_a_resolution_may_name_who_resolved_the_issue(app: Application, running: str):
    call_tool(app, "resolve_issue", issue_id=create_blocker(app, running), note="n", resolved_by="Grace")

    assert list_events(app)[-1].data["resolved_by"] == "Grace"


def test_resolving_again_is_accepted_only_with_the_same_note(app: Application, running: str):
    id = create_blocker(app, running)
    first = call_tool(app, "resolve_issue", issue_id=id, note="n")

    assert call_tool(app, "resolve_issue", issue_id=id, note="n") == first | {"already_resolved": True}
    assert expect_error(app, "resolve_issue", issue_id=id, note="m").code is Code.INVALID_STATE
    assert list_event_types(app).count("issue:resolved") == 1


def test_an_unknown_issue_cannot_be_resolved(app: Application):
    assert expect_error(app, "resolve_issue", issue_id="is_0", note="n").code is Code.ISSUE_NOT_FOUND
    assert expect_error(app, "resolve_issue", issue_id="is_0", note="").code is Code.INVALID_INPUT


# log_milestone


def test_a_milestone_is_stored_with_every_field(app: Application, where: tuple[str, str], running: str):
    answer = call_tool(
        app,
        "log_milestone",
        task_id=running,
        message="Half.",
        progress=50,
        metadata={"files": [1, {"a": None}]},
    )

    assert answer == {"milestone_id": answer["milestone_id"], "created_at": format_timestamp(NOW)}
    assert answer["milestone_id"].startswith("ml_")
    shown = get_context(app, where[0], "milestones")
    assert shown["milestones_count"] == 1
    assert shown["milestones"] == [
        {
            "id": answer["milestone_id"], "workflow_id": where[0], "task_id": running, "task_name": "build",
            "agent_name": "Ada", "created_at": format_timestamp(NOW), "message": "Half.", "progress": 50,
            "metadata": {"files": [1, {"a": None}]},
        }
    ]  # fmt: skip
    assert (list_events(app)[-1].type, list_events(app)[-1].data) == (
        "milestone:created",
        shown["milestones"][0],
    )


@pytest.mark.parametrize(("given", "kept"), [(0, 0), (100, 100), (50.4, 50), (50.6, 51), (99.9, 100)])
def test_progress_is_rounded_to_whole_percent(
    app: Application, where: tuple[str, str], running: str, given: float, kept: int
):
    call_tool(app, "log_milestone", task_id=running, message="m", progress=given)

    assert get_context(app, where[0], "milestones")["milestones"][0]["progress"] == kept


@pytest.mark.parametrize(
    "wrong",
    [
        {"progress": -0.1},
        {"progress": 100.1},
        {"progress": float("nan")},
        {"progress": "half"},
        {"message": ""},
        {"message": "x" * 501},
        {"metadata": "m"},
    ],
)
def test_an_invalid_milestone_is_refused(app: Application, running: str, wrong: dict[str, Any]):
    error = expect_error(app, "log_milestone", task_id=running, **({"message": "m"} | wrong))

    assert error.code is Code.INVALID_INPUT
    assert "milestone:created" not in list_event_types(app)


@pytest.mark.parametrize(
    "metadata",
    [
        {"by": "human:Ada"},
        {"By": "Human:Ada"},
        {"more": {"by": "human:Ada"}},
        {"all": [1, {"by": "human:Ada"}]},
    ],
)
def test_only_a_person_can_log_an_approval_of_a_person(
    app: Application, running: str, metadata: dict[str, Any]
):
    given: dict[str, Any] = {"task_id": running, "message": "Reviewed.", "metadata": metadata}

    assert expect_error(app, "log_milestone", **given).code == Code.INVALID_INPUT
    assert call_tool(app, "log_milestone", caller="human:Ada", **given)["milestone_id"]


def test_only_the_caller_decides_whether_a_person_logged_a_milestone(app: Application, running: str):
    for caller in ("local", "client:human:Ada", "session:human:Ada", "human:Ada"):
        call_tool(app, "log_milestone", caller=caller, task_id=running, message=f"By {caller}.")
    error = expect_error(app, "log_milestone", task_id=running, message="Mine.", logged_by_person="human:Ada")

    with app.database.reading() as tx:
        rows = tx.fetch_all("SELECT logged_by_person, message FROM milestones ORDER BY created_seq")
    assert error.code is Code.INVALID_INPUT
    assert [row["logged_by_person"] for row in rows] == [None, None, None, "human:Ada"]


def test_only_a_person_can_resolve_an_issue_as_a_person(app: Application, running: str):
    issue = create_blocker(app, running)
    given = {"issue_id": issue, "note": "Settled.", "resolved_by": "Human:Ada"}

    assert expect_error(app, "resolve_issue", **given).code == Code.INVALID_INPUT
    assert call_tool(app, "resolve_issue", caller="human:Ada", key=None, **given)["issue_id"] == issue


def test_a_milestone_of_a_person_is_neither_merged_nor_pruned(
    app: Application, where: tuple[str, str], running: str
):
    call_tool(app, "log_milestone", task_id=running, message="ok")
    call_tool(
        app, "log_milestone", caller="human:Ada", task_id=running, message="ok",
        metadata={"by": "human:Ada"},
    )  # fmt: skip
    for number in range(101):
        call_tool(app, "log_milestone", task_id=running, message=f"step {number}")

    kept = get_context(app, where[0], "milestones", limit=200)["milestones"]
    assert [each for each in kept if each.get("metadata")] != []


def test_equal_milestones_within_two_seconds_are_merged(
    app: Application, clock: Clock, where: tuple[str, str], running: str
):
    first = call_tool(app, "log_milestone", task_id=running, message="m", progress=50)
    clock.advance(seconds=2)
    assert call_tool(app, "log_milestone", task_id=running, message="m", progress=50) == first

    call_tool(app, "log_milestone", task_id=running, message="m", progress=60)
    clock.advance(seconds=2.001)
    later = call_tool(app, "log_milestone", task_id=running, message="m", progress=50)

    assert later["milestone_id"] != first["milestone_id"]
    assert get_context(app, where[0], "milestones")["milestones_count"] == 3
    assert list_event_types(app).count("milestone:created") == 3


@pytest.mark.differs
def test_equal_milestones_of_concurrent_callers_are_merged(
    app: Application, where: tuple[str, str], running: str
):
    with ThreadPoolExecutor(8) as callers:
        list(callers.map(lambda _: call_tool(app, "log_milestone", task_id=running, message="m"), range(8)))

    assert get_context(app, where[0], "milestones")["milestones_count"] == 1


def test_the_newest_hundred_milestones_of_each_task_are_kept(
    app: Application, clock: Clock, where: tuple[str, str], running: str
):
    other = create_task(app, where, "other")
    call_tool(app, "log_milestone", task_id=other, message="mine")
    for number in range(103):
        call_tool(app, "log_milestone", task_id=running, message=str(number))
        clock.advance(seconds=number % 2)  # two of a moment, and still in order

    shown = get_context(app, where[0], "milestones", limit=500)

    assert shown["milestones_count"] == 101
    kept = [each["message"] for each in shown["milestones"] if each["task_id"] == running]
    assert len(kept) == 100
    assert {"102", "101", "4"} <= set(kept)
    assert not {"0", "1"} & set(kept)


# On what


@pytest.mark.parametrize(
    ("tool", "said"), [("log_decision", DECISION), ("log_issue", ISSUE), ("log_milestone", {"message": "m"})]
)
def test_notes_on_a_finished_task_are_accepted_and_on_an_unknown_task_refused(
    app: Application, running: str, tool: str, said: dict[str, str]
):
    complete_task(app, running)

    assert call_tool(app, tool, task_id=running, **said)["created_at"] == format_timestamp(NOW)
    for unknown in ("tt_0", "tk_0", "nobody", "abcd1234/step", "/", "abcd1234/"):
        assert expect_error(app, tool, task_id=unknown, **said).code is Code.TASK_NOT_FOUND


def test_notes_on_a_planned_task_name_its_holder(app: Application):
    id, (build, _) = create_plan(app, "build", "test")
    agent = call_tool(app, "agent_register", name="Grace", runtime="custom")["id"]
    call_tool(app, "task_claim", task_id=build, agent_id=agent)

    call_tool(app, "log_decision", task_id=build, **DECISION)
    create_blocker(app, build)
    call_tool(app, "log_milestone", task_id=build, message="m")

    shown = get_context(app, id, "decisions", "blockers", "milestones")
    for section in ("decisions", "blockers", "milestones"):
        [note] = shown[section]
        assert (note["task_id"], note["task_name"], note["agent_name"]) == (build, "build", "Grace")
        assert note["workflow_id"] == id
    assert {event.workflow_id for event in list_events(app)[-3:]} == {id}


def test_a_note_repeated_under_one_key_is_stored_once(app: Application, where: tuple[str, str], running: str):
    first = call_tool(app, "log_decision", "k", task_id=running, **DECISION)

    assert call_tool(app, "log_decision", "k", task_id=running, **DECISION) == first
    assert get_context(app, where[0], "decisions")["decisions_count"] == 1
