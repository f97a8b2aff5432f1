"""What the REST interface can be asked: the same shapes as the tools give, page by page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from deepwork.agents.models import AgentStatus, Role
from deepwork.agents.presence import Presence
from deepwork.agents.responses import AgentView
from deepwork.agents.store import AgentStore
from deepwork.database.transaction import Transaction
from deepwork.messages import rules as message_rules
from deepwork.messages.models import WantedStatus
from deepwork.messages.responses import MessageView
from deepwork.messages.store import MessageStore
from deepwork.shapes import Answer


class Page(BaseModel):
    """Which part of a list: so many after the cursor that the page before ended with."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=50, ge=1, le=500)
    cursor: str | None = Field(default=None, description="`next_cursor` of the page before")


class AgentQuery(Page):
    status: AgentStatus | None = None
    role: Role | None = None
    runtime: str | None = None


class MessageQuery(Page):
    agent_id: str = Field(description="Whose messages")
    status: WantedStatus = WantedStatus.ALL
    thread_id: str | None = None


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AgentPage(Answer):
    agents: list[AgentView]
    total: int
    next_cursor: str | None = None


class MessagePage(Answer):
    messages: list[MessageView]
    next_cursor: str | None = None


@dataclass(frozen=True)
class Endpoint:
    """One address that can be read, with what it takes and what it gives."""

    path: str
    summary: str
    query: type[BaseModel]
    answer: type[Answer]
    read: Callable[[Transaction, Presence, dict[str, str], Any], Answer]


def agents(tx: Transaction, presence: Presence, _: dict[str, str], query: AgentQuery) -> AgentPage:
    found, total = AgentStore(tx).matching(
        statuses=[query.status] if query.status else None, role=query.role,
        runtime=query.runtime and query.runtime.lower(),
        alive_since=presence.alive_since(tx), limit=query.limit, after=query.cursor,
    )  # fmt: skip
    return AgentPage(
        agents=[presence.view(tx, agent) for agent in found],
        total=total,
        next_cursor=found[-1].id if len(found) == query.limit else None,
    )


def agent(tx: Transaction, presence: Presence, path: dict[str, str], _: Nothing) -> AgentView:
    return presence.view(tx, AgentStore(tx).get(path["id"]))


def messages(tx: Transaction, _: Presence, __: dict[str, str], query: MessageQuery) -> MessagePage:
    AgentStore(tx).get(query.agent_id)
    store = MessageStore(tx)
    found = store.matching(
        query.agent_id,
        {
            "statuses": message_rules.wanted_statuses(query.status, in_thread=False),
            "thread_id": query.thread_id,
            **(
                store.cursor(query.agent_id, query.cursor, query.thread_id)
                if query.cursor
                else {"since_at": 0, "since_id": ""}
                if query.thread_id
                else {"since_position": 0}
            ),
        },
        query.limit,
    )
    return MessagePage(
        messages=[MessageView.listed(message) for message in found],
        next_cursor=found[-1].id if len(found) == query.limit else None,
    )


def message(tx: Transaction, _: Presence, path: dict[str, str], __: Nothing) -> MessageView:
    return MessageView.of(MessageStore(tx).get(path["id"]))


ENDPOINTS = (
    Endpoint("/api/v1/agents", "Agents, oldest first.", AgentQuery, AgentPage, agents),
    Endpoint("/api/v1/agents/{id}", "One agent.", Nothing, AgentView, agent),
    Endpoint("/api/v1/messages", "Messages of an agent, oldest first.", MessageQuery, MessagePage, messages),
    Endpoint("/api/v1/messages/{id}", "One message in full; it stays unread.", Nothing, MessageView, message),
)
