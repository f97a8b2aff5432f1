"""REST endpoints for agents and their messages."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from deepwork.kernel.database.engine import Row
from deepwork.kernel.offered_actions import Act
from deepwork.kernel.timestamps import format_optional_timestamp, format_timestamp
from deepwork.views.dashboard import offered_actions
from deepwork.views.dashboard.endpoints import (
    Endpoint,
    NoParameters,
    PagedAnswer,
    PageQuery,
    ReadContext,
    RestAnswer,
    decode_cursor,
    encode_cursor,
)
from deepwork.views.dashboard.runs import RunRef
from deepwork.work.agents.models import Agent, AgentStatus, Role, normalize_runtime
from deepwork.work.agents.responses import AgentView
from deepwork.work.agents.store import AgentStore
from deepwork.work.messages.models import MessageStatusFilter, resolve_statuses
from deepwork.work.messages.responses import MessageView
from deepwork.work.messages.store import MessageStore
from deepwork.work.plans.models import parse_likely_files
from deepwork.work.plans.stores.claim_store import ClaimStore
from deepwork.work.tracking.store import TrackStore

MAX_TRACKED_AGENTS = 100
MAX_TASKS = 500
_MAX_FILES = 20


class Held(RestAnswer):
    """A task that an agent is working on."""

    id: str
    name: str
    run: RunRef
    since: str | None = None
    files: list[str] | None = None


class AgentLine(AgentView):
    """An agent with the tasks it holds, its results and its unread messages."""

    holds: list[Held]
    unread: int
    tasks_done: int
    tasks_failed: int
    actions: list[Act]


class TrackedAgent(RestAnswer):
    """An agent known only from the tracked tasks that name it."""

    name: str
    holds: list[Held]
    tasks: int
    tasks_failed: int
    tokens: int
    last_sign_at: str


class Agents(PagedAnswer):
    agents: list[AgentLine]
    tracked: list[TrackedAgent]


class AgentQuery(PageQuery):
    status: AgentStatus | None = None
    role: Role | None = None
    runtime: str | None = None


class MessageQuery(PageQuery):
    agent_id: str = Field(description="The recipient")
    status: MessageStatusFilter = MessageStatusFilter.ALL
    thread_id: str | None = None


class Messages(RestAnswer):
    messages: list[MessageView]
    cursor: str | None = None


class Inbox(PagedAnswer):
    messages: list[MessageView]


def read_agents(context: ReadContext, query: AgentQuery) -> Agents:
    """Read agents, oldest first, and the agents that tracked tasks name."""
    found, total = AgentStore(context.tx).list_matching(
        statuses=[query.status] if query.status else None,
        role=query.role,
        runtime=query.runtime and normalize_runtime(query.runtime),
        alive_since=context.presence.get_alive_since(context.tx),
        limit=query.limit + 1,
        after=query.cursor,
    )
    page = found[: query.limit]
    return Agents(
        agents=_build_agent_lines(context, page),
        total=total,
        tracked=_list_tracked_agents(context),
        cursor=page[-1].id if len(found) > query.limit else None,
    )


def _build_agent_lines(context: ReadContext, found: list[Agent]) -> list[AgentLine]:
    claims, ids = ClaimStore(context.tx), [agent.id for agent in found]
    held: dict[str, list[Held]] = {}
    for row in claims.list_held_tasks(ids) if ids else ():
        held.setdefault(row["who"], []).append(
            _build_held_task(
                row,
                "plan",
                row["claimed_at"],
                list(parse_likely_files(json.loads(row["context"]))[:_MAX_FILES]),
            )
        )
    unread = MessageStore(context.tx).count_unread_by_agent(ids) if ids else {}
    ended = {
        (row["agent_id"], row["status"]): row["tasks"]
        for row in (claims.count_finished_tasks(ids) if ids else ())
    }
    return [
        AgentLine(
            **vars(context.presence.build_view(context.tx, agent)),
            holds=held.get(agent.id, []),
            unread=unread.get(agent.id, 0),
            tasks_done=ended.get((agent.id, "completed"), 0),
            tasks_failed=ended.get((agent.id, "failed"), 0),
            actions=[] if agent.unregistered_at else [offered_actions.offer_message(agent.id, agent.name)],
        )
        for agent in found
    ]


def _list_tracked_agents(context: ReadContext) -> list[TrackedAgent]:
    store = TrackStore(context.tx)
    rows = store.list_tracked_agents(MAX_TRACKED_AGENTS)
    held: dict[str, list[Held]] = {}
    for row in store.list_running_tasks_of([row["agent_name"] for row in rows], MAX_TASKS) if rows else ():
        areas = json.loads(row["areas"])[:_MAX_FILES]
        held.setdefault(row["agent_name"], []).append(
            _build_held_task(row, "track", row["started_at"], areas)
        )
    return [
        TrackedAgent(
            name=row["agent_name"],
            holds=held.get(row["agent_name"], []),
            tasks=row["tasks"],
            tasks_failed=int(row["failed"]),
            tokens=int(row["tokens"]),
            last_sign_at=format_timestamp(row["last_sign_at"]),
        )
        for row in rows
    ]


def _build_held_task(row: Row, kind: Any, since: int | None, files: list[str]) -> Held:
    run = RunRef(id=row["workflow_id"], kind=kind, name=row["run_name"])
    return Held(
        id=row["id"], name=row["name"], run=run, since=format_optional_timestamp(since), files=files or None
    )


def read_agent(context: ReadContext, _: NoParameters) -> AgentLine:
    """Read one agent."""
    [line] = _build_agent_lines(context, [AgentStore(context.tx).get(context.id)])
    return line


def read_inbox(context: ReadContext, query: PageQuery) -> Inbox:
    """Read the messages to an agent, newest first."""
    AgentStore(context.tx).get(context.id)
    received = MessageStore(context.tx).count_received(context.id)
    [upto] = decode_cursor(query.cursor, int) if query.cursor else [received]
    # Positions in an inbox have no gaps, so two positions delimit a page; expired messages make it shorter.
    start = max(0, upto - query.limit)
    found = MessageStore(context.tx).list_matching(context.id, {"since_position": start}, query.limit)
    return Inbox(
        messages=[
            MessageView.excerpt_from_message(each) for each in reversed(found) if each.position <= upto
        ],
        total=received,
        cursor=encode_cursor([start]) if start else None,
    )


def read_messages(context: ReadContext, query: MessageQuery) -> Messages:
    """Read the messages to an agent, or of one thread, oldest first."""
    AgentStore(context.tx).get(query.agent_id)
    store = MessageStore(context.tx)
    found = store.list_matching(
        query.agent_id,
        {
            "statuses": resolve_statuses(query.status, in_thread=False),
            "thread_id": query.thread_id,
            **(
                store.build_cursor_filter(query.agent_id, query.cursor, query.thread_id)
                if query.cursor
                else {"since_at": 0, "since_id": ""}
                if query.thread_id
                else {"since_position": 0}
            ),
        },
        query.limit,
    )
    return Messages(
        messages=[MessageView.excerpt_from_message(message) for message in found],
        cursor=found[-1].id if len(found) == query.limit else None,
    )


def read_message(context: ReadContext, _: NoParameters) -> MessageView:
    """Read one message in full without marking it as read."""
    return MessageView.from_message(MessageStore(context.tx).get(context.id))


ENDPOINTS = (
    Endpoint("/api/v1/agents", "Agents, oldest first.", AgentQuery, Agents, read_agents),
    Endpoint("/api/v1/agents/{id}", "One agent.", NoParameters, AgentLine, read_agent),
    Endpoint(
        "/api/v1/agents/{id}/messages", "Messages to an agent, newest first.", PageQuery, Inbox, read_inbox
    ),
    Endpoint(
        "/api/v1/messages", "Messages to an agent, oldest first.", MessageQuery, Messages, read_messages
    ),
    Endpoint(
        "/api/v1/messages/{id}",
        "One message in full, without marking it as read.",
        NoParameters,
        MessageView,
        read_message,
    ),
)
