"""Routes an event to its handler. Only the handler that is needed gets imported, to keep hooks fast."""

from __future__ import annotations

from importlib import import_module

from deepwork.config import Settings
from deepwork.database.existing_store import open_existing_store
from deepwork.hooks.context import HookContext
from deepwork.hooks.protocol import SESSION_START, STOP, TOOL_USE, HookEvent

STORE_WAIT_SECONDS = 1.0
"""Seconds to wait for a locked store; the agent waits just as long."""
_MODULES = {SESSION_START: "session_start", TOOL_USE: "tool_use", STOP: "stop"}


def dispatch_event(kind: str, settings: Settings, event: HookEvent) -> str:
    """Return the text to print; empty if there is nothing to say or no store."""
    context = HookContext(settings, event)
    if kind != SESSION_START and not event.tool and not context.has_known_session:
        return ""  # most calls of most sessions: do not open the store for them, least of all a remote one
    with open_existing_store(settings.database_location, STORE_WAIT_SECONDS) as store:
        if store is None:
            return ""
        module = import_module(f"deepwork.hooks.{_MODULES[kind]}")
        text: str = module.handle_event(context, store)
        return text
