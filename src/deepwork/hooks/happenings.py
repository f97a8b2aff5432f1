"""Which event is dealt with where; what the others need is not imported."""

from __future__ import annotations

from importlib import import_module

from deepwork.config import Settings
from deepwork.database.lean import existing_store
from deepwork.hooks.clients import SESSION_START, STOP, TOOL_USE, Heard
from deepwork.hooks.desk import Desk

PATIENCE = 1.0
"""How many seconds to wait for whoever holds the store; the agent waits as long."""
_MODULES = {SESSION_START: "session_start", TOOL_USE: "tool_use", STOP: "stop"}


def answer(event: str, settings: Settings, heard: Heard) -> str:
    """What to print; nothing where there is nothing to say, or no store."""
    desk = Desk(settings, heard)
    if event != SESSION_START and not heard.tool and not desk.knows_somebody:
        return ""  # most calls of most sessions: they need not wait for a store, least of all a distant one
    with existing_store(settings.database_location, PATIENCE) as store:
        if store is None:
            return ""
        module = import_module(f"deepwork.hooks.{_MODULES[event]}")
        text: str = module.answer(desk, store)
        return text
