"""Domain models of agents and leases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deepwork.kernel.names import CaseInsensitiveEnum
from deepwork.kernel.vendors import VENDORS


class AgentStatus(CaseInsensitiveEnum):
    ONLINE = "online"
    OFFLINE = "offline"
    BUSY = "busy"


class LivingStatus(CaseInsensitiveEnum):
    """Statuses that an agent may report about itself while it is alive."""

    ONLINE = "online"
    BUSY = "busy"


class Role(CaseInsensitiveEnum):
    COORDINATOR = "coordinator"
    WORKER = "worker"


class Runtime(CaseInsensitiveEnum):
    """The client that an agent runs in: those that `deepwork setup` configures, and any other."""

    _ignore_ = "each"
    for each in VENDORS:
        vars()[each.runtime.upper()] = each.runtime
    CUSTOM = "custom"

    @classmethod
    def _missing_(cls, value: object) -> CaseInsensitiveEnum | None:
        """Accept the spelling of `setup` too: `claude-code`."""
        return super()._missing_(normalize_runtime(value) if isinstance(value, str) else value)


def normalize_runtime(name: str) -> str:
    """Return the name of a runtime as it is stored."""
    return name.strip().lower().replace("-", "_")


class AgentEvent(CaseInsensitiveEnum):
    """Events about agents; the payload is the agent as `AgentView` shows it."""

    REGISTERED = "agent:registered"
    UPDATED = "agent:updated"
    UNREGISTERED = "agent:unregistered"


@dataclass(frozen=True)
class Agent:
    """A registered worker; times are Unix milliseconds."""

    id: str
    name: str
    runtime: Runtime
    role: Role
    said: AgentStatus
    """The status it last reported; `rules.get_status` derives the actual one."""
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


TAKEN_AWAY = -1
"""The `until` of a lease that was released, or ended by someone else: its holder may still be at work.
After an expiry, or a result that the holder reported itself, it is 0: then the holder may come back."""


@dataclass(frozen=True)
class Lease:
    """The right of agent `who` to task `what` until a point in time; `epoch` grows with every new holder."""

    what: str
    who: str | None
    epoch: int
    until: int

    @property
    def was_taken_away(self) -> bool:
        """Whether the last claim was released, or ended by someone else than its holder."""
        return self.who is None and self.until == TAKEN_AWAY
