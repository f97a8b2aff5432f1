"""Presence: every call in an agent's name is a sign of life and renews its leases."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from deepwork.agents import rules
from deepwork.agents.leases import LeaseStore
from deepwork.agents.models import Agent, AgentEvent
from deepwork.agents.responses import AgentView
from deepwork.agents.store import AgentStore
from deepwork.call import current_call
from deepwork.database.transaction import Database, Transaction
from deepwork.errors import StorageError

log = logging.getLogger("deepwork")


class Presence:
    """Tracks which agents are alive, for every package whose tools act in an agent's name."""

    def __init__(self, database: Database, lease_seconds: int, *, is_read_only: bool = False) -> None:
        self._database = database
        self._is_read_only = is_read_only
        self.lease_ms = lease_seconds * 1000

    def record_sign_of_life(self, tx: Transaction, agent: Agent, **changes: Any) -> Agent:
        """Record a write in the agent's name: renew its leases, apply `changes`, and return the agent.

        Emits `agent:updated` only if others can see a difference.
        """
        rules.require_registered(agent)
        alive = replace(agent, last_heartbeat=tx.now, silent_since=None, **changes)
        if rules.has_visible_change(agent, alive, tx.now, self.lease_ms):
            alive = replace(alive, updated_at=tx.now)
            self.emit(tx, AgentEvent.UPDATED, alive)
        AgentStore(tx).save(agent, alive)
        if agent.last_heartbeat != tx.now:  # already renewed in this millisecond
            LeaseStore(tx, self.lease_ms).renew(agent.id)
            self.emit_newly_silent(tx)
        return alive

    def record_read(self, agent: Agent, now: int) -> None:
        """Record a read in the agent's name, at most once per third of a lease.

        A read is a sign of life too, but writing each one would make reads as expensive as writes.
        """
        call = current_call()
        is_own = call.scope == "admin" or agent.registered_by == call.caller
        if self._is_read_only or not is_own or not rules.needs_renewal(agent, now, self.lease_ms):
            return  # a caller cannot keep another caller's agent alive by reading
        try:
            with self._database.transaction() as tx:
                self.record_sign_of_life(tx, AgentStore(tx).get_for_update(agent.id))
        except StorageError as error:  # a full disk must not make reads fail
            log.warning("Could not store the sign of life of %s: %s", agent.id, error)

    def emit_newly_silent(self, tx: Transaction) -> None:
        """Emit `agent:updated` once for every agent that fell silent."""
        for agent in AgentStore(tx).mark_newly_silent(self.get_alive_since(tx)):
            self.emit(tx, AgentEvent.UPDATED, agent)

    def get_alive_since(self, tx: Transaction) -> int:
        """Return the start of the current lease: an agent whose last heartbeat is older is offline."""
        return tx.now - self.lease_ms

    def build_view(self, tx: Transaction, agent: Agent) -> AgentView:
        """Build the agent's view with its current status."""
        return AgentView.from_agent(agent, tx.now, self.lease_ms)

    def emit(self, tx: Transaction, event: AgentEvent, agent: Agent) -> None:
        """Emit an event with the agent's current state."""
        tx.emit(event, self.build_view(tx, agent).model_dump(mode="json"))
