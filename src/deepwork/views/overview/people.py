"""The agent that represents a person, because every message has an agent as its sender."""

from __future__ import annotations

from typing import Any

from deepwork.kernel.database.transaction import Database
from deepwork.work.agents.store import AgentStore


def find_agent_of(database: Database, caller: str) -> str | None:
    """Find the agent that represents a person; it is registered with the first message."""
    with database.reading() as tx:
        return AgentStore(tx).find_registered_by(caller)


def build_registration(caller: str) -> dict[str, Any]:
    """Build the arguments that register the agent of a person, whose caller is `human:<name>`."""
    name = caller.partition(":")[2]
    return {"name": name, "runtime": "custom", "role": "coordinator", "metadata": {"human": True}}


def build_verdict(verdict: str, caller: str) -> dict[str, str]:
    """Build the metadata of the milestone by which a person approves, refuses or acknowledges a task."""
    return {"verdict": verdict, "by": caller}
