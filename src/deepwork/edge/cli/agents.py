"""`deepwork agents` and `deepwork messages`: registered agents and the messages between them."""

from __future__ import annotations

from deepwork.edge.cli.framework.tool_commands import ToolGroup

agents = ToolGroup(
    "agents",
    ["deepwork.work.agents.tools:AgentTools"],
    "agent_",
    "Registered agents, and whether they are online.",
)
messages = ToolGroup(
    "messages", ["deepwork.work.messages.tools:MessageTools"], "message_", "Messages between agents."
)
