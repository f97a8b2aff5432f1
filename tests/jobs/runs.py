"""A house to run jobs in without a server between, and other processes that do the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from deepwork.database.call import Call
from deepwork.server.house import House
from deepwork.server.invocation import invoke, invoke_async
from house import house_at


def ask(house: House, tool: str, key: str | None = None, caller: str = "local", **arguments: Any) -> Any:
    """Call a tool as a front door would."""
    spec, call = house.registry[tool], Call(caller, tool, key, account="local")
    if spec.is_async:
        return asyncio.run(invoke_async(spec, arguments, call))
    return invoke(house.database, spec, arguments, call)


def start(house: House, name: str = "chain", **more: Any) -> str:
    """Begin a workflow; its session."""
    more = {"goal": "try it", "workflow_name": "main", **more}
    id: str = ask(house, "start_workflow", job_name=name, **more)["begin_step"]["session_id"]
    return id


def finish(house: House, *names: str, **more: Any) -> Any:
    """Report files under their own names."""
    return ask(house, "finished_step", outputs={name: name for name in names}, **more)


def session(house: House, id: str) -> Any:
    return ask(house, "get_session", session_id=id)["session"]


def opened(root: Path, **flags: Any) -> House:
    return house_at(root, str(root / "deepwork.db"), **{"git_branch": "off", **flags})


def file_of(root: Path, id: str) -> Path:
    return root / ".deepwork" / "tmp" / f"session_{id}.json"
