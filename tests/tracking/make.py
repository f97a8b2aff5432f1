"""Builders for the tests of tracking: a running workflow, phase and task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.errors import DeepworkError


def start_workflow(app: Application, key: str | None = None, **given: Any) -> dict[str, Any]:
    """The tool as the tracking set alone offers it, under the name that jobs have too."""
    spec = app.build_toolset("tracking")["start_workflow"]
    arguments = {"name": "Release", "objective": "Ship it."} | given
    answer: dict[str, Any] = invoke(app.database, spec, arguments, Call(tool="start_workflow", key=key))
    return answer


def create_workflow(app: Application, **given: Any) -> str:
    id: str = start_workflow(app, **given)["workflow_id"]
    return id


def create_phase(app: Application, workflow_id: str, number: int = 1, **given: Any) -> str:
    arguments: dict[str, Any] = {"name": f"Phase {number}", "is_parallel": True} | given
    id: str = call_tool(app, "start_phase", workflow_id=workflow_id, number=number, **arguments)["phase_id"]
    return id


def create_workflow_and_phase(app: Application, **given: Any) -> tuple[str, str]:
    """Create a workflow with a running phase; return their ids."""
    id = create_workflow(app, **given)
    return id, create_phase(app, id)


def start_task(
    app: Application, where: tuple[str, str], name: str = "build", key: str | None = None, **given: Any
) -> Any:
    arguments = {"caller_type": "subagent", "agent_name": "Ada", "goal": "Do it."} | given
    return call_tool(
        app, "start_task", key, workflow_id=where[0], phase_id=where[1], name=name, **arguments
    )  # fmt: skip


def create_task(app: Application, where: tuple[str, str], name: str = "build", **given: Any) -> str:
    id: str = start_task(app, where, name, **given)["task_id"]
    return id


def complete_task(app: Application, task_id: str, status: str = "success", **given: Any) -> Any:
    outcome = given.pop("outcome", {"summary": "Done."})
    return call_tool(app, "complete_task", task_id=task_id, status=status, outcome=outcome, **given)


def get_changed_files(answer: dict[str, Any]) -> dict[str, list[str]]:
    """What a task changed, without what it did not."""
    return {what: paths for what, paths in answer["files_changed"].items() if paths}


def get_context(app: Application, workflow_id: str, *include: str, **given: Any) -> Any:
    return call_tool(app, "get_context", workflow_id=workflow_id, include=list(include), **given)


def create_blocker(app: Application, task_id: str, description: str = "Which?") -> str:
    id: str = call_tool(
        app, "log_issue", task_id=task_id, type="unclear_requirement", description=description,
        resolution="Asked.", requires_human_review=True,
    )["issue_id"]  # fmt: skip
    return id


def expect_error(app: Application, tool: str, **arguments: Any) -> DeepworkError:
    with pytest.raises(DeepworkError) as refused:
        call_tool(app, tool, **arguments)
    return refused.value


def write_files(folder: Path, **files: str) -> None:
    """Write these files, `a_txt` for a.txt and `src__a_py` for src/a.py."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
