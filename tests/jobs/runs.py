"""A app to run jobs in without a server between, and other processes that do the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from application import make_app
from deepwork.database.call import Call
from deepwork.server.application import Application
from deepwork.server.invocation import invoke, invoke_async


def ask(app: Application, tool: str, key: str | None = None, caller: str = "local", **arguments: Any) -> Any:
    """Call a tool as a front door would."""
    spec, call = app.registry[tool], Call(caller, tool, key, account="local")
    if spec.is_async:
        return asyncio.run(invoke_async(spec, arguments, call))
    return invoke(app.database, spec, arguments, call)


def start(app: Application, name: str = "chain", **more: Any) -> str:
    """Begin a workflow; its session."""
    more = {"goal": "try it", "workflow_name": "main", **more}
    id: str = ask(app, "start_workflow", job_name=name, **more)["begin_step"]["session_id"]
    return id


def finish(app: Application, *names: str, **more: Any) -> Any:
    """Report files under their own names."""
    return ask(app, "finished_step", outputs={name: name for name in names}, **more)


def session(app: Application, id: str) -> Any:
    return ask(app, "get_session", session_id=id)["session"]


def opened(root: Path, **flags: Any) -> Application:
    return make_app(root, str(root / "deepwork.db"), **{"git_branch": "off", **flags})


def file_of(root: Path, id: str) -> Path:
    return root / ".deepwork" / "tmp" / f"session_{id}.json"
