"""What people read about agents: the tasks that they hold, their results and unread messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from deepwork.kernel.answers import Act, Answer, Asked, Id
from deepwork.kernel.call import current_call
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.paging import Cursor, Page, PageLimit
from deepwork.kernel.values import format_optional_timestamp, format_timestamp
from deepwork.work.agents.models import Agent, AgentStatus, Role, normalize_runtime
from deepwork.work.agents.presence import AgentView, Presence
from deepwork.work.agents.store import AgentStore
from deepwork.work.messages.store import MessageStore
from deepwork.work.plans.models import parse_likely_files
from deepwork.work.plans.stores.claim_store import ClaimStore
from deepwork.work.tracking.list_responses import RunRef
from deepwork.work.tracking.store import TrackStore

MAX_TRACKED_AGENTS = 100
MAX_TASKS = 500
_MAX_FILES = 20


class Held(Answer):
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


class TrackedAgent(Answer):
    """An agent known only from the tracked tasks that name it."""

    name: str
    holds: list[Held]
    tasks: int
    tasks_failed: int
    tokens: int
    last_sign_at: str


class Agents(Page):
    agents: list[AgentLine]
    tracked: list[TrackedAgent]


class OwnAgent(Answer):
    id: str | None = None


class AgentOperations:
    """Reads agents with what they do in plans and tracks."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(self, database: Database, presence: Presence) -> None:
        self._database, self._presence = database, presence

    @operation("read")
    def list_agents(
        self,
        status: AgentStatus | None = None,
        role: Role | None = None,
        runtime: str | None = None,
        limit: PageLimit = 50,
        cursor: Cursor = None,
    ) -> Agents:
        """Agents, oldest first."""
        with self._database.reading() as tx:
            found, total = AgentStore(tx).list_matching(
                statuses=[status] if status else None,
                role=role,
                runtime=runtime and normalize_runtime(runtime),
                alive_since=self._presence.get_alive_since(tx),
                limit=limit + 1,
                after=cursor,
            )
            page = found[:limit]
            return Agents(
                agents=_build_agent_lines(tx, self._presence, page),
                total=total,
                tracked=_list_tracked_agents(tx),
                cursor=page[-1].id if len(found) > limit else None,
            )

    @operation("read")
    def get_agent(self, id: Id) -> AgentLine:
        """One agent."""
        with self._database.reading() as tx:
            [line] = _build_agent_lines(tx, self._presence, [AgentStore(tx).get(id)])
            return line

    @operation("read")
    def find_own_agent(self) -> OwnAgent:
        """The agent that represents the person who calls; it is registered with their first message."""
        with self._database.reading() as tx:
            return OwnAgent(id=AgentStore(tx).find_registered_by(current_call().caller))


def _build_agent_lines(tx: Transaction, presence: Presence, found: Sequence[Agent]) -> list[AgentLine]:
    claims, ids = ClaimStore(tx), [agent.id for agent in found]
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
    unread = MessageStore(tx).count_unread_by_agent(ids) if ids else {}
    ended = {
        (row["agent_id"], row["status"]): row["tasks"]
        for row in (claims.count_finished_tasks(ids) if ids else ())
    }
    return [
        AgentLine(
            **vars(presence.build_view(tx, agent)),
            holds=held.get(agent.id, []),
            unread=unread.get(agent.id, 0),
            tasks_done=ended.get((agent.id, "completed"), 0),
            tasks_failed=ended.get((agent.id, "failed"), 0),
            actions=[] if agent.unregistered_at else [_offer_message(agent.id, agent.name)],
        )
        for agent in found
    ]


def _list_tracked_agents(tx: Transaction) -> list[TrackedAgent]:
    store = TrackStore(tx)
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


def _offer_message(agent_id: str, agent_name: str) -> Act:
    return Act(
        label="Send message",
        tool="message_send",
        arguments={"recipient_id": agent_id, "message_type": "notification"},
        asks=[Asked(name="body", label="Message")],
        title=f"Message to {agent_name} ({agent_id})",
    )


def build_registration(caller: str) -> dict[str, Any]:
    """Build the arguments that register the agent of a person, whose caller is `human:<name>`."""
    name = caller.partition(":")[2]
    return {"name": name, "runtime": "custom", "role": "coordinator", "metadata": {"human": True}}


def build_verdict(verdict: str, caller: str) -> dict[str, str]:
    """Build the metadata of the milestone by which a person approves, refuses or acknowledges a task."""
    return {"verdict": verdict, "by": caller}
