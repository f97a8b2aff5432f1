"""`deepwork agents` and `deepwork messages`: registered agents and the messages between them."""

from __future__ import annotations

from deepwork.agents.tools import AgentTools
from deepwork.cli.framework.tool_commands import ToolGroup
from deepwork.messages.tools import MessageTools

agents = ToolGroup(
    "agents", lambda: [AgentTools], "agent_", "Registered agents, and whether they are online."
)
messages = ToolGroup("messages", lambda: [MessageTools], "message_", "Messages between agents.")
