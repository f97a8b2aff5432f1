"""Agents for tests: say what matters, the rest is ordinary."""

from __future__ import annotations

from typing import Any

from application import NOW, ask
from deepwork.agents.models import Agent, AgentStatus, Role, Runtime
from deepwork.server.application import Application


def agent(**given: Any) -> Agent:
    """An agent as a value."""
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


def registered(app: Application, name: str = "worker", **given: Any) -> str:
    """The id of an agent that has just registered."""
    id: str = ask(app, "agent_register", name=name, **({"runtime": "custom"} | given))["id"]
    return id
