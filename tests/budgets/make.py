"""Plans with budgets, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call


def create_plan(app: Application, *tasks: dict[str, Any], **plan: Any) -> list[str]:
    """Create a plan whose tasks wait for nothing; return its id and those of its tasks."""
    workflow = call_tool(
        app,
        "workflow_create",
        name="release",
        source_type="prompt",
        source_content="Release it.",
        max_parallel_tasks=100,
    )["id"]
    call_tool(
        app, "workflow_set_plan", id=workflow, plan={"summary": "In steps.", "tasks": list(tasks), **plan}
    )
    listed = call_tool(app, "workflow_get", id=workflow, include_tasks=True, task_limit=1000)
    return [workflow, *(task["id"] for task in listed["tasks"])]


def claim(app: Application, task: str, agent: str, **more: Any) -> Any:
    return call_tool(app, "task_claim", task_id=task, agent_id=agent, **more)


def report(app: Application, task: str, key: str | None = None, **usage: Any) -> Any:
    return call_tool(
        app, "checkpoint_add", key, task_id=task, type="progress", summary="Half.", detail={"usage": usage}
    )


def end(app: Application, task: str, agent: str) -> None:
    call_tool(app, "task_update_status", id=task, status="completed", outcome="Done.", agent_id=agent)


def set_budget(app: Application, id: str, caller: str = "human:ann", **given: Any) -> Any:
    """Set a budget, as the command line and the dashboard do."""
    return invoke(app.database, app.operations["set_budget"], {"id": id, **given}, Call(caller, "set_budget"))


def write_user_settings(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Write the settings of the user who runs the tests, for this test."""
    settings = folder / "user" / "deepwork"
    settings.mkdir(parents=True)
    settings.chmod(0o700)
    file = settings / "config.yml"
    file.write_text(text)
    file.chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "user"))
