"""Handles session-start: a session started, resumed or was compacted, so restore what it knew."""

from __future__ import annotations

from deepwork.database.existing_store import ExistingStore
from deepwork.hooks import protocol, rendering
from deepwork.hooks.context import HookContext
from deepwork.hooks.current_work import get_project_scope, load_current_work


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
    text = rendering.render_current_work(work)
    return protocol.render_context(event.client, protocol.SESSION_START, text) if text else ""
