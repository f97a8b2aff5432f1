"""One story of plans, jobs and tracked work whose checks are red, then green, as a client over stdio sees it."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from mcp.types import TextContent

import quick
from application import make_app
from checks.make import run_git
from gated_project import CHECK, GatedProject, own_trust
from jobs.project import make_step, write_job

__all__ = ["own_trust"]

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def connect(project: Path) -> AsyncIterator[Client[Any]]:
    """Connect to a server that reads what this test trusts."""
    async with Client(quick.build_transport(project, env=dict(os.environ))) as client:
        yield client


async def call(client: Client[Any], tool: str, **arguments: Any) -> Any:
    """Call a tool, and return its answer, or its error with `is_error`."""
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    [content, *_] = result.content
    assert isinstance(content, TextContent)
    answer = json.loads(content.text)
    return answer | {"is_error": True} if result.is_error else answer


@pytest.fixture
def project(own_trust: None, tmp_path: Path) -> GatedProject:
    folder = tmp_path / "project"
    folder.mkdir()
    app = make_app(folder, str(tmp_path / "unused.db"))
    project = GatedProject(folder, app)
    write_job(folder, "report", [make_step("write", checks=["tests"])])
    run_git(folder, "add", "-A", "-f", ".deepwork/jobs")
    project.define_check(CHECK)
    app.close()
    return project


async def plan(client: Client[Any]) -> str:
    about = {"name": "Login", "source_type": "prompt", "source_content": "It breaks."}
    id = (await call(client, "workflow_create", **about))["id"]
    given = {"summary": "s", "tasks": [{"name": "fix"}], "checks": ["tests"]}
    await call(client, "workflow_set_plan", id=id, plan=given)
    task: str = (await call(client, "workflow_next_tasks", workflow_id=id))["tasks"][0]["id"]
    return task


async def track(client: Client[Any]) -> str:
    started = await call(client, "start_workflow", name="w", objective="o", checks=["tests"])
    workflow = {"workflow_id": started["workflow_id"]}
    phase = (await call(client, "start_phase", **workflow, number=1, name="p"))["phase_id"]
    about = {"phase_id": phase, "caller_type": "orchestrator", "name": "t", "goal": "g"}
    task: str = (await call(client, "start_task", **workflow, **about))["task_id"]
    return task


async def start_job(client: Client[Any], project: GatedProject) -> list[str]:
    started = await call(client, "start_workflow", goal="g", job_name="report", workflow_name="main")
    project.write("write.md", "text\n")
    checks: list[str] = started["begin_step"]["step_checks"]
    return checks


async def test_work_of_every_kind_is_done_only_when_its_check_passes(project: GatedProject):
    async with connect(project.folder) as client:
        task, tracked = await plan(client), await track(client)
        assert await start_job(client, project) == ["tests"]
        planned: dict[str, Any] = {"id": task, "status": "completed", "outcome": "Done."}
        recorded: dict[str, Any] = {"task_id": tracked, "status": "success", "outcome": {"summary": "Done."}}
        step: dict[str, Any] = {"outputs": {"write.md": "write.md"}}

        red = [
            await call(client, "task_update_status", **planned),
            await call(client, "complete_task", **recorded),
            await call(client, "finished_step", **step),
        ]
        project.fix()
        green = [
            await call(client, "task_update_status", **planned),
            await call(client, "complete_task", **recorded),
            await call(client, "finished_step", **step),
        ]

    assert [each.get("code") for each in red] == ["CHECKS_FAILED", "CHECKS_FAILED", None]
    assert [each.get("is_error") for each in red] == [True, True, None]
    assert (red[2]["status"], red[2]["waiting_for"]) == ("needs_work", "checks")
    assert [each["checks"] for each in green] == [{"tests": "passed"}] * 3
    assert green[0]["all_complete"] is True
    assert green[2]["status"] == "workflow_complete"
    assert project.count_runs() == 4  # three red ones, and one green proof that all three use
