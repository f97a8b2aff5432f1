"""An agent is about to stop: remind it, once, of what is not finished."""

from __future__ import annotations

from deepwork.database.lean import LeanStore
from deepwork.hooks import clients, telling
from deepwork.hooks.desk import Desk, having_told
from deepwork.hooks.store import UnderWayStore


def answer(desk: Desk, store: LeanStore) -> str:
    """A reminder that was not given yet."""
    record = desk.recalled()
    if desk.heard.is_repeated or not (record.jobs or record.agents):
        return ""
    with store.reading() as tx:
        under_way = UnderWayStore(tx)
        job = under_way.job(record.jobs) if record.jobs else None
        held = under_way.held(record.agents) if record.agents else []
    named = [f"stop:{job['id']}/{job['step_id']}"] if job else []
    named += [f"stop:{row['id']}" for row in held]
    if all(each in record.told for each in named):
        return ""
    desk.change(lambda before: having_told(before, named))
    return clients.not_yet(desk.heard.client, telling.reminder_text(job, held))
