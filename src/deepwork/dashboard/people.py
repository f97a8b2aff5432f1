"""Agents and their messages: who is at what, and who has been silent since when."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from deepwork.agents.models import Agent, AgentStatus, Role
from deepwork.agents.responses import AgentView
from deepwork.agents.store import AgentStore
from deepwork.dashboard import action_shapes as acts
from deepwork.dashboard.action_shapes import Act
from deepwork.dashboard.endpoints import Endpoint, Listing, Nothing, Page, Sight, marked, place_of
from deepwork.dashboard.moments import iso, told
from deepwork.dashboard.people_store import PeopleStore
from deepwork.dashboard.runs import RunRef
from deepwork.database.engine import Row
from deepwork.messages import rules as message_rules
from deepwork.messages.models import WantedStatus
from deepwork.messages.responses import MessageView
from deepwork.messages.store import MessageStore
from deepwork.shapes import Answer

TRACKED_SHOWN = 100
TASKS_SHOWN = 500
_FILES_SHOWN = 20


class Held(Answer):
    """A task that an agent is at."""

    id: str
    name: str
    run: RunRef
    since: str | None = None
    files: list[str] | None = None


class AgentLine(AgentView):
    """An agent, what it holds, and how it did so far."""

    holds: list[Held]
    unread: int
    tasks_done: int
    tasks_failed: int
    actions: list[Act]


class TrackedAgent(Answer):
    """An agent that tracked tasks name; nothing is known of it but what they say."""

    name: str
    holds: list[Held]
    tasks: int
    tasks_failed: int
    tokens: int
    last_sign_at: str


class Agents(Listing):
    agents: list[AgentLine]
    tracked: list[TrackedAgent]


class AgentQuery(Page):
    status: AgentStatus | None = None
    role: Role | None = None
    runtime: str | None = None


class MessageQuery(Page):
    agent_id: str = Field(description="Whose messages")
    status: WantedStatus = WantedStatus.ALL
    thread_id: str | None = None


class Messages(Answer):
    messages: list[MessageView]
    cursor: str | None = None


class Inbox(Listing):
    messages: list[MessageView]


def agents(sight: Sight, query: AgentQuery) -> Agents:
    """Agents, oldest first."""
    found, total = AgentStore(sight.tx).matching(
        statuses=[query.status] if query.status else None, role=query.role,
        runtime=query.runtime and query.runtime.lower(),
        alive_since=sight.presence.alive_since(sight.tx), limit=query.limit + 1, after=query.cursor,
    )  # fmt: skip
    shown = found[: query.limit]
    return Agents(
        agents=_lines(sight, shown), total=total, tracked=_tracked(sight),
        cursor=shown[-1].id if len(found) > query.limit else None,
    )  # fmt: skip


def _lines(sight: Sight, found: list[Agent]) -> list[AgentLine]:
    store, ids = PeopleStore(sight.tx), [agent.id for agent in found]
    held: dict[str, list[Held]] = {}
    for row in store.held(ids) if ids else ():
        held.setdefault(row["who"], []).append(_held(row, "plan", row["claimed_at"], _files(row)))
    unread = store.unread(ids) if ids else {}
    ended = {(row["agent_id"], row["status"]): row["tasks"] for row in (store.finished(ids) if ids else ())}
    return [
        AgentLine(
            **dict(sight.presence.view(sight.tx, agent)), holds=held.get(agent.id, []),
            unread=unread.get(agent.id, 0), tasks_done=ended.get((agent.id, "completed"), 0),
            tasks_failed=ended.get((agent.id, "failed"), 0),
            actions=[] if agent.unregistered_at else [acts.write_to(agent.id)],
        )
        for agent in found
    ]  # fmt: skip


def _tracked(sight: Sight) -> list[TrackedAgent]:
    store = PeopleStore(sight.tx)
    rows = store.tracked(TRACKED_SHOWN)
    held: dict[str, list[Held]] = {}
    for row in store.at_work([row["agent_name"] for row in rows], TASKS_SHOWN) if rows else ():
        areas = json.loads(row["areas"])[:_FILES_SHOWN]
        held.setdefault(row["agent_name"], []).append(_held(row, "track", row["started_at"], areas))
    return [
        TrackedAgent(
            name=row["agent_name"], holds=held.get(row["agent_name"], []), tasks=row["tasks"],
            tasks_failed=int(row["failed"]), tokens=int(row["tokens"]),
            last_sign_at=told(row["last_sign_at"]),
        )
        for row in rows
    ]  # fmt: skip


def _held(row: Row, kind: Any, since: int | None, files: list[str]) -> Held:
    run = RunRef(id=row["workflow_id"], kind=kind, name=row["run_name"])
    return Held(id=row["id"], name=row["name"], run=run, since=iso(since), files=files or None)


def _files(row: Row) -> list[str]:
    """The files that a planned task is likely to change; its context is free, so anything may stand there."""
    context: Mapping[str, Any] = json.loads(row["context"])
    named = context.get("files_likely_affected")
    return [each for each in named if isinstance(each, str)][:_FILES_SHOWN] if isinstance(named, list) else []


def agent(sight: Sight, _: Nothing) -> AgentLine:
    """One agent."""
    [line] = _lines(sight, [AgentStore(sight.tx).get(sight.id)])
    return line


def inbox(sight: Sight, query: Page) -> Inbox:
    """Messages to an agent, newest first."""
    AgentStore(sight.tx).get(sight.id)
    received = PeopleStore(sight.tx).received(sight.id)
    [upto] = place_of(query.cursor, int) if query.cursor else [received]
    # Places in an inbox have no gaps, so the page is known by its ends; what has expired leaves it shorter.
    start = max(0, upto - query.limit)
    found = MessageStore(sight.tx).matching(sight.id, {"since_position": start}, query.limit)
    return Inbox(
        messages=[MessageView.listed(each) for each in reversed(found) if each.position <= upto],
        total=received, cursor=marked([start]) if start else None,
    )  # fmt: skip


def messages(sight: Sight, query: MessageQuery) -> Messages:
    """Messages of an agent, oldest first."""
    AgentStore(sight.tx).get(query.agent_id)
    store = MessageStore(sight.tx)
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
    return Messages(
        messages=[MessageView.listed(message) for message in found],
        cursor=found[-1].id if len(found) == query.limit else None,
    )


def message(sight: Sight, _: Nothing) -> MessageView:
    """One message in full; it stays unread."""
    return MessageView.of(MessageStore(sight.tx).get(sight.id))


ENDPOINTS = (
    Endpoint("/api/v1/agents", "Agents, oldest first.", AgentQuery, Agents, agents),
    Endpoint("/api/v1/agents/{id}", "One agent.", Nothing, AgentLine, agent),
    Endpoint("/api/v1/agents/{id}/messages", "Messages to an agent, newest first.", Page, Inbox, inbox),
    Endpoint("/api/v1/messages", "Messages of an agent, oldest first.", MessageQuery, Messages, messages),
    Endpoint("/api/v1/messages/{id}", "One message in full; it stays unread.", Nothing, MessageView, message),
)
