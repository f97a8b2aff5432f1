"""Handles tool-use: learns which agents a session acts as, renews their claims and delivers news."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deepwork.kernel.database.existing_store import ExistingStore
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound, StorageError
from deepwork.views.hooks import failure_log, protocol, rendering
from deepwork.views.hooks.context import HookContext, add_delivered
from deepwork.views.hooks.identity import SessionRecord, learn_from_call
from deepwork.views.hooks.notices import find_notices, take_notices
from deepwork.views.hooks.protocol import HookEvent
from deepwork.views.overview.current_work_store import CurrentWorkStore
from deepwork.work.agents.models import Agent, needs_renewal
from deepwork.work.agents.store import AgentStore, LeaseStore
from deepwork.work.messages.store import MessageStore

MAX_MESSAGES = 3
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
    found, all_alerts = _renew_claims(context, store, sorted(alive)) if alive else ([], {})
    own = [agent for agent in found if agent.id in record.agents]
    if gone := set(record.agents) - {agent.id for agent in own}:  # unregistered, or from another store
        record = context.update_record(lambda before: _remove_agents(before, gone))
    alerts = {name: text for name, (agent_id, text) in all_alerts.items() if agent_id in record.agents}
    if alerts.keys() <= set(record.told) and not _has_news(store, own, record):
        return ""
    text = _deliver_once(context, store, own, alerts)
    return protocol.render_context(event.client, protocol.TOOL_USE, text) if text else ""


Alerts = dict[str, tuple[str, str]]
"""What happened to agents: by unique name, the id of the agent and the text."""


def _learn(record: SessionRecord, event: HookEvent) -> SessionRecord:
    """Learn from the call. Any tool shows that the agent has read what the hook before carried."""
    return learn_from_call(replace(record, carried=()), event.tool, event.arguments, event.answer)


def _renew_claims(
    context: HookContext, store: ExistingStore, ids: Sequence[str]
) -> tuple[list[Agent], Alerts]:
    """Renew the claims that are due; return the registered agents and the alerts for them."""
    lease_ms = context.settings.lease_seconds * 1000
    with store.reading() as tx:
        agents = [agent for id in ids if (agent := _find_agent(tx, id)) and agent.unregistered_at is None]
        lost = CurrentWorkStore(tx).list_lost_claims([agent.id for agent in agents]) if agents else []
        now = tx.now
    # An offline agent must come back with its own heartbeat call, which announces it to the others.
    gone = [agent for agent in agents if agent.silent_since is not None]
    due = [a for a in agents if a not in gone and needs_renewal(a, now, lease_ms)]
    if due:
        try:
            with store.writing(RENEWAL_WAIT_SECONDS) as tx:
                for agent in due:
                    _renew_agent(tx, agent.id, lease_ms)
        except StorageError as error:  # deliver the alerts anyway
            failure_log.record_failure(context.settings.store_folder, "renewal of claims", error)
    silent = {
        f"silent:{a.id}/{a.silent_since}": (a.id, rendering.render_offline_notice(a.id, a.name)) for a in gone
    }
    taken = {
        f"lost:{row['who']}/{row['what']}": (row["who"], rendering.render_lost_claims([row])) for row in lost
    }
    return agents, silent | taken


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


def _deliver_once(
    context: HookContext, store: ExistingStore, own: Sequence[Agent], alerts: dict[str, str]
) -> str:
    """Return the notices, alerts and urgent messages not delivered yet, and record them as delivered.

    Runs under the lock: hooks of parallel tools must not deliver the same thing twice.
    """
    with context.lock():
        news, record = take_notices(context, store, context.load_record())
        fresh = {name: text for name, text in alerts.items() if name not in record.told}
        texts = [*([news] if news else []), *fresh.values()]
        shown = dict(record.shown or {})
        with store.reading() as tx:
            urgent = _list_urgent(tx, own, record)
        for agent_id, text, position in urgent:
            texts.append(text)
            shown[agent_id] = position
        if texts:
            context.memory.save(replace(add_delivered(record, list(fresh)), shown=shown))
    return rendering.frame_texts(texts)


def _has_news(store: ExistingStore, own: Sequence[Agent], record: SessionRecord) -> bool:
    with store.reading() as tx:
        return bool(find_notices(tx, record) or _list_urgent(tx, own, record))


def _list_urgent(
    tx: Transaction, agents: Sequence[Agent], record: SessionRecord
) -> list[tuple[str, str, int]]:
    """List agent id, rendered urgent messages not shown yet, and the position of the last one.

    Messages of people are left out: they are notices, whatever their priority.
    """
    found = []
    for agent in agents:
        since = (record.shown or {}).get(agent.id, 0)
        wanted = {
            "statuses": ["unread"],
            "priorities": ["urgent"],
            "since_position": since,
            "without_notice": True,
        }
        if messages := MessageStore(tx).list_matching(agent.id, wanted, MAX_MESSAGES):
            senders = [each.sender_id for each in messages if each.sender_id]
            names = CurrentWorkStore(tx).get_agent_names(senders)
            text = rendering.render_urgent_messages(messages, names, tx.now)
            found.append((agent.id, text, messages[-1].position))
    return found


def _remove_agents(record: SessionRecord, gone: set[str]) -> SessionRecord:
    return replace(record, agents=tuple(each for each in record.agents if each not in gone))
