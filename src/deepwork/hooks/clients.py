"""The forms in which each client tells of an event, and in which it wants to be answered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from deepwork.errors import InvalidInput

SESSION_START, TOOL_USE, STOP = "session-start", "tool-use", "stop"
EVENTS: Final = (SESSION_START, TOOL_USE, STOP)

_LIKE_CLAUDE = {SESSION_START: "SessionStart", TOOL_USE: "PostToolUse", STOP: "Stop"}
CLIENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "claude-code": _LIKE_CLAUDE,
    "codex": _LIKE_CLAUDE,
    "gemini": {SESSION_START: "SessionStart", TOOL_USE: "AfterTool", STOP: "AfterAgent"},
}
"""What each client calls our events."""
_REFUSAL = {"gemini": "deny"}

MAX_INPUT = 4 * 1024 * 1024
"""How much of an event is read; of a longer one, only whose it is."""
_WRAPPINGS = ("structuredContent", "content", "llmContent", "text")
_ENVELOPE = 64 * 1024
_TOOLS_OWN = re.compile(r'"tool_(?:input|response)"')
_NEAR_THE_TOP = re.compile(r'"(session_id|cwd|agent_id)"\s*:\s*("(?:[^"\\]|\\.){0,4096}")')


@dataclass(frozen=True)
class Heard:
    """An event, as a client told it."""

    client: str
    session_id: str
    cwd: str
    source: str = ""
    """Why a session starts: startup, resume, clear, compact."""
    subagent: str = ""
    """The client's own name for a helper of the session; empty for the session itself."""
    tool: str = ""
    """Which of our tools was called; empty for any other."""
    given: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any] = field(default_factory=dict)
    is_repeated: bool = False
    """Whether the agent goes on only because a hook did not let it stop."""


def read(client: str, content: bytes) -> Heard:
    """What a client told; an event that belongs to no session is none."""
    told = _told(content)
    session_id, cwd = told.get("session_id"), told.get("cwd")
    if not (isinstance(session_id, str) and session_id):
        raise InvalidInput("The event has no `session_id`.")
    tool = _our_tool(told)
    return Heard(
        client=client,
        session_id=session_id,
        cwd=cwd if isinstance(cwd, str) and cwd else ".",
        source=_text(told.get("source")),
        subagent=_text(told.get("agent_id")),
        tool=tool,
        given=_object(told.get("tool_input")) if tool else {},
        answer=_object(told.get("tool_response")) if tool else {},
        is_repeated=told.get("stop_hook_active") is True,
    )


def with_context(client: str, event: str, text: str) -> str:
    """The answer that puts a text before the agent's eyes."""
    name = CLIENTS[client][event]
    return json.dumps({"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}})


def not_yet(client: str, reason: str) -> str:
    """The answer that lets the agent go on instead of stopping, and tells it why."""
    return json.dumps({"decision": _REFUSAL.get(client, "block"), "reason": reason})


def _told(content: bytes) -> dict[str, Any]:
    text = content[: MAX_INPUT if len(content) <= MAX_INPUT else _ENVELOPE].decode("utf-8", "replace")
    if len(content) > MAX_INPUT:
        before = _TOOLS_OWN.split(text, maxsplit=1)[0]  # a tool may be given a `session_id` too
        return {key: json.loads(value) for key, value in _NEAR_THE_TOP.findall(before)}
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The event is no JSON: {str(error)[:100]}.") from None
    if not isinstance(told, dict):
        raise InvalidInput("The event is no JSON object.")
    return told


def _our_tool(told: Mapping[str, Any]) -> str:
    """The name of our tool in the client's name for it: `mcp__deepwork__task_claim`, `mcp_deepwork_…`."""
    context = _plain_object(told.get("mcp_context"))
    if isinstance(server := context.get("server_name"), str) and "deepwork" in server.lower():
        return _text(context.get("tool_name"))
    name = _text(told.get("tool_name"))
    parts = name.split("__")
    if len(parts) == 3 and parts[0] == "mcp" and "deepwork" in parts[1].lower():
        return parts[2]
    return name.removeprefix("mcp_deepwork_") if name.startswith("mcp_deepwork_") else ""


def _object(value: Any) -> Mapping[str, Any]:
    """The JSON object in whatever a client wraps it: a text, a list of contents, a result with both."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else _object(value)
    if isinstance(value, list):
        return next(filter(None, map(_object, value[:8])), {})
    for key in _WRAPPINGS:
        inner = _object(value.get(key)) if isinstance(value, dict) else {}
        if inner:
            return inner
    return _plain_object(value)


def _plain_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value[:200] if isinstance(value, str) else ""
