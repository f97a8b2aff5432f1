"""Wishes on every database: made once, planned, started with their checks and a review."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.errors import Code, DeepworkError, InvalidInput, NotAllowed, NotFound
from deepwork.work.wishes.planning import WeakPlan, require_sound_plan
from workspaces.make import create_repository

TASK = {
    "name": "Rates",
    "description": "Goal: rates.\nDone when: cached.",
    "files_likely_affected": ["r/**"],
    "approval": ["after"],
}


def call(app: Application, operation: str, **given: Any) -> Any:
    return invoke(app.database, app.operations[operation], given, Call("human:ada", operation))


@pytest.fixture
def project(app: Application, tmp_path: Path) -> Application:
    create_repository(tmp_path)
    return app


def plan(app: Application, wish: dict[str, Any], *tasks: dict[str, Any]) -> None:
    call_tool(
        app, "workflow_set_plan", id=wish["plan_id"], plan={"summary": "s", "tasks": list(tasks or [TASK])}
    )


def test_a_wish_has_an_empty_plan_and_one_whose_task_is_planning(project: Application):
    wish = call(project, "create_wish", text="Pay in two currencies", planner="claude")

    empty = call_tool(project, "workflow_get", id=wish["plan_id"])
    planning = call_tool(
        project, "workflow_get", id=wish["planning_id"], include_tasks=True, include_task_summaries=False
    )
    assert (empty["status"], planning["status"]) == ("planning", "ready")
    assert wish["plan_id"] in planning["tasks"][0]["description"]
    assert (wish["state"], wish["next"]) == ("ready", f"deepwork do {wish['id']}")
    assert wish["branch"] == "deepwork/integration/pay-two-currencies"


def test_the_same_wish_again_is_the_one_that_is_open(project: Application):
    first = call(project, "create_wish", text="Pay")

    again = call(project, "create_wish", text="Pay")
    call_tool(project, "workflow_update_status", id=first["plan_id"], status="abandoned")
    other = call(project, "create_wish", text="Pay")

    assert again["id"] == first["id"]
    assert other["id"] != first["id"]
    assert other["branch"] != first["branch"]  # what the first one landed stays apart
    states = {each["id"]: each["state"] for each in call(project, "list_wishes")["wishes"]}
    assert states == {first["id"]: "stopped", other["id"]: "ready"}


@pytest.mark.parametrize(("text", "code"), [(" \n", Code.INVALID_INPUT), ("x" * 2**20, Code.TOO_LARGE)])
def test_what_is_no_wish_is_refused_and_nothing_is_stored(project: Application, text: str, code: Code):
    with pytest.raises(InvalidInput) as refused:
        call(project, "create_wish", text=text)

    assert refused.value.code is code
    assert call(project, "list_wishes")["total"] == 0


def test_a_wish_starts_once_and_gets_a_review_behind_all_tasks(project: Application):
    wish = call(project, "create_wish", text="Pay")
    with pytest.raises(NotAllowed):
        call(project, "start_wish", id=wish["id"])
    plan(project, wish)
    asked = call(project, "get_wish", id=wish["plan_id"])

    started = call(project, "start_wish", id=wish["id"])
    again = call(project, "start_wish", id=wish["id"])

    assert (asked["state"], asked["because"]) == ("needs_you", "not_started")
    assert again["review_tasks"] == started["review_tasks"]
    [review] = started["review_tasks"]
    found = call_tool(project, "task_get", id=review)
    assert "git diff" in found["description"]
    shown = call(project, "get_wish_plan", id=wish["id"])
    assert [task["name"] for task in shown["tasks"]] == ["Rates"]


def test_a_weak_plan_goes_back_once(project: Application):
    wish = call(project, "create_wish", text="Pay")
    weak = {"summary": "s", "tasks": [{"name": "Rates"}]}

    with pytest.raises(WeakPlan) as refused:
        require_sound_plan(project.database, wish["plan_id"], weak)
    require_sound_plan(project.database, wish["plan_id"], weak)

    kept = call(project, "get_wish", id=wish["id"])["returned_plan"]
    assert kept
    assert kept in refused.value.message


@pytest.mark.parametrize("given", [None, 3, [], {}, {"tasks": None}, {"tasks": ["x"]}])
def test_what_is_no_plan_is_left_to_the_tool(project: Application, given: object):
    wish = call(project, "create_wish", text="Pay")

    require_sound_plan(project.database, wish["plan_id"], given)

    assert "returned_plan" not in call(project, "get_wish", id=wish["id"])


def test_a_plan_without_a_wish_may_be_as_it_likes(project: Application):
    made = call_tool(project, "workflow_create", name="n", source_type="prompt", source_content="c")

    require_sound_plan(project.database, made["id"], {"tasks": [{"name": "x"}]})


@pytest.mark.parametrize("operation", ["get_wish", "get_wish_plan", "start_wish", "report_run"])
def test_an_unknown_wish_is_not_found(app: Application, operation: str):
    with pytest.raises(NotFound):
        call(app, operation, id="wi_000000000000")


def test_a_check_that_the_project_does_not_define_is_refused(project: Application):
    wish = call(project, "create_wish", text="Pay", checks=["unheard"])
    plan(project, wish, {**TASK, "approval": None})

    with pytest.raises(DeepworkError) as refused:
        call(project, "start_wish", id=wish["id"])

    assert refused.value.code is Code.INVALID_INPUT
    assert "started_at" not in call(project, "get_wish", id=wish["id"])
