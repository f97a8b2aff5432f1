"""Handles session-start and stop: restores what a session knew, and tells once what it leaves unfinished."""

from __future__ import annotations

from dataclasses import replace

from deepwork.kernel.database.existing_store import ExistingStore
from deepwork.views.hooks import protocol, rendering
from deepwork.views.hooks.context import HookContext, add_delivered
from deepwork.views.hooks.current_work import get_project_scope, load_current_work
from deepwork.views.hooks.identity import SessionRecord
from deepwork.views.hooks.notices import find_notices, show_notices, take_notices
from deepwork.views.overview.current_work_store import CurrentWorkStore


def handle_start(context: HookContext, store: ExistingStore) -> str:
    """Return the session's own work; for a new session, the current work of the project."""
    event = context.event
    record = context.load_record()
    # A compacted session keeps its id. A resumed or cleared one may have a new id: then we guess.
    may_resume = not record.has_identity and event.source in ("resume", "clear")
    resumable = context.memory.find_resumable(event, context.settings.project_root) if may_resume else None
    with store.reading() as tx:
        possible_agents = resumable.agents if resumable else ()
        work = load_current_work(tx, get_project_scope(context.settings), record, possible_agents)
    if context.is_own_only:
        work = replace(work, jobs=[], tracked=[], tracked_tasks=[], plans=[])
    texts = [_show_notices(context, store, record, resumable), rendering.render_current_work(work)]
    text = rendering.frame_texts(texts)
    return protocol.render_context(event.client, protocol.SESSION_START, text) if text else ""


def _show_notices(
    context: HookContext, store: ExistingStore, record: SessionRecord, resumable: SessionRecord | None
) -> str:
    """Return the notices for the session; those of one that it only may continue are left for it."""
    if not record.has_identity:
        return _show_without_taking(store, resumable) if resumable else ""
    return show_notices(context, store, is_start=True)


def _show_without_taking(store: ExistingStore, record: SessionRecord) -> str:
    with store.reading() as tx:
        notices, now = find_notices(tx, record, is_start=True), tx.now
    return rendering.cut_to_budget("\n\n".join(rendering.render_notice(each, now) for each in notices))


def handle_stop(context: HookContext, store: ExistingStore) -> str:
    """Return what people did meanwhile, and a reminder of unfinished work unless it was already given."""
    record = context.load_record()
    if context.event.is_repeated or not record.has_identity:
        return ""
    with store.reading() as tx:
        work_store = CurrentWorkStore(tx)
        # The runner of an agent judges its work, and lets the session continue if something is missing.
        knows_end = not context.is_own_only
        job = work_store.find_active_job(record.jobs) if record.jobs and knows_end else None
        held = work_store.list_held_tasks(record.agents) if record.agents and knows_end else []
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
