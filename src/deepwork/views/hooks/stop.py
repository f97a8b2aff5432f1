"""Handles stop: tells an agent what people did, and once of unfinished work, before it stops."""

from __future__ import annotations

from deepwork.kernel.database.existing_store import ExistingStore
from deepwork.views.hooks import protocol, rendering
from deepwork.views.hooks.context import HookContext, add_delivered
from deepwork.views.hooks.notices import take_notices
from deepwork.views.overview.current_work_store import CurrentWorkStore


def handle_event(context: HookContext, store: ExistingStore) -> str:
    """Return what people did meanwhile, and a reminder of unfinished work unless it was already given."""
    record = context.load_record()
    if context.event.is_repeated or not record.has_identity:
        return ""
    with store.reading() as tx:
        work_store = CurrentWorkStore(tx)
        job = work_store.find_active_job(record.jobs) if record.jobs else None
        held = work_store.list_held_tasks(record.agents) if record.agents else []
    # What waits for a person costs nothing, so the agent may stop.
    job = job if job and rendering.judge_job(job).goes_on else None
    held = [row for row in held if rendering.judge_held_task(row).goes_on]
    names = [f"stop:{job['id']}/{job['step_id']}"] if job else []
    names += [f"stop:{row['id']}" for row in held]
    is_known = all(each in record.told for each in names)
    with context.lock():
        news, after = take_notices(context, store, context.load_record())
        if news or not is_known:
            context.memory.save(add_delivered(after, names))
    reminder = "" if is_known else rendering.render_stop_reminder(job, held)
    text = rendering.frame_texts([news, reminder])
    return protocol.render_block(context.event.client, text) if text else ""
