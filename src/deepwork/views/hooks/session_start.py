"""Handles session-start: a session started, resumed or was compacted, so restore what it knew."""

from __future__ import annotations

from dataclasses import replace

from deepwork.kernel.database.existing_store import ExistingStore
from deepwork.views.hooks import protocol, rendering
from deepwork.views.hooks.context import HookContext
from deepwork.views.hooks.current_work import get_project_scope, load_current_work
from deepwork.views.hooks.identity import SessionRecord
from deepwork.views.hooks.notices import find_notices, take_notices


def handle_event(context: HookContext, store: ExistingStore) -> str:
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
    with context.lock():
        text, after = take_notices(context, store, context.load_record(), is_start=True)
        if text:
            context.memory.save(after)
    return text


def _show_without_taking(store: ExistingStore, record: SessionRecord) -> str:
    with store.reading() as tx:
        notices, now = find_notices(tx, record, is_start=True), tx.now
    return rendering.cut_to_budget("\n\n".join(rendering.render_notice(each, now) for each in notices))
