"""Rules for when an agent counts as alive."""

from __future__ import annotations

from deepwork.kernel.call import is_person
from deepwork.kernel.errors import NotAllowed
from deepwork.work.agents.lease_conditions import CLOCK_TOLERANCE_MS
from deepwork.work.agents.models import Agent, AgentStatus

HEARTBEATS_PER_LEASE = 3


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
