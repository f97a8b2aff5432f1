"""Runs jobs by calling the tools of an application directly, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from application import make_app
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call


def call_job_tool(
    app: Application, tool: str, key: str | None = None, caller: str = "local", **arguments: Any
) -> Any:
    """Call a tool as a server would."""
    spec, call = app.registry[tool], Call(caller, tool, key, account="local")
    return invoke(app.database, spec, arguments, call)


def start_job(app: Application, name: str = "chain", **more: Any) -> str:
    """Start a workflow and return its session id."""
    more = {"goal": "try it", "workflow_name": "main", **more}
    id: str = call_job_tool(app, "start_workflow", job_name=name, **more)["begin_step"]["session_id"]
    return id


def finish_step(app: Application, *names: str, **more: Any) -> Any:
    """Finish the current step with files that have the names of its outputs."""
    return call_job_tool(app, "finished_step", outputs={name: name for name in names}, **more)


def get_session(app: Application, id: str) -> Any:
    return call_job_tool(app, "get_session", session_id=id)["session"]


def open_app(root: Path, **flags: Any) -> Application:
    return make_app(root, str(root / "deepwork.db"), **{"git_branch": "off", **flags})


def get_session_file(root: Path, id: str) -> Path:
    return root / ".deepwork" / "tmp" / f"session_{id}.json"
