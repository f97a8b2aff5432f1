"""A session starts, goes on, or was compacted: give back what it knew."""

from __future__ import annotations

from deepwork.database.lean import LeanStore
from deepwork.hooks import clients, telling
from deepwork.hooks.desk import Desk
from deepwork.hooks.situation import look, place_of


def answer(desk: Desk, store: LeanStore) -> str:
    """Give back what the session knew; after a new start, what is under way here."""
    heard = desk.heard
    record = desk.recalled()
    # A compacted session keeps its id. The others may have got a new one, or be strangers: who knows?
    may_go_on = not record.knows_something and heard.source in ("resume", "clear")
    kin = desk.memory.kin_of(heard, desk.settings.project_root) if may_go_on else None
    with store.reading() as tx:
        situation = look(tx, place_of(desk.settings), record, perhaps=kin.agents if kin else ())
    text = telling.situation_text(situation)
    return clients.with_context(heard.client, clients.SESSION_START, text) if text else ""
