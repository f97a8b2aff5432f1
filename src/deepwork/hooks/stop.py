"""Handles stop: reminds an agent, once, of unfinished work before it stops."""

from __future__ import annotations

from deepwork.database.existing_store import ExistingStore
from deepwork.hooks import protocol, rendering
from deepwork.hooks.context import HookContext, add_delivered
from deepwork.overview.current_work_store import CurrentWorkStore


def handle_event(context: HookContext, store: ExistingStore) -> str:
    """Return a reminder of unfinished work, or nothing if it was already given."""
    record = context.load_record()
    if context.event.is_repeated or not (record.jobs or record.agents):
        return ""
    with store.reading() as tx:
        work_store = CurrentWorkStore(tx)
        job = work_store.find_active_job(record.jobs) if record.jobs else None
        held = work_store.list_held_tasks(record.agents) if record.agents else []
    names = [f"stop:{job['id']}/{job['step_id']}"] if job else []
    names += [f"stop:{row['id']}" for row in held]
    if all(each in record.told for each in names):
        return ""
    context.update_record(lambda before: add_delivered(before, names))
    return protocol.render_block(context.event.client, rendering.render_stop_reminder(job, held))
