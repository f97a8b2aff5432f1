"""MCP tools for agents."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar

from deepwork.kernel.answers import UNCHANGED, Done, Field, Id, Limit1000, Name, check_object
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.notices.store import carry_notices
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.reserved_names import require_unreserved
from deepwork.kernel.values import new_id
from deepwork.work.agents.models import (
    Agent,
    AgentEvent,
    AgentStatus,
    LivingStatus,
    Role,
    Runtime,
    get_heartbeat_interval,
    normalize_runtime,
)
from deepwork.work.agents.presence import (
    AgentList,
    AgentRegistered,
    AgentView,
    Heartbeat,
    Presence,
    TaskDirectory,
    Unregistered,
)
from deepwork.work.agents.store import AgentStore, LeaseStore


class AgentTools:
    """Tools to register, update, list and unregister agents."""

    traits: ClassVar = Traits(toolset="agents", one_transaction=True)

    def __init__(self, database: Database, presence: Presence, task_directory: TaskDirectory) -> None:
        self._database = database
        self._presence = presence
        self._task_directory = task_directory

    @operation("work")
    def agent_register(
        self,
        name: Name,
        runtime: Runtime,
        role: Role = Role.WORKER,
        capabilities: Annotated[list[Name] | None, Field(description="e.g. python, testing")] = None,
        workspace_path: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> AgentRegistered:
        """Register an agent when it starts; pass the returned id in later calls."""
        with self._database.transaction() as tx:
            require_unreserved("name", name, tx.caller)
            check_object("metadata", metadata or {})
            agent = Agent(
                id=new_id("ag"),
                name=name,
                runtime=runtime,
                role=role,
                said=AgentStatus.ONLINE,
                capabilities=tuple(dict.fromkeys(capabilities or ())),
                current_task_id=None,
                workspace_path=workspace_path,
                metadata=metadata or {},
                registered_by=tx.caller,
                last_heartbeat=tx.now,
                silent_since=None,
                unregistered_at=None,
                created_at=tx.now,
                updated_at=tx.now,
            )
            AgentStore(tx).add(agent)
            self._presence.remember_registration(tx, agent)
            self._presence.emit(tx, AgentEvent.REGISTERED, agent)
            self._presence.emit_newly_silent(tx)
            return AgentRegistered(id=agent.id, name=agent.name, status=agent.said)

    @operation("work", acts_as="agent_id", idempotent=True)
    def agent_heartbeat(
        self, agent_id: Id, current_task_id: Id | None = None, status: LivingStatus | None = None
    ) -> Heartbeat:
        """Report that an agent is alive: renews its claims; returns those lost, and notices."""
        with self._database.transaction() as tx:
            agent = AgentStore(tx).get_for_update(agent_id)
            if current_task_id is not None:
                self._task_directory.require_task(tx, current_task_id)
            said = AgentStatus(status) if status else None
            lost = self._presence.record_heartbeat(tx, agent, status=said, current_task_id=current_task_id)
            return Heartbeat(
                next_heartbeat_ms=get_heartbeat_interval(self._presence.lease_ms),
                lost_claims=lost or None,
                notices=carry_notices(tx, agent_id),
            )

    @operation("work", acts_as="id", idempotent=True)
    def agent_update(
        self,
        id: Id,
        status: AgentStatus | None = None,
        current_task_id: Annotated[Id | None, Field(description="null clears it")] = UNCHANGED,
        workspace_path: str | None = None,
        metadata: Annotated[dict[str, Any] | None, Field(description="Merged")] = None,
    ) -> Done:
        """Update an agent."""
        with self._database.transaction() as tx:
            agent = AgentStore(tx).get_for_update(id)
            if current_task_id is not UNCHANGED and current_task_id is not None:
                self._task_directory.require_task(tx, current_task_id)
            self._presence.record_sign_of_life(
                tx,
                agent,
                said=status or agent.said,
                current_task_id=agent.current_task_id if current_task_id is UNCHANGED else current_task_id,
                workspace_path=workspace_path or agent.workspace_path,
                metadata=check_object("metadata", {**agent.metadata, **(metadata or {})}),
            )
            return Done()

    @operation("read")
    def agent_get(self, id: Id) -> AgentView:
        """Get an agent: status, current task, last heartbeat."""
        with self._database.reading() as tx:
            return self._presence.build_view(tx, AgentStore(tx).get(id))

    @operation("read")
    def agent_list(
        self,
        status: list[AgentStatus] | None = None,
        role: Role | None = None,
        runtime: str | None = None,
        limit: Limit1000 = 200,
    ) -> AgentList:
        """List agents, oldest first."""
        with self._database.reading() as tx:
            agents, total = AgentStore(tx).list_matching(
                statuses=status,
                role=role,
                runtime=runtime and normalize_runtime(runtime),
                alive_since=self._presence.get_alive_since(tx),
                limit=limit,
            )
            return AgentList(agents=[self._presence.build_view(tx, agent) for agent in agents], total=total)

    @operation("work", acts_as="id", idempotent=True, destructive=True)
    def agent_unregister(self, id: Id) -> Unregistered:
        """Unregister an agent: it goes offline for good and its claims are released."""
        with self._database.transaction() as tx:
            store, leases = AgentStore(tx), LeaseStore(tx, self._presence.lease_ms)
            store.get(id)
            # Tasks first: changing a task locks its workflow before any agent; another order could deadlock.
            held = [lease.what for lease in leases.list_held_by(id)]
            self._task_directory.release_tasks(tx, id, held)
            agent = store.get_for_update(id)
            if agent.unregistered_at is not None:
                return Unregistered(tasks_released=0)
            released = sum(leases.release(what, id) for what in held)
            leases.expire(id)  # claimed since `held` was read; their workflows are not locked
            gone = replace(
                agent,
                said=AgentStatus.OFFLINE,
                current_task_id=None,
                unregistered_at=tx.now,
                updated_at=tx.now,
            )
            store.save(agent, gone)
            self._presence.forget_registration(tx, id)
            self._presence.emit(tx, AgentEvent.UNREGISTERED, gone)
            self._presence.emit_newly_silent(tx)
            return Unregistered(tasks_released=released)
