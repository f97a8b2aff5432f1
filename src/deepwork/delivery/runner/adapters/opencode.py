"""opencode: `opencode run --format json`."""

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
    describe_answer,
    describe_tool,
    explain,
    get_count,
    get_id,
    get_object,
    get_session_id,
    get_text,
    get_usd_micros,
)
from deepwork.delivery.runner.adapters.wording import bound_reset
from deepwork.delivery.runner.models import (
    Ended,
    LimitReached,
    Said,
    SessionStarted,
    Signal,
    ToolEnded,
    ToolStarted,
    TranscriptPart,
    TransientFailure,
    UsageReported,
)
from deepwork.kernel.foreign_text import MAX_MOMENT, read_decimal, read_moment

APPROVING: Final = "allow"
"""The permission with which nothing is asked; a question in a headless run is refused."""
_READING_TOOLS = dict.fromkeys(("read", "glob", "grep", "list"), "allow")
_OUR_TOOLS = {f"{SERVER_NAME}_*": "allow"}
_KNOWN_TYPES = frozenset({"step_start", "text", "tool_use", "step_finish", "error"})
_FAILED_FINISHES = frozenset({"error", "length", "content-filter"})
_LOGGED_ERROR_PATTERN = re.compile(r'\berror(?:\.error)?="((?:[^"\\]|\\.)*)')
_RATE_LIMITED = 429
_FIRST_SERVER_ERROR = 500


def build_launch(request: LaunchRequest) -> Launch:
    """Build the command of a start. A new session gets its id from opencode.

    While it waits at a limit, its stream says nothing: only its log, on stderr, does.
    """
    profile = request.profile
    permission = "deny" if request.is_review else profile.permission or APPROVING
    flags = ["--dir", str(request.tree)] + (["--auto"] if permission == APPROVING else [])
    flags += ["--model", profile.model] if profile.model else []
    session_id = request.session_id if request.is_resume else None
    flags += ["--session", session_id] if session_id else []
    tools = {"*": permission} | (_READING_TOOLS | _OUR_TOOLS if request.is_review else {})
    env = {} if permission == APPROVING else {"OPENCODE_PERMISSION": json.dumps(tools)}
    env |= {"OPENCODE_CONFIG_CONTENT": _build_config(request.mcp)} if request.mcp else {}
    argv = ("opencode", "run", "--format", "json", "--print-logs", "--log-level", "ERROR", *flags)
    return Launch(argv, env, session_id=session_id)


def _build_config(server: McpServer) -> str:
    """Build the settings that add our server to those of the user."""
    entry = {"type": "local", "command": [*server.argv], "enabled": True}
    return json.dumps({"mcp": {SERVER_NAME: entry}})


# The log


def _read_log(text: str) -> str:
    """Return the errors in lines of its log; other text, such as a stack trace, as it is."""
    found = [line for line in (_read_log_line(line) for line in text.splitlines()) if line]
    return "\n".join(found)


def _read_log_line(line: str) -> str:
    if not line.startswith("timestamp="):
        return line
    match = _LOGGED_ERROR_PATTERN.search(line)
    return match[1] if match else ""


# The stream


def _read_details(event: Event) -> Iterator[TranscriptPart]:
    part = get_object(event, "part")
    if event["type"] != "tool_use":
        return
    id, state = get_id(part, "callID") or get_id(part, "id"), get_object(part, "state")
    yield describe_tool(id, get_text(part, "tool", 100), state.get("input"))
    answer = state.get("output") or state.get("error")
    yield describe_answer(id, answer, is_error=state.get("status") == "error")


def _read_event(event: Event, now: int) -> Iterator[Signal]:
    part = get_object(event, "part")
    match event["type"]:
        case "step_start":
            session_id = get_session_id(event, "sessionID")
            if session_id:
                yield SessionStarted(session_id)
        case "text":
            yield Said(get_text(part, "text"))
        case "tool_use":  # comes when the tool has answered
            id = get_id(part, "callID") or get_id(part, "id")
            yield ToolStarted(id, get_id(part, "tool"), _describe_tool(part))
            yield ToolEnded(id)
        case "step_finish":
            yield from _read_step(part)
        case "error":
            yield from _read_error(get_object(event, "error"), now)


def _describe_tool(part: Event) -> str:
    state = get_object(part, "state")
    return (get_text(state, "title") or get_text(get_object(state, "input"), "command"))[:200]


def _read_step(part: Event) -> Iterator[Signal]:
    """Read the end of a step: dollars of 0 mean that opencode has no price of the model."""
    tokens, cache = get_object(part, "tokens"), get_object(part, "tokens", "cache")
    fresh, cached = get_count(tokens, "input") + get_count(cache, "write"), get_count(cache, "read")
    written = get_count(tokens, "output") + get_count(tokens, "reasoning")
    yield UsageReported(
        get_id(part, "id"),
        fresh,
        cached,
        written,
        get_usd_micros(part, "cost") or None,
        context=fresh + cached + written,
    )
    reason = get_id(part, "reason")
    if reason != "tool-calls":
        yield Ended(reason in _FAILED_FINISHES, reason="" if reason == "stop" else reason)


def _read_error(error: Event, now: int) -> Iterator[Signal]:
    data = get_object(error, "data")
    name = get_id(error, "name")
    text = get_text(data, "message") or get_text(error, "message") or name
    yield Ended(is_error=True, text=text, reason=name)
    yield from _explain_error(data, text, now)


def _explain_error(data: Event, text: str, now: int) -> Iterator[Signal]:
    """Say whether it was a limit or a passing failure: by the status of the API, else by the wording."""
    status = get_count(data, "statusCode")
    found = explain(text, now)
    if status == _RATE_LIMITED:
        resets_at = _find_reset(get_object(data, "responseHeaders"), now)
        known = found[0].resets_at if found and isinstance(found[0], LimitReached) else None
        yield LimitReached(resets_at or known, text[:300], "rate")
    elif status >= _FIRST_SERVER_ERROR:
        yield TransientFailure(text[:300])
    elif not status or data.get("isRetryable") is True:
        yield from found


def _find_reset(headers: Event, now: int) -> int | None:
    milliseconds = read_decimal(headers.get("retry-after-ms"), MAX_MOMENT)
    seconds = read_decimal(headers.get("retry-after"), MAX_MOMENT)
    if milliseconds or seconds:
        return bound_reset(now + int(milliseconds or (seconds or 0) * 1000), now)
    reset = read_decimal(headers.get("anthropic-ratelimit-unified-reset"), MAX_MOMENT)
    return bound_reset(read_moment(reset), now)


ADAPTER: Final = StreamAdapter(
    "opencode",
    build_launch,
    _read_event,
    read_log=_read_log,
    known_types=_KNOWN_TYPES,
    read_details=_read_details,
    takeover=("opencode", "--session"),
)
