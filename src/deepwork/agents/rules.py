"""When an agent counts as alive."""

from __future__ import annotations

from deepwork.agents.models import Agent, AgentStatus
from deepwork.errors import NotAllowed

HEARTBEATS_PER_LEASE = 3


def heartbeat_interval(lease_ms: int) -> int:
    """How often an agent should call: two heartbeats may be lost before its claims are."""
    return lease_ms // HEARTBEATS_PER_LEASE


def status(agent: Agent, now: int, lease_ms: int) -> AgentStatus:
    """What the agent is: its own word, unless it left or gave no sign of life for a whole lease."""
    if agent.unregistered_at is not None or now - agent.last_heartbeat > lease_ms:
        return AgentStatus.OFFLINE
    return agent.said


def revived(agent: Agent) -> AgentStatus:
    """What a heartbeat makes of an agent's word: whoever calls is not offline."""
    return AgentStatus.ONLINE if agent.said is AgentStatus.OFFLINE else agent.said


def wants_renewal(agent: Agent, now: int, lease_ms: int) -> bool:
    """Whether a mere read is worth a write: only once a third of the lease has run."""
    return agent.unregistered_at is None and now - agent.last_heartbeat > heartbeat_interval(lease_ms)


def is_news(before: Agent, after: Agent, now: int, lease_ms: int) -> bool:
    """Whether others should hear of a change: of what an agent is, not of every sign of life."""
    if status(before, now, lease_ms) != status(after, now, lease_ms):
        return True
    return _described(before) != _described(after)


def require_registered(agent: Agent) -> None:
    """Refuse to go on in the name of an agent that left."""
    if agent.unregistered_at is not None:
        raise NotAllowed(
            f"Agent {agent.id!r} has unregistered.",
            suggestion="Register again with agent_register and use the new id.",
        )


def _described(agent: Agent) -> tuple[object, ...]:
    return agent.said, agent.current_task_id, agent.workspace_path, agent.metadata
