"""What the measured projects contain: agents with messages, small plans, large plans, one heavy task."""

from __future__ import annotations

from typing import Any

from benchmarks.clients import Caller

HEAVY_BEFORE, HEAVY_CHECKPOINTS = 20, 30
_TEXT = "The parser reads the header first, then the body; an empty body is an error of the caller. "


def build_plan(size: int, shape: str = "layered") -> dict[str, Any]:
    """Build a plan: layers of a hundred tasks, each depending on the one before, or all parallel ("wide")."""
    tasks = [
        {
            "name": f"task {number}",
            "description": f"What is to be done in part {number} of the work.",
            "sequence": number // 100 + 1 if shape == "layered" else 1,
            "files_likely_affected": [f"src/part_{number}.py"],
        }
        for number in range(size)
    ]
    return {"summary": "A large plan", "approach": "One after the other.", "tasks": tasks}


def register_agent(caller: Caller, name: str = "Ada") -> str:
    id: str = caller.call("agent_register", {"name": name, "runtime": "custom"})["id"]
    return id


def create_workflow(caller: Caller, parallel: int = 200, **more: Any) -> str:
    created = {
        "name": "bench",
        "source_type": "prompt",
        "source_content": "Measure.",
        "max_parallel_tasks": parallel,
    }
    id: str = caller.call("workflow_create", created | more)["id"]
    return id


def create_plan(caller: Caller, plan: dict[str, Any], parallel: int = 10_000) -> tuple[str, list[str]]:
    """Create a workflow with this plan; return its id and the ids of up to a thousand tasks."""
    id = create_workflow(caller, parallel)
    caller.call("workflow_set_plan", {"id": id, "plan": plan})
    return id, list_tasks(caller, id)


def list_tasks(caller: Caller, workflow: str) -> list[str]:
    found = caller.call("workflow_get", {"id": workflow, "include_tasks": True, "task_limit": 1000})["tasks"]
    return [task["id"] for task in found]


def claim(caller: Caller, task: str, agent: str) -> Any:
    return caller.call("task_claim", {"task_id": task, "agent_id": agent})


def release(caller: Caller, task: str, agent: str) -> Any:
    return caller.call("task_release", {"task_id": task, "agent_id": agent})


def begin(caller: Caller, task: str, agent: str) -> Any:
    return caller.call("task_update_status", {"id": task, "status": "planning", "agent_id": agent})


def complete(caller: Caller, task: str, agent: str, outcome: str = "done") -> Any:
    given = {"id": task, "status": "completed", "outcome": outcome, "agent_id": agent}
    return caller.call("task_update_status", given)


def add_checkpoint(caller: Caller, task: str, agent: str, summary: str) -> Any:
    given = {"task_id": task, "type": "progress", "summary": summary, "agent_id": agent}
    return caller.call("checkpoint_add", given)


def create_heavy_task(caller: Caller, agent: str) -> tuple[str, str]:
    """Create a task after 20 finished ones, with a plan and 30 checkpoints; return its workflow and id."""
    before = [
        {"name": f"part {number}", "description": _TEXT * 3, "sequence": 1, "files_likely_affected": []}
        for number in range(HEAVY_BEFORE)
    ]
    heavy = {"name": "join the parts", "description": _TEXT * 10, "sequence": 2}
    others = [{"name": f"then {number}", "description": _TEXT, "sequence": 2} for number in range(10)]
    plan = {"summary": _TEXT * 5, "approach": _TEXT * 10, "tasks": [*before, heavy, *others]}
    workflow, tasks = create_plan(caller, plan)
    for task in tasks[:HEAVY_BEFORE]:
        claim(caller, task, agent)
        begin(caller, task, agent)
        complete(caller, task, agent, _TEXT * 4)
    task = tasks[HEAVY_BEFORE]
    claim(caller, task, agent)
    begin(caller, task, agent)
    steps = [f"{number}. {_TEXT}" for number in range(10)]
    caller.call(
        "task_set_plan", {"id": task, "plan": {"approach": _TEXT * 5, "steps": steps}, "agent_id": agent}
    )
    for number in range(HEAVY_CHECKPOINTS):
        add_checkpoint(caller, task, agent, f"{number}: {_TEXT * 2}")
    return workflow, task
