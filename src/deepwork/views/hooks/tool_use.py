"""Handles tool-use: learns which agents a session acts as, renews their claims and delivers news."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deepwork.kernel.database.existing_store import ExistingStore
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound, StorageError
from deepwork.views.hooks import failure_log, protocol, rendering
from deepwork.views.hooks.context import HookContext
from deepwork.views.hooks.identity import SessionRecord, learn_from_call
from deepwork.views.hooks.notices import find_notices, show_notices
from deepwork.views.hooks.protocol import HookEvent
from deepwork.work.agents.models import Agent, needs_renewal
from deepwork.work.agents.store import AgentStore, LeaseStore

RENEWAL_WAIT_SECONDS = 0.2
"""Seconds a renewal waits for a locked store; the next tool call tries again."""


def handle_event(context: HookContext, store: ExistingStore) -> str:
    """Return what the agent must know now; empty if nothing."""
    event = context.event
    context.memory.touch(event)
    record = context.load_record()
    if _learn(record, event) != record:
        record = context.update_record(lambda before: _learn(before, event))
    # A session that waits for its subagent is alive too.
    alive = {*record.agents, *(context.load_record("").agents if event.subagent else ())}
    if not alive and not record.has_identity:
        return ""
    found = _renew_claims(context, store, sorted(alive)) if alive else set()
    if gone := set(record.agents) - found:  # unregistered, or from another store
        record = context.update_record(lambda before: _remove_agents(before, gone))
    with store.reading() as tx:
        has_news = bool(find_notices(tx, record))
    text = rendering.frame_texts([show_notices(context, store)]) if has_news else ""
    return protocol.render_context(event.client, protocol.TOOL_USE, text) if text else ""


def _learn(record: SessionRecord, event: HookEvent) -> SessionRecord:
    """Learn from the call. Any tool shows that the agent has read what the hook before carried."""
    return learn_from_call(replace(record, carried=()), event.tool, event.arguments, event.answer)


def _renew_claims(context: HookContext, store: ExistingStore, ids: Sequence[str]) -> set[str]:
    """Renew the claims that are due; return those of the agents that are registered."""
    lease_ms = context.settings.lease_seconds * 1000
    with store.reading() as tx:
        agents = [agent for id in ids if (agent := _find_agent(tx, id)) and agent.unregistered_at is None]
        now = tx.now
    # An offline agent must come back with its own heartbeat call, which announces it to the others.
    due = [each for each in agents if each.silent_since is None and needs_renewal(each, now, lease_ms)]
    if due:
        try:
            with store.writing(RENEWAL_WAIT_SECONDS) as tx:
                for agent in due:
                    _renew_agent(tx, agent.id, lease_ms)
        except StorageError as error:  # show the notices anyway
            failure_log.record_failure(context.settings.store_folder, "renewal of claims", error)
    return {agent.id for agent in agents}


def _renew_agent(tx: Transaction, agent_id: str, lease_ms: int) -> None:
    store = AgentStore(tx)
    agent = store.get_for_update(agent_id)
    if agent.silent_since is None and agent.unregistered_at is None:
        store.save(agent, replace(agent, last_heartbeat=tx.now))
        LeaseStore(tx, lease_ms).renew(agent_id)


def _find_agent(tx: Transaction, id: str) -> Agent | None:
    try:
        return AgentStore(tx).get(id)
    except NotFound:
        return None


def _remove_agents(record: SessionRecord, gone: set[str]) -> SessionRecord:
    return replace(record, agents=tuple(each for each in record.agents if each not in gone))
