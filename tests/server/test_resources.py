"""The resources that a client may read, through a real client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.types import PromptReference, ResourceTemplateReference

from access.make import make_token
from application import call_tool, make_app
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.edge.server.resources import PLAN_SUMMARY, SESSIONS, TRACKING_CONTEXT
from deepwork.kernel.call import Call
from hooks.make import Project
from http_tests.http_server import HttpServer
from server.make import connect_http, connect_in_process, get_prompt, get_refusal, read_resource

OWNER = "the-owner-of-this-machine-and-no-other"
JOB = {"goal": "Greet Ada", "job_name": "hello_review", "workflow_name": "greet"}


def create_plan(project: Project, name: str = "Login by SSO") -> str:
    [task, _] = project.create_plan(name)
    id: str = call_tool(project.app, "task_get", id=task)["workflow_id"]
    return id


def read_text(app: Application, uri: str) -> Any:
    async def look() -> Any:
        async with connect_in_process(app) as client:
            return await read_resource(client, uri)

    return anyio.run(look)


def complete(app: Application, reference: Any, typed: str, name: str = "id") -> Any:
    async def look() -> Any:
        async with connect_in_process(app) as client:
            return await client.complete(reference, {"name": name, "value": typed})

    return anyio.run(look)


def build_reference(uri: str) -> ResourceTemplateReference:
    return ResourceTemplateReference(type="ref/resource", uri=uri)


def test_resources_and_templates_are_listed_without_metadata(app: Application):
    async def look() -> tuple[Any, Any]:
        async with connect_in_process(app) as client:
            return await client.list_resources(), await client.list_resource_templates()

    resources, templates = anyio.run(look)

    assert [(str(each.uri), each.meta) for each in resources] == [(SESSIONS, None)]
    assert [(each.uri_template, each.meta) for each in templates] == [
        (PLAN_SUMMARY, None),
        (TRACKING_CONTEXT, None),
    ]


def test_only_resources_of_the_selected_toolsets_are_listed(tmp_path: Path, location: str):
    app = make_app(tmp_path, location, toolsets="plans")

    async def look() -> tuple[Any, Any]:
        async with connect_in_process(app) as client:
            return await client.list_resources(), await client.list_resource_templates()

    resources, templates = anyio.run(look)

    assert resources == []
    assert [each.uri_template for each in templates] == [PLAN_SUMMARY]
    app.close()


def start_job(app: Application) -> Any:
    """Start a job and return its first step."""
    call = Call("local", "start_workflow")
    return invoke(app.database, app.registry["start_workflow"], JOB, call)["begin_step"]


def test_the_sessions_resource_lists_active_sessions(app: Application):
    session = start_job(app)

    content = read_text(app, SESSIONS)

    assert content.mime_type == "application/json"
    assert json.loads(content.text) == {
        "sessions": [
            {
                "session_id": session["session_id"],
                "workflow": "hello_review/greet",
                "step": session["step_id"],
                "goal": "Greet Ada",
            }
        ]
    }


def test_sessions_of_another_project_in_the_same_store_are_not_listed(tmp_path: Path, location: str):
    shared = location or str(tmp_path / "shared.db")
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    one, other = (make_app(tmp_path / name, shared) for name in ("one", "other"))

    mine = start_job(one)["session_id"]
    assert json.loads(read_text(other, SESSIONS).text) == {"sessions": []}
    theirs = start_job(other)["session_id"]

    for app, id in ((one, mine), (other, theirs)):
        assert [each["session_id"] for each in json.loads(read_text(app, SESSIONS).text)["sessions"]] == [id]
        app.close()


def test_a_plan_resource_is_its_markdown_summary(app: Application):
    id = create_plan(Project(app))

    content = read_text(app, PLAN_SUMMARY.replace("{id}", id))

    assert content.mime_type == "text/markdown"
    assert content.text == call_tool(app, "workflow_get_summary", id=id, format="markdown")["summary"]
    assert "0 of 2 tasks done" in content.text


def test_a_tracking_resource_contains_the_answer_of_get_context(app: Application):
    started = call_tool(app, "start_workflow", name="Move", objective="All moved.")

    context = json.loads(read_text(app, TRACKING_CONTEXT.replace("{id}", started["workflow_id"])).text)

    assert context["workflow_name"] == "Move"
    assert {"phase_summary", "tasks", "decisions", "milestones", "blockers"} <= context.keys()


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        (PLAN_SUMMARY.replace("{id}", "wf_none"), "WORKFLOW_NOT_FOUND"),
        (PLAN_SUMMARY.replace("{id}", "x" * 300), "INVALID_INPUT"),
        (TRACKING_CONTEXT.replace("{id}", "tw_none"), "WORKFLOW_NOT_FOUND"),
    ],
)
def test_errors_have_the_same_codes_as_in_tools(app: Application, uri: str, code: str):
    async def look() -> dict[str, Any]:
        async with connect_in_process(app) as client:
            return await get_refusal(client.read_resource(uri))

    assert anyio.run(look)["code"] == code


def test_ids_are_completed_newest_first(tmp_path: Path, location: str):
    app = make_app(tmp_path, location)
    project = Project(app)
    older, newer = create_plan(project, "Older"), create_plan(project, "Newer")
    project.execute("UPDATE plans SET updated_at = updated_at - 5000 WHERE id = :id", id=older)

    assert complete(app, build_reference(PLAN_SUMMARY), "wf_").values == [newer, older]
    assert complete(app, build_reference(PLAN_SUMMARY), newer[:-1]).values == [newer]
    assert complete(app, build_reference(PLAN_SUMMARY), "%").values == []
    assert complete(app, build_reference(TRACKING_CONTEXT), "").values == []
    assert complete(app, build_reference(PLAN_SUMMARY), "", name="other").values == []
    assert complete(app, PromptReference(type="ref/prompt", name="deepwork_start"), "").values == []
    app.close()


def test_at_most_a_hundred_ids_are_offered(app: Application):
    with app.database.transaction() as tx:
        tx.execute_many(
            "INSERT INTO plans (id, name, source_type, source_content, status, max_parallel_tasks,"
            " auto_create_workspaces, file_conflicts, created_by, completed_tasks, completed_ms, created_at,"
            " updated_at) VALUES (:id, 'p', 'prompt', 'x', 'planning', 1, :no, 'warn', 'local', 0, 0, 1, :at)",
            [{"id": f"wf_{number:012}", "no": False, "at": number} for number in range(130)],
        )

    found = complete(app, build_reference(PLAN_SUMMARY), "wf_")

    assert len(found.values) == 100
    assert found.has_more
    assert found.values[0] == "wf_000000000129"


def test_over_http_a_read_token_may_use_prompts_and_resources(tmp_path: Path, location: str):
    app = make_app(tmp_path, location)
    token, *_ = make_token(app, "a-reader", "read")
    id = create_plan(Project(app))
    with HttpServer(tmp_path, "--db", location, token=OWNER) as served:

        async def look() -> None:
            async with connect_http(served, token) as client:
                page = await read_resource(client, PLAN_SUMMARY.replace("{id}", id))
                found = await client.complete(build_reference(PLAN_SUMMARY), {"name": "id", "value": "wf"})
                begun = await get_prompt(client, "deepwork_start", goal="Sing.")
                resumed = await get_prompt(client, "deepwork_resume")

            assert "Login by SSO" in page.text
            assert found.values == [id]
            assert "Sing." in begun
            assert id in resumed

        anyio.run(look)
    app.close()
