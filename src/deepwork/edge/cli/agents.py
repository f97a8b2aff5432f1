"""`deepwork agents` and `deepwork messages`: registered agents and the messages between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepwork.edge.cli.framework.tool_commands import CommandOverrides, ToolGroup


def _word_list(answer: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Word a list of agents: those that are gone only if somebody asks for them."""
    rows = [{key: agent[key] for key in _LISTED if key in agent} for agent in answer["agents"]]
    living = [row for row in rows if row["status"] != "offline"]
    if given.get("status") or living == rows:
        return {**answer, "agents": rows}
    gone = f"{len(rows) - len(living)} more; deepwork agents list --status offline"
    return {"agents": living, "offline": gone, **{key: answer[key] for key in answer if key != "agents"}}


_LISTED = ("name", "status", "runtime", "role", "current_task_id", "last_heartbeat", "id")


agents = ToolGroup(
    "agents",
    ["deepwork.work.agents.tools:AgentTools"],
    "agent_",
    "Registered agents, and whether they are online.",
    {"list": CommandOverrides(reword=_word_list)},
)
messages = ToolGroup(
    "messages", ["deepwork.work.messages.tools:MessageTools"], "message_", "Messages between agents."
)
