"""Domain models of agents and leases, and when an agent counts as alive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepwork.kernel.call import is_person
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum
from deepwork.kernel.vendors import VENDORS
from deepwork.work.agents.lease_conditions import CLOCK_TOLERANCE_MS

HEARTBEATS_PER_LEASE = 3


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


def get_heartbeat_interval(lease_ms: int) -> int:
    """Return how often an agent should call: two heartbeats may be missed before its claims are lost."""
    return lease_ms // HEARTBEATS_PER_LEASE


def get_status(agent: Agent, now: int, lease_ms: int) -> AgentStatus:
    """Return the reported status, or offline if it unregistered or was silent for a whole lease."""
    silence = now - agent.last_heartbeat
    if agent.unregistered_at is not None or not -CLOCK_TOLERANCE_MS <= silence <= lease_ms:
        return AgentStatus.OFFLINE
    return agent.said


def get_status_after_heartbeat(agent: Agent) -> AgentStatus:
    """Return the status after a heartbeat: an agent that calls is not offline."""
    return AgentStatus.ONLINE if agent.said is AgentStatus.OFFLINE else agent.said


def needs_renewal(agent: Agent, now: int, lease_ms: int) -> bool:
    """Return whether a read should renew the lease: after a third of it, or if the clock was set back."""
    is_recent = 0 <= now - agent.last_heartbeat <= get_heartbeat_interval(lease_ms)
    return agent.unregistered_at is None and not is_recent


def has_visible_change(before: Agent, after: Agent, now: int, lease_ms: int) -> bool:
    """Return whether a change is worth an event: more than a sign of life alone."""
    if get_status(before, now, lease_ms) != get_status(after, now, lease_ms):
        return True
    return _get_visible_fields(before) != _get_visible_fields(after)


def require_registered(agent: Agent) -> None:
    """Raise NotAllowed if the agent has unregistered."""
    if agent.unregistered_at is not None:
        raise NotAllowed(
            f"Agent {agent.id!r} has unregistered.",
            suggestion="Register again with {tool:agent_register} and use the new id.",
        )


def is_of_another_person(agent: Agent, caller: str) -> bool:
    """Return whether the agent stands for a person, as whom this caller, an agent, cannot act."""
    return is_person(agent.registered_by) and not is_person(caller)


def require_own_kind(agent: Agent, caller: str) -> None:
    """Raise NotAllowed if an agent acts as the agent that stands for a person."""
    if is_of_another_person(agent, caller):
        raise NotAllowed(
            f"Agent {agent.id!r} stands for a person; only people act as it.",
            suggestion="Use the id of your own agent; see {tool:agent_register}.",
        )


def _get_visible_fields(agent: Agent) -> tuple[object, ...]:
    return agent.said, agent.current_task_id, agent.workspace_path, agent.metadata
