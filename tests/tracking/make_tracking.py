"""Builders for the tests of tracking: a workflow, a phase and a task that are under way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deepwork.database.call import Call
from deepwork.errors import DeepworkError
from deepwork.server.house import House
from deepwork.server.invocation import invoke
from house import ask


def start_workflow(house: House, key: str | None = None, **given: Any) -> dict[str, Any]:
    """The tool as the tracking set alone offers it, under the name that jobs have too."""
    spec = house.toolset("tracking")["start_workflow"]
    arguments = {"name": "Release", "objective": "Ship it."} | given
    answer: dict[str, Any] = invoke(house.database, spec, arguments, Call(tool="start_workflow", key=key))
    return answer


def workflow(house: House, **given: Any) -> str:
    id: str = start_workflow(house, **given)["workflow_id"]
    return id


def phase(house: House, workflow_id: str, number: int = 1, **given: Any) -> str:
    arguments: dict[str, Any] = {"name": f"Phase {number}", "is_parallel": True} | given
    id: str = ask(house, "start_phase", workflow_id=workflow_id, number=number, **arguments)["phase_id"]
    return id


def begun(house: House, **given: Any) -> tuple[str, str]:
    """A workflow with a phase under way; their ids."""
    id = workflow(house, **given)
    return id, phase(house, id)


def start_task(
    house: House, where: tuple[str, str], name: str = "build", key: str | None = None, **given: Any
) -> Any:
    arguments = {"caller_type": "subagent", "agent_name": "Ada", "goal": "Do it."} | given
    return ask(
        house, "start_task", key, workflow_id=where[0], phase_id=where[1], name=name, **arguments
    )  # fmt: skip


def task(house: House, where: tuple[str, str], name: str = "build", **given: Any) -> str:
    id: str = start_task(house, where, name, **given)["task_id"]
    return id


def complete(house: House, task_id: str, status: str = "success", **given: Any) -> Any:
    outcome = given.pop("outcome", {"summary": "Done."})
    return ask(house, "complete_task", task_id=task_id, status=status, outcome=outcome, **given)


def files(answer: dict[str, Any]) -> dict[str, list[str]]:
    """What a task changed, without what it did not."""
    return {what: paths for what, paths in answer["files_changed"].items() if paths}


def context(house: House, workflow_id: str, *include: str, **given: Any) -> Any:
    return ask(house, "get_context", workflow_id=workflow_id, include=list(include), **given)


def blocker(house: House, task_id: str, description: str = "Which?") -> str:
    id: str = ask(
        house, "log_issue", task_id=task_id, type="unclear_requirement", description=description,
        resolution="Asked.", requires_human_review=True,
    )["issue_id"]  # fmt: skip
    return id


def refusal(house: House, tool: str, **arguments: Any) -> DeepworkError:
    with pytest.raises(DeepworkError) as refused:
        ask(house, tool, **arguments)
    return refused.value


def write(folder: Path, **files: str) -> None:
    """Write these files, `a_txt` for a.txt and `src__a_py` for src/a.py."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
