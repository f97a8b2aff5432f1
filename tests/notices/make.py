"""Helpers: what people do, and the notices that agents get."""

from __future__ import annotations

from typing import Any

from application import call_tool
from deepwork.edge.server.application import Application

ANNA = "human:anna"


def act(app: Application, tool: str, **arguments: Any) -> Any:
    """Call a tool as a person does on the dashboard."""
    return call_tool(app, tool, caller=ANNA, **arguments)


def register_agent(app: Application, name: str = "Ada", caller: str = "local") -> str:
    id: str = call_tool(app, "agent_register", caller=caller, name=name, runtime="custom")["id"]
    return id


def write_message(app: Application, agent: str, body: str = "Use the staging server.", **given: Any) -> str:
    """Write to an agent as a person, who has an agent as sender; return the id of the message."""
    sender = register_agent(app, "anna", ANNA)
    arguments = {"sender_id": sender, "recipient_id": agent, "message_type": "notification", "body": body}
    id: str = act(app, "message_send", **arguments, **given)["id"]
    return id


def create_plan(app: Application, *names: str) -> tuple[str, dict[str, str]]:
    """Create a plan whose tasks wait for nothing; return its id and the ids of its tasks by name."""
    given: dict[str, Any] = {
        "name": "Login",
        "source_type": "prompt",
        "source_content": "Log in.",
        "max_parallel_tasks": 9,
    }
    id = call_tool(app, "workflow_create", **given)["id"]
    tasks = [{"name": name, "depends_on": []} for name in names]
    call_tool(app, "workflow_set_plan", id=id, plan={"summary": "s", "tasks": tasks})
    listed = call_tool(app, "workflow_get", id=id, include_tasks=True)["tasks"]
    return id, {task["name"]: task["id"] for task in listed}


def claim(app: Application, task: str, agent: str) -> None:
    assert call_tool(app, "task_claim", task_id=task, agent_id=agent)["success"]


def beat(app: Application, agent: str) -> list[dict[str, Any]]:
    """Send a heartbeat and return the notices in its answer."""
    found: list[dict[str, Any]] = call_tool(app, "agent_heartbeat", agent_id=agent).get("notices", [])
    return found


def list_types(notices: list[dict[str, Any]]) -> list[str]:
    return [notice["type"] for notice in notices]
