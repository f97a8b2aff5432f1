"""What an agent is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deepwork.names import Word


class AgentStatus(Word):
    ONLINE = "online"
    OFFLINE = "offline"
    BUSY = "busy"


class LivingStatus(Word):
    """What an agent may say of itself while it is alive."""

    ONLINE = "online"
    BUSY = "busy"


class Role(Word):
    COORDINATOR = "coordinator"
    WORKER = "worker"


class Runtime(Word):
    CLAUDE_CODE = "claude_code"
    CODEX = "codex"
    OPENCODE = "opencode"
    CUSTOM = "custom"


class AgentEvent(Word):
    """What this slice tells."""

    REGISTERED = "agent:registered"
    UPDATED = "agent:updated"
    UNREGISTERED = "agent:unregistered"


@dataclass(frozen=True)
class Agent:
    """A registered worker, as it was at some moment; times are Unix milliseconds."""

    id: str
    name: str
    runtime: Runtime
    role: Role
    said: AgentStatus
    """Its own last word; `rules.status` tells what it is."""
    capabilities: tuple[str, ...]
    current_task_id: str | None
    workspace_path: str | None
    metadata: Mapping[str, Any]
    registered_by: str
    last_heartbeat: int
    silent_since: int | None
    unregistered_at: int | None
    created_at: int
    updated_at: int


@dataclass(frozen=True)
class Lease:
    """The right of one agent to something, until a moment; `epoch` grows with every new holder."""

    what: str
    who: str | None
    epoch: int
    until: int
