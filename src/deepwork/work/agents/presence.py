"""Signs of life of agents, and what is answered about them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, Self

from deepwork.kernel.answers import Answer
from deepwork.kernel.call import ANONYMOUS, LOCAL, current_call, is_own_agent, is_person
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import StorageError
from deepwork.kernel.notices.responses import NoticeView
from deepwork.kernel.reserved_names import is_reserved
from deepwork.kernel.values import copy_with
from deepwork.work.agents.models import (
    Agent,
    AgentEvent,
    AgentStatus,
    Role,
    Runtime,
    get_status,
    get_status_after_heartbeat,
    has_visible_change,
    is_of_another_person,
    needs_renewal,
    require_own_kind,
    require_registered,
)
from deepwork.work.agents.store import AgentStore, LeaseStore


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


log = logging.getLogger("deepwork")


class TaskDirectory(Protocol):
    """Checks references to tasks and workflows; implemented by `plans`."""

    def require_task(self, tx: Transaction, id: str) -> None:
        """Raise NotFound if there is no such task."""

    def require_workflow(self, tx: Transaction, id: str) -> None:
        """Raise NotFound if there is no such workflow."""

    def release_tasks(self, tx: Transaction, agent_id: str, held: Sequence[str]) -> None:
        """Return the tasks that an unregistering agent held to the queue."""


class Presence:
    """Tracks which agents are alive, for every package whose tools act in an agent's name."""

    def __init__(
        self, database: Database, lease_seconds: int, *, is_read_only: bool = False, agent_id: str = ""
    ) -> None:
        """`agent_id`: the agent of this process, registered by the process that started it."""
        self._database = database
        self._is_read_only = is_read_only
        self.lease_ms = lease_seconds * 1000
        self._oldest_heartbeat = 0
        """No living agent has an older heartbeat, so none can fall silent until a lease after it."""
        self._registered_here: set[str] = {agent_id} if agent_id else set()
        """The agents that this process registered for its own client; a restart forgets them."""

    def record_sign_of_life(self, tx: Transaction, agent: Agent, **changes: Any) -> Agent:
        """Record a write in the agent's name: renew its leases, apply `changes`, and return the agent."""
        require_own_kind(agent, tx.caller)
        self.renew_leases(tx, agent)
        return self.save_alive(tx, agent, **changes)

    def record_heartbeat(
        self,
        tx: Transaction,
        agent: Agent,
        *,
        status: AgentStatus | None = None,
        current_task_id: str | None = None,
    ) -> list[str]:
        """Record that the agent is alive; return the claims that it lost, each once."""
        lost = self._save_heartbeat(tx, agent, status, current_task_id)
        self._notice_silence(tx)
        return lost

    def record_heartbeats(self, agent_ids: Iterable[str]) -> dict[str, list[str]]:
        """Record in one transaction that these agents are alive; return what each of them lost.

        Agents that are not registered any more are left out.
        """
        with self._database.transaction() as tx:
            agents = AgentStore(tx).list_registered_for_update(agent_ids)
            lost = {agent.id: self._save_heartbeat(tx, agent) for agent in agents}
            self._notice_silence(tx)  # after all of them: else those that come later would count as silent
            return lost

    def _save_heartbeat(
        self,
        tx: Transaction,
        agent: Agent,
        status: AgentStatus | None = None,
        current_task_id: str | None = None,
    ) -> list[str]:
        require_own_kind(agent, tx.caller)
        self.renew_leases(tx, agent)
        leases = LeaseStore(tx, self.lease_ms)
        lost = leases.collect_losses(agent.id)
        working_on = None if agent.current_task_id in lost else agent.current_task_id
        is_free = bool(lost) and not leases.list_held_by(agent.id)
        said = status or (AgentStatus.ONLINE if is_free else get_status_after_heartbeat(agent))
        self._save_sign_of_life(tx, agent, said=said, current_task_id=current_task_id or working_on)
        return lost

    def renew_leases(self, tx: Transaction, agent: Agent) -> None:
        """Begin a sign of life: renew the agent's leases. The call ends it with `save_alive`."""
        require_registered(agent)
        LeaseStore(tx, self.lease_ms).renew(agent.id)

    def save_alive(self, tx: Transaction, agent: Agent, **changes: Any) -> Agent:
        """Save that the agent is alive, with these changes, and return it.

        Emits `agent:updated` only if others can see a difference.
        """
        alive = self._save_sign_of_life(tx, agent, **changes)
        self._notice_silence(tx)
        return alive

    def _save_sign_of_life(self, tx: Transaction, agent: Agent, **changes: Any) -> Agent:
        return self.save_changes(tx, agent, last_heartbeat=tx.now, silent_since=None, **changes)

    def _notice_silence(self, tx: Transaction) -> None:
        if not self.get_alive_since(tx) <= self._oldest_heartbeat <= tx.now:
            self.emit_newly_silent(tx)

    def save_changes(self, tx: Transaction, agent: Agent, **changes: Any) -> Agent:
        """Save these changes of the agent, which are no sign of life if others caused them."""
        changed = copy_with(agent, **changes)
        if has_visible_change(agent, changed, tx.now, self.lease_ms):
            changed = copy_with(changed, updated_at=tx.now)
            self.emit(tx, AgentEvent.UPDATED, changed)
        AgentStore(tx).save(agent, changed)
        return changed

    def remember_registration(self, tx: Transaction, agent: Agent) -> None:
        """Remember, once it is stored, that this process registered the agent for its own client."""
        if agent.registered_by == LOCAL:
            tx.after_commit(lambda: self._registered_here.add(agent.id))

    def forget_registration(self, tx: Transaction, agent_id: str) -> None:
        """Forget an agent that unregisters."""
        tx.after_commit(lambda: self._registered_here.discard(agent_id))

    def find_unnamed_actor(self, tx: Transaction) -> Agent | None:
        """Return the agent that a call without `agent_id` acts as; None if there is none or more than one.

        That is the one agent registered by the caller: by its token or session, or by this process if the
        caller is local, because all local processes are the same caller. A person acts as no agent, and an
        agent under a run as itself.
        """
        if bound := current_call().agent:
            return AgentStore(tx).get(bound.agent_id)
        if tx.caller == LOCAL:
            return AgentStore(tx).find_only_registered(sorted(self._registered_here))
        if tx.caller == ANONYMOUS or is_person(tx.caller):
            return None
        return AgentStore(tx).find_only_agent_of(tx.caller)

    def find_unnamed_id(self, tx: Transaction) -> str | None:
        """Return the id of the agent that a call without `agent_id` acts as."""
        actor = self.find_unnamed_actor(tx)
        return actor.id if actor else None

    def is_read_by_agent(self, agent: Agent) -> bool:
        """Whether the current call reads in the agent's own name, so that its answer reaches the agent.

        A local caller may be any process, so it reads for the agents that this process registered. A
        restarted server knows none: the agent's next write lets its answer carry the notices.
        """
        call = current_call()
        if not self.may_mark_notices or is_person(call.caller):
            return False
        if call.caller == LOCAL:
            return agent.id in self._registered_here
        return is_own_agent(call, agent.id, agent.registered_by)

    @property
    def may_mark_notices(self) -> bool:
        """Whether the answer of the current call counts as carrying the notices that it shows."""
        call = current_call()
        return call.carries_notices and call.scope != "read" and not self._is_read_only

    def record_read(self, agent: Agent, now: int) -> None:
        """Record a read in the agent's name, at most once per third of a lease.

        A read is a sign of life too, but writing each one would make reads as expensive as writes.
        """
        call = current_call()
        is_own = is_own_agent(call, agent.id, agent.registered_by) or (
            call.scope == "admin" and not is_of_another_person(agent, call.caller)
        )
        if self._is_read_only or not is_own or not needs_renewal(agent, now, self.lease_ms):
            return  # a caller cannot keep another caller's agent alive by reading
        try:
            with self._database.transaction() as tx:
                self.record_sign_of_life(tx, AgentStore(tx).get_for_update(agent.id))
        except StorageError as error:  # a full disk must not make reads fail
            log.warning("Could not store the sign of life of %s: %s", agent.id, error)

    def emit_newly_silent(self, tx: Transaction) -> None:
        """Emit `agent:updated` once for every agent that fell silent."""
        store = AgentStore(tx)
        for agent in store.mark_newly_silent(self.get_alive_since(tx)):
            self.emit(tx, AgentEvent.UPDATED, agent)
        oldest = store.find_oldest_heartbeat(tx.now)
        tx.after_commit(lambda: self._remember_oldest_heartbeat(oldest))

    def _remember_oldest_heartbeat(self, moment: int) -> None:
        self._oldest_heartbeat = moment

    def get_alive_since(self, tx: Transaction) -> int:
        """Return the start of the current lease: an agent whose last heartbeat is older is offline."""
        return tx.now - self.lease_ms

    def build_view(self, tx: Transaction, agent: Agent) -> AgentView:
        """Build the agent's view with its current status."""
        return AgentView.from_agent(agent, tx.now, self.lease_ms)

    def emit(self, tx: Transaction, event: AgentEvent, agent: Agent) -> None:
        """Emit an event with the agent's current state."""
        tx.emit(event, build_agent_payload(agent, tx.now, self.lease_ms))


def find_reserved_names(tx: Transaction) -> dict[str, str]:
    """Find agents that are named like a person or deepwork, as earlier versions allowed: names by id."""
    names = AgentStore(tx).list_names_of_agents()
    return {id: name for id, name in names.items() if is_reserved(name)}
