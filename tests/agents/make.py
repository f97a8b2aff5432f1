"""Agents for tests, with defaults for what a test leaves out."""

from __future__ import annotations

from typing import Any

from application import NOW, call_tool
from deepwork.edge.server.application import Application
from deepwork.work.agents.models import Agent, AgentStatus, Role, Runtime


def build_agent(**given: Any) -> Agent:
    """Make an agent that is not stored."""
    ordinary: dict[str, Any] = {
        "id": "ag_1",
        "name": "worker",
        "runtime": Runtime.CUSTOM,
        "role": Role.WORKER,
        "said": AgentStatus.ONLINE,
        "capabilities": (),
        "current_task_id": None,
        "workspace_path": None,
        "metadata": {},
        "registered_by": "local",
        "last_heartbeat": NOW,
        "silent_since": None,
        "unregistered_at": None,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Agent(**(ordinary | given))


def register_agent(app: Application, name: str = "worker", **given: Any) -> str:
    """Register an agent and return its id."""
    id: str = call_tool(app, "agent_register", name=name, **({"runtime": "custom"} | given))["id"]
    return id
