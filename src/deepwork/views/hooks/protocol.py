"""Parses the events of each client and renders answers in the format that client expects."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.records import dataclass
from deepwork.kernel.vendors import VENDORS

SESSION_START, TOOL_USE, STOP = "session-start", "tool-use", "stop"
EVENTS: Final = (SESSION_START, TOOL_USE, STOP)

CLIENTS: Final = {vendor.name: vendor.hooks for vendor in VENDORS if vendor.hooks}
"""The clients that can call us, and how."""

MAX_INPUT = 4 * 1024 * 1024
"""Bytes of an event that are parsed; of a longer one only the session and folder are read."""
_WRAPPER_KEYS = ("structuredContent", "content", "llmContent", "text")
_MAX_ENVELOPE_BYTES = 64 * 1024
_TOOL_FIELD_PATTERN = re.compile(r'"tool_(?:input|response)"')
_ENVELOPE_FIELD_PATTERN = re.compile(r'"(session_id|cwd|agent_id)"\s*:\s*("(?:[^"\\]|\\.){0,4096}")')


@dataclass(frozen=True)
class HookEvent:
    """An event reported by a client."""

    client: str
    session_id: str
    cwd: str
    source: str = ""
    """Why a session starts: startup, resume, clear, compact."""
    subagent: str = ""
    """The client's id of a subagent; empty for the main session."""
    tool: str = ""
    """The name of our tool that was called; empty for other tools."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any] = field(default_factory=dict)
    is_repeated: bool = False
    """Whether the agent is running only because a stop hook blocked it before."""


def parse_event(client: str, content: bytes) -> HookEvent:
    """Parse an event; one without a session id is invalid."""
    payload = _parse_payload(content)
    session_id, cwd = payload.get("session_id"), payload.get("cwd")
    if not (isinstance(session_id, str) and session_id):
        raise InvalidInput("The event has no `session_id`.")
    tool = _find_own_tool(payload)
    return HookEvent(
        client=client,
        session_id=session_id,
        cwd=cwd if isinstance(cwd, str) and cwd else ".",
        source=_as_text(payload.get("source")),
        subagent=_as_text(payload.get("agent_id")),
        tool=tool,
        arguments=_unwrap_object(payload.get("tool_input")) if tool else {},
        answer=_unwrap_object(payload.get("tool_response")) if tool else {},
        is_repeated=payload.get("stop_hook_active") is True,
    )


def render_context(client: str, event: str, text: str) -> str:
    """Render the answer that adds text to the agent's context."""
    name = CLIENTS[client].events[event]
    return json.dumps({"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}})


def render_block(client: str, reason: str) -> str:
    """Render the answer that keeps the agent from stopping and gives the reason."""
    return json.dumps({"decision": CLIENTS[client].block_decision, "reason": reason})


def _parse_payload(content: bytes) -> dict[str, Any]:
    text = content[: MAX_INPUT if len(content) <= MAX_INPUT else _MAX_ENVELOPE_BYTES].decode(
        "utf-8", "replace"
    )
    if len(content) > MAX_INPUT:
        before = _TOOL_FIELD_PATTERN.split(text, maxsplit=1)[
            0
        ]  # tool arguments may contain a `session_id` too
        return {key: json.loads(value) for key, value in _ENVELOPE_FIELD_PATTERN.findall(before)}
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The event is not JSON: {str(error)[:100]}.") from None
    if not isinstance(payload, dict):
        raise InvalidInput("The event is not a JSON object.")
    return payload


def _find_own_tool(payload: Mapping[str, Any]) -> str:
    """Extract our tool's name from the client's name: `mcp__deepwork__task_claim`, `mcp_deepwork_…`."""
    context = _as_object(payload.get("mcp_context"))
    if isinstance(server := context.get("server_name"), str) and "deepwork" in server.lower():
        return _as_text(context.get("tool_name"))
    name = _as_text(payload.get("tool_name"))
    parts = name.split("__")
    if len(parts) == 3 and parts[0] == "mcp" and "deepwork" in parts[1].lower():
        return parts[2]
    return name.removeprefix("mcp_deepwork_") if name.startswith("mcp_deepwork_") else ""


def _unwrap_object(value: Any) -> Mapping[str, Any]:
    """Unwrap a JSON object from a string, a list of contents or a tool result, as clients send it."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else _unwrap_object(value)
    if isinstance(value, list):
        return next(filter(None, map(_unwrap_object, value[:8])), {})
    for key in _WRAPPER_KEYS:
        inner = _unwrap_object(value.get(key)) if isinstance(value, dict) else {}
        if inner:
            return inner
    return _as_object(value)


def _as_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_text(value: Any) -> str:
    return value[:200] if isinstance(value, str) else ""
