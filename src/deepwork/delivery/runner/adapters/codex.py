"""Codex: `codex exec --json`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from deepwork.delivery.runner.adapters.base import (
    SERVER_NAME,
    Event,
    Launch,
    LaunchRequest,
    McpServer,
    StreamAdapter,
    clean_text,
    describe_answer,
    describe_tool,
    explain,
    get_count,
    get_id,
    get_object,
    get_session_id,
    get_text,
)
from deepwork.delivery.runner.models import (
    SESSION_TOTAL,
    Ended,
    Said,
    SessionStarted,
    Signal,
    ToolEnded,
    ToolStarted,
    TranscriptPart,
    UsageReported,
)

DEFAULT_SANDBOX: Final = "workspace-write"
_TOOL_END_PATTERN = re.compile(r'\{"type":\s?"item\.completed",\s?"item":\s?\{"id":\s?"([^"\\]+)"')
_TOOLS = {
    "command_execution": "command",
    "mcp_tool_call": "tool",
    "web_search": "query",
    "collab_tool_call": "tool",
    "file_change": "",
}
"""The items that are work of a tool, and the key that says what it does."""

_PLAIN_TOOL_END_PATTERN = re.compile(
    rf'\{{"type":"item\.completed","item":\{{"id":"(\w{{1,200}})","type":"(?:{"|".join(_TOOLS)})"[,}}]',
    re.ASCII,
)
_KNOWN_TYPES = frozenset(
    {"thread.started", "item.started", "item.completed", "turn.completed", "turn.failed", "error"}
)


def build_launch(request: LaunchRequest) -> Launch:
    """Build the command of a start. Flags come before `resume`, which knows only some of them."""
    profile = request.profile
    sandbox = "read-only" if request.is_review else profile.sandbox or DEFAULT_SANDBOX
    flags = ["--cd", str(request.tree), "--sandbox", sandbox]
    flags += ["--model", profile.model] if profile.model else []
    flags += [*_list_mcp_flags(request.mcp)] if request.mcp else []
    flags += ["-o", str(request.folder / "last.txt")]
    session_id = request.session_id if request.is_resume else None
    flags += ["resume", session_id] if session_id else []
    return Launch(("codex", "exec", "--json", *flags, "-"), session_id=session_id)


def _list_mcp_flags(server: McpServer) -> Iterator[str]:
    """Build the settings of our server."""
    settings = {
        "command": _to_toml(server.argv[0]),
        "args": _to_toml([*server.argv[1:]]),
        "required": "true",
        "default_tools_approval_mode": _to_toml("approve"),
    }
    for key, value in settings.items():
        yield from ("-c", f"mcp_servers.{SERVER_NAME}.{key}={value}")


def _to_toml(value: str | list[str]) -> str:
    """Write a string or list of strings as TOML, which is JSON for these, but for one control character."""
    return json.dumps(value).replace("\x7f", "\\u007f")


# The stream


_ANSWER_KEYS = ("aggregated_output", "result", "error")
_OTHER_KEYS = frozenset({"id", "type", "status", "exit_code", *_ANSWER_KEYS})


def _read_details(event: Event) -> Iterator[TranscriptPart]:
    item = get_object(event, "item")
    id, kind = get_id(item, "id"), get_id(item, "type")
    if kind == "reasoning" and event["type"] == "item.completed":
        yield TranscriptPart("thought", get_text(item, "text"))
    elif kind in _TOOLS:
        given = {key: value for key, value in item.items() if key not in _OTHER_KEYS}
        yield describe_tool(id, kind, given)  # some items are only named when they are over
        if event["type"] == "item.completed":
            answer = next((item[key] for key in _ANSWER_KEYS if item.get(key)), None)
            yield describe_answer(id, answer, is_error=item.get("status") == "failed")


def _read_event(event: Event, now: int) -> Iterator[Signal]:
    match event["type"]:
        case "thread.started":
            thread_id = get_session_id(event, "thread_id")
            if thread_id:
                yield SessionStarted(thread_id)
        case "item.started":
            yield from _read_started(get_object(event, "item"))
        case "item.completed":
            yield from _read_completed(get_object(event, "item"))
        case "turn.completed":
            yield from _read_usage(get_object(event, "usage"))
            yield Ended(is_error=False)
        case "turn.failed":
            text = get_text(get_object(event, "error"), "message")
            yield Ended(is_error=True, text=text, reason="turn.failed")
            yield from explain(text, now)
        case "error":  # also while it retries; `turn.failed` follows if it gives up
            yield from explain(get_text(event, "message"), now)


def _read_started(item: Event) -> Iterator[Signal]:
    kind = get_id(item, "type")
    if kind not in _TOOLS or not get_id(item, "id"):
        return
    detail = clean_text(get_text(item, _TOOLS[kind])[:200], 200)
    server = get_id(item, "server")
    yield ToolStarted(get_id(item, "id"), kind, f"{server} {detail}".strip())


def _read_completed(item: Event) -> Iterator[Signal]:
    if item.get("type") == "agent_message":
        yield Said(get_text(item, "text"))
    elif get_id(item, "type") in _TOOLS:
        yield ToolEnded(get_id(item, "id"))


def _read_usage(usage: Event) -> Iterator[Signal]:
    """Read the total of the thread, in which input includes the cache, and output the reasoning."""
    if not usage:
        return
    cached = get_count(usage, "cached_input_tokens")
    fresh = max(0, get_count(usage, "input_tokens") - cached)
    yield UsageReported(SESSION_TOTAL, fresh, cached, get_count(usage, "output_tokens"), is_total=True)


ADAPTER: Final = StreamAdapter(
    "codex",
    build_launch,
    _read_event,
    _TOOL_END_PATTERN,
    _PLAIN_TOOL_END_PATTERN,
    known_types=_KNOWN_TYPES,
    read_details=_read_details,
    takeover=("codex", "resume"),
)
