"""The prompts that a person picks, through a real client."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.types import ResourceTemplateReference

from application import call_tool, make_app
from deepwork.edge.server.application import Application
from deepwork.edge.server.prompts import PromptRenderer
from deepwork.edge.server.resources import PLAN_SUMMARY, SESSIONS, TRACKING_CONTEXT
from deepwork.kernel.call import Call
from deepwork.kernel.foreign_text import FRAME
from hooks.make import Project, let_pass
from server.make import connect_in_process, connect_stdio, get_prompt, get_refusal, read_resource

PAGE = Path(__file__).parents[2] / "docs" / "prompts-and-resources.md"
NAMES = ["deepwork_resume", "deepwork_review", "deepwork_start"]


async def list_prompt_names(app: Application) -> list[str]:
    async with connect_in_process(app) as client:
        return sorted(each.name for each in await client.list_prompts())


async def render_prompt(app: Application, name: str, **arguments: str) -> str:
    async with connect_in_process(app) as client:
        return await get_prompt(client, name, **arguments)


def resume_with(app: Application, toolset: str, agent: str) -> str:
    """The resume prompt of a server that offers only these tools."""
    tools = {name: spec for name, spec in app.registry.items() if spec.toolset == toolset}
    return PromptRenderer(app, tools).render_resume({"agent_id": agent}, Call("local"))


def test_prompts_are_listed_with_short_descriptions_and_optional_arguments(app: Application):
    async def look() -> Any:
        async with connect_in_process(app) as client:
            return await client.list_prompts()

    prompts = anyio.run(look)

    assert sorted(each.name for each in prompts) == NAMES
    assert all(each.meta is None and len(each.description) <= 100 for each in prompts)
    assert not any(argument.required for each in prompts for argument in each.arguments)


def test_a_server_without_reviews_offers_no_prompt_for_them(tmp_path: Path, location: str):
    app = make_app(tmp_path, location, toolsets="plans,agents")

    assert anyio.run(list_prompt_names, app) == ["deepwork_resume", "deepwork_start"]
    text = anyio.run(render_prompt, app, "deepwork_start")
    assert "Plans, for work" in text
    assert "Jobs, for work" not in text
    app.close()


def test_the_start_prompt_lists_the_ways_of_working_and_existing_work(app: Application):
    Project(app).create_plan("Login by SSO")

    async def look() -> str:
        async with connect_in_process(app) as client:
            return await get_prompt(client, "deepwork_start", goal="Let people log in.")

    text = anyio.run(look)

    assert text.startswith("Work on this with deepwork:\n\nLet people log in.")
    assert all(way in text for way in ("Jobs, for work", "Plans, for work", "Tracking, for work"))
    assert '- "hello_review/greet":' in text
    assert '"Login by SSO": 0 of 2 tasks done' in text
    assert text.count(FRAME) == 1


def test_the_resume_prompt_shows_the_open_work_of_the_agent(tmp_path: Path, location: str):
    app = make_app(tmp_path, location)
    project = Project(app)

    async def resumed(agent: str) -> str:
        async with connect_in_process(app) as client:
            return await get_prompt(client, "deepwork_resume", **({"agent_id": agent} if agent else {}))

    assert "deepwork has no open work" in anyio.run(resumed, "")
    ada, task = project.start_task()
    assert f'You are agent "Ada" ({ada})' in anyio.run(resumed, "")  # the only one of this caller
    bob = project.register_agent("Bob")
    assert task not in anyio.run(resumed, "")
    assert task not in anyio.run(resumed, bob)
    assert task in anyio.run(resumed, ada)
    app.close()


def test_the_resume_prompt_says_that_the_agent_is_offline_and_which_claims_it_lost(app: Application):
    project = Project(app)
    ada, task = project.start_task()
    let_pass(project, ada, 200)
    call_tool(app, "task_claim", task_id=task, agent_id=project.register_agent("Bob"))

    texts = {toolset: resume_with(app, toolset, ada) for toolset in ("agents", "jobs")}

    assert texts["agents"].count(f'agent_heartbeat(agent_id="{ada}")') == 2
    assert f"task {task}" in texts["agents"]
    assert task not in texts["jobs"]


def test_work_without_tools_to_continue_it_is_left_out(tmp_path: Path, location: str):
    project = Project(make_app(tmp_path, location))
    ada, task = project.start_task()
    app = project.app
    call_tool(app, "start_workflow", name="Move", objective="All moved.")
    texts = {toolset: resume_with(app, toolset, ada) for toolset in ("jobs", "plans", "tracking", "agents")}
    app.close()

    assert [toolset for toolset, text in texts.items() if "deepwork has no open work" in text] == [
        "jobs",
        "agents",
    ]
    assert task in texts["plans"]
    assert "get_context" not in texts["plans"]
    assert '"Move"' in texts["tracking"]
    assert task not in texts["tracking"]


def test_the_review_prompt_explains_how_to_run_reviews(app: Application):
    async def look() -> tuple[str, str]:
        async with connect_in_process(app) as client:
            return await get_prompt(client, "deepwork_review"), await get_prompt(
                client, "deepwork_review", files="a.py b.py"
            )

    everything, some = anyio.run(look)

    assert "get_review_instructions()" in everything
    assert "get_review_instructions(files=['a.py', 'b.py'])" in some
    assert "mark_review_passed" in some


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("deepwork_resume", {"agent_id": "ag_none"}, "AGENT_NOT_FOUND"),
        ("deepwork_resume", {"agent": "ag_none"}, "INVALID_INPUT"),
        ("deepwork_start", {"goal": "x" * 10_001}, "INVALID_INPUT"),
    ],
)
def test_errors_have_the_same_codes_as_in_tools(
    app: Application, name: str, arguments: dict[str, str], code: str
):
    async def look() -> dict[str, Any]:
        async with connect_in_process(app) as client:
            return await get_refusal(client.get_prompt(name, arguments))

    error = anyio.run(look)

    assert error["code"] == code
    assert error["suggestion"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_prompts_and_resources_work_over_stdio(tmp_path: Path, mode: str):
    async def look() -> None:
        async with connect_stdio(tmp_path, mode=mode) as client:
            assert sorted(each.name for each in await client.list_prompts()) == NAMES
            assert "Jobs, for work" in await get_prompt(client, "deepwork_start", goal="Sing.")
            stranger = client.get_prompt("deepwork_resume", {"agent_id": "x"})
            assert (await get_refusal(stranger))["code"] == "AGENT_NOT_FOUND"

            assert (await read_resource(client, SESSIONS)).text == '{"sessions":[]}'
            missing = client.read_resource(PLAN_SUMMARY.replace("{id}", "wf_none"))
            assert (await get_refusal(missing))["code"] == "WORKFLOW_NOT_FOUND"
            reference = ResourceTemplateReference(type="ref/resource", uri=PLAN_SUMMARY)
            assert (await client.complete(reference, {"name": "id", "value": ""})).values == []

    anyio.run(look)


def test_the_page_names_every_prompt_and_address():
    listed = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)

    assert sorted(listed) == sorted([*NAMES, SESSIONS, PLAN_SUMMARY, TRACKING_CONTEXT])
