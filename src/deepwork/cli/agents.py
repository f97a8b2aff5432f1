"""`deepwork agents` and `deepwork messages`: who works, and what they tell each other."""

from __future__ import annotations

from deepwork.agents.tools import AgentTools
from deepwork.cli.verbs import Verbs
from deepwork.messages.tools import MessageTools

agents = Verbs("agents", lambda: [AgentTools], "agent_", "Agents: who works, and whether they live.")
messages = Verbs("messages", lambda: [MessageTools], "message_", "Messages between agents.")
