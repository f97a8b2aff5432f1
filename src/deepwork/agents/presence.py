"""Signs of life: whatever an agent does shows that it lives and renews what it holds."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from deepwork.agents import rules
from deepwork.agents.leases import LeaseStore
from deepwork.agents.models import Agent, AgentEvent
from deepwork.agents.responses import AgentView
from deepwork.agents.store import AgentStore
from deepwork.database.call import current_call
from deepwork.database.transaction import Database, Transaction
from deepwork.errors import StorageError

log = logging.getLogger("deepwork")


class Presence:
    """Knows who is alive, for every slice whose tools act in an agent's name."""

    def __init__(self, database: Database, lease_seconds: int, *, is_read_only: bool = False) -> None:
        self._database = database
        self._is_read_only = is_read_only
        self.lease_ms = lease_seconds * 1000

    def sign_of_life(self, tx: Transaction, agent: Agent, **changes: Any) -> Agent:
        """A write in the agent's name: it lives, its leases begin anew, and it may say more of itself."""
        rules.require_registered(agent)
        alive = replace(agent, last_heartbeat=tx.now, silent_since=None, **changes)
        if rules.is_news(agent, alive, tx.now, self.lease_ms):
            alive = replace(alive, updated_at=tx.now)
            self.tell(tx, AgentEvent.UPDATED, alive)
        AgentStore(tx).keep(agent, alive)
        if agent.last_heartbeat != tx.now:  # whoever was heard of at this very moment has nothing to renew
            LeaseStore(tx, self.lease_ms).renew(agent.id)
            self.notice_silence(tx)
        return alive

    def looked(self, agent: Agent, now: int) -> None:
        """A read in the agent's name: a sign of life too, but written down only now and then."""
        call = current_call()
        is_own = call.scope == "admin" or agent.registered_by == call.caller
        if self._is_read_only or not is_own or not rules.wants_renewal(agent, now, self.lease_ms):
            return  # nobody keeps another's agent alive by reading
        try:
            with self._database.transaction() as tx:
                self.sign_of_life(tx, AgentStore(tx).hold(agent.id))
        except StorageError as error:  # a full disk stops writing, not reading
            log.warning("The sign of life of %s could not be stored: %s", agent.id, error)

    def notice_silence(self, tx: Transaction) -> None:
        """Tell, once, of every agent that fell silent."""
        for agent in AgentStore(tx).newly_silent(self.alive_since(tx)):
            self.tell(tx, AgentEvent.UPDATED, agent)

    def alive_since(self, tx: Transaction) -> int:
        """An agent last heard of before this moment is offline."""
        return tx.now - self.lease_ms

    def view(self, tx: Transaction, agent: Agent) -> AgentView:
        """The agent as it is at this moment."""
        return AgentView.of(agent, tx.now, self.lease_ms)

    def tell(self, tx: Transaction, event: AgentEvent, agent: Agent) -> None:
        """Tell what happened to the agent, with the agent as it is now."""
        tx.emit(event, self.view(tx, agent).model_dump(mode="json"))
