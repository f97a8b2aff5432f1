"""Routes an event to its handler. Only the handler that is needed gets imported, to keep hooks fast."""

from __future__ import annotations

from importlib import import_module

from deepwork.kernel.config import Settings
from deepwork.kernel.errors import StoreNotAdopted
from deepwork.views.hooks.context import HookContext
from deepwork.views.hooks.protocol import SESSION_START, STOP, TOOL_USE, HookEvent, render_context

STORE_WAIT_SECONDS = 1.0
"""Seconds to wait for a locked store; the agent waits just as long."""
_NOT_ADOPTED_TEXT = (
    "deepwork does not use the store of this project, because this user did not make it. "
    "Ask the user to run `deepwork doctor`."
)
_HANDLERS = {
    SESSION_START: ("session_events", "handle_start"),
    TOOL_USE: ("tool_use", "handle_event"),
    STOP: ("session_events", "handle_stop"),
}


def dispatch_event(kind: str, settings: Settings, event: HookEvent) -> str:
    """Return the text to print; empty if there is nothing to say or no store."""
    if kind != SESSION_START and not event.tool and not HookContext(settings, event).has_known_session:
        return ""  # most calls of most sessions: do not open the store for them, least of all a remote one
    if "://" in settings.database_location:
        from deepwork.views.hooks.server_socket import ask_server  # noqa: PLC0415 - not for files

        answer = ask_server(kind, settings, event)
        if answer is not None:
            return answer
    return handle_event(kind, settings, event)


def handle_event(kind: str, settings: Settings, event: HookEvent, *, is_own_only: bool = False) -> str:
    """Handle the event in this process: open the store and return the text to print."""
    from deepwork.kernel.database.existing_store import open_existing_store  # noqa: PLC0415 - a server may have it open

    try:
        with open_existing_store(settings.database_location, STORE_WAIT_SECONDS) as store:
            if store is None:
                return ""
            module, name = _HANDLERS[kind]
            handle = getattr(import_module(f"deepwork.views.hooks.{module}"), name)
            text: str = handle(HookContext(settings, event, is_own_only), store)
            return text
    except StoreNotAdopted:
        # Nothing of its content: it may be somebody else's. One line per session, for the person.
        return render_context(event.client, kind, _NOT_ADOPTED_TEXT) if kind == SESSION_START else ""
