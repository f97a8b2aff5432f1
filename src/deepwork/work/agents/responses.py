"""Response models of the agent tools."""

from __future__ import annotations

from typing import Any, Self

from deepwork.kernel.answers import Answer
from deepwork.kernel.notices.responses import NoticeView
from deepwork.work.agents.models import Agent, AgentStatus, Role, Runtime, get_status


class AgentView(Answer):
    """An agent as tools and events show it."""

    id: str
    name: str
    runtime: Runtime
    role: Role
    status: AgentStatus
    capabilities: list[str]
    current_task_id: str | None = None
    workspace_path: str | None = None
    metadata: dict[str, Any]
    last_heartbeat: int
    created_at: int
    updated_at: int

    @classmethod
    def from_agent(cls, agent: Agent, now: int, lease_ms: int) -> Self:
        return cls.of(
            agent,
            status=get_status(agent, now, lease_ms),
            capabilities=list(agent.capabilities),
            metadata=dict(agent.metadata),
        )


_PAYLOAD_FIELDS = tuple(AgentView.model_fields)


def build_agent_payload(agent: Agent, now: int, lease_ms: int) -> dict[str, Any]:
    """Build the payload of an event: what `AgentView` shows, several times as fast."""
    fields = vars(agent) | {"status": get_status(agent, now, lease_ms)}
    return {name: value for name in _PAYLOAD_FIELDS if (value := fields[name]) is not None}


class AgentRegistered(Answer):
    id: str
    name: str
    status: AgentStatus


class Heartbeat(Answer):
    success: bool = True
    next_heartbeat_ms: int
    lost_claims: list[str] | None = None
    notices: list[NoticeView] | None = None


class AgentList(Answer):
    agents: list[AgentView]
    total: int


class Unregistered(Answer):
    success: bool = True
    tasks_released: int
