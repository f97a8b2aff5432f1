"""A tool was used: learn who the session is, keep its claims alive, and bring what cannot wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deepwork.agents import rules
from deepwork.agents.leases import LeaseStore
from deepwork.agents.models import Agent
from deepwork.agents.store import AgentStore
from deepwork.database.lean import LeanStore
from deepwork.database.transaction import Transaction
from deepwork.errors import NotFound, StorageError
from deepwork.hooks import clients, failures, telling
from deepwork.hooks.desk import Desk, having_told
from deepwork.hooks.learning import Record, learned
from deepwork.hooks.store import UnderWayStore
from deepwork.messages.store import MessageStore

MOST_MESSAGES = 3
PATIENCE = 0.2
"""How many seconds a renewal waits for others: the next tool will do as well."""


def answer(desk: Desk, store: LeanStore) -> str:
    """What the agent must hear, if anything."""
    heard = desk.heard
    desk.memory.touch(heard)
    record = desk.recalled()
    if heard.tool and learned(record, heard.tool, heard.given, heard.answer) != record:
        record = desk.change(lambda before: learned(before, heard.tool, heard.given, heard.answer))
    # Whoever waits for its helper is alive too.
    everybody = {*record.agents, *(desk.recalled("").agents if heard.subagent else ())}
    if not everybody:
        return ""
    found, news_of = _signs_of_life(desk, store, sorted(everybody))
    own = [agent for agent in found if agent.id in record.agents]
    if gone := set(record.agents) - {agent.id for agent in own}:  # they left, or are of another store
        record = desk.change(lambda before: _without(before, gone))
    news = {name: text for name, (agent_id, text) in news_of.items() if agent_id in record.agents}
    if news.keys() <= set(record.told) and not _urgent(store, own, record):
        return ""
    text = _told_once(desk, store, own, news)
    return clients.with_context(heard.client, clients.TOOL_USE, text) if text else ""


News = dict[str, tuple[str, str]]
"""What agents must hear: by a name of its own, for whom it is, and the text."""


def _signs_of_life(desk: Desk, store: LeanStore, ids: Sequence[str]) -> tuple[list[Agent], News]:
    """The agents that are there, their claims renewed where it is time, and what they must hear."""
    lease_ms = desk.settings.lease_seconds * 1000
    with store.reading() as tx:
        agents = [agent for id in ids if (agent := _found(tx, id)) and agent.unregistered_at is None]
        lost = UnderWayStore(tx).lost([agent.id for agent in agents]) if agents else []
        now = tx.now
    # Of whom everybody believes that it is gone, its own call must say otherwise: that is news to all.
    gone = [agent for agent in agents if agent.silent_since is not None]
    due = [a for a in agents if a not in gone and rules.wants_renewal(a, now, lease_ms)]
    if due:
        try:
            with store.writing(PATIENCE) as tx:
                for agent in due:
                    _renew(tx, agent.id, lease_ms)
        except StorageError as error:  # what the agents must hear does not wait for it
            failures.note(desk.settings.store_folder, "renewal of claims", error)
    silent = {f"silent:{a.id}/{a.silent_since}": (a.id, telling.silence_text(a.id, a.name)) for a in gone}
    taken = {f"lost:{row['who']}/{row['what']}": (row["who"], telling.lost_text([row])) for row in lost}
    return agents, silent | taken


def _renew(tx: Transaction, agent_id: str, lease_ms: int) -> None:
    store = AgentStore(tx)
    agent = store.hold(agent_id)
    if agent.silent_since is None and agent.unregistered_at is None:
        store.keep(agent, replace(agent, last_heartbeat=tx.now))
        LeaseStore(tx, lease_ms).renew(agent_id)


def _found(tx: Transaction, id: str) -> Agent | None:
    try:
        return AgentStore(tx).get(id)
    except NotFound:
        return None


def _told_once(desk: Desk, store: LeanStore, own: Sequence[Agent], news: dict[str, str]) -> str:
    """What was not told yet, in words; decided by one hook at a time, and written down before it is told."""
    with desk.alone():
        record = desk.recalled()
        fresh = {name: text for name, text in news.items() if name not in record.told}
        texts = [*fresh.values()]
        shown = dict(record.shown or {})
        for agent_id, text, position in _urgent(store, own, record):
            texts.append(text)
            shown[agent_id] = position
        if texts:
            desk.memory.keep(replace(having_told(record, list(fresh)), shown=shown))
    return telling.within_budget("\n\n".join(texts))


def _urgent(store: LeanStore, agents: Sequence[Agent], record: Record) -> list[tuple[str, str, int]]:
    """By agent: urgent messages that were not shown yet, in words, and the place of the last."""
    found = []
    with store.reading() as tx:
        for agent in agents:
            since = (record.shown or {}).get(agent.id, 0)
            wanted = {"statuses": ["unread"], "priorities": ["urgent"], "since_position": since}
            if messages := MessageStore(tx).matching(agent.id, wanted, MOST_MESSAGES):
                names = UnderWayStore(tx).names([each.sender_id for each in messages if each.sender_id])
                found.append((agent.id, telling.urgent_text(messages, names), messages[-1].position))
    return found


def _without(record: Record, gone: set[str]) -> Record:
    return replace(record, agents=tuple(each for each in record.agents if each not in gone))
