"""Gemini CLI: `gemini -p`, with a stream of JSON."""

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
    describe_input,
    describe_tool,
    explain,
    get_count,
    get_id,
    get_object,
    get_session_id,
    get_text,
)
from deepwork.delivery.runner.models import (
    START_TOTAL,
    Ended,
    Said,
    SessionStarted,
    Signal,
    ToolEnded,
    ToolStarted,
    TranscriptPart,
    UsageReported,
)

DEFAULT_PERMISSION: Final = "yolo"
_SETTINGS_VARIABLE = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
_TOOL_END_PATTERN = re.compile(r'\{"type":\s?"tool_result".*?"tool_id":\s?"([^"\\]+)"', re.DOTALL)
_PLAIN_TOOL_END_PATTERN = re.compile(
    r'\{"type":"tool_result","timestamp":"[^"\\]*","tool_id":"([\w-]{1,200})"[,}]', re.ASCII
)
_KNOWN_TYPES = frozenset({"init", "message", "tool_use", "tool_result", "error", "result"})


def build_launch(request: LaunchRequest) -> Launch:
    """Build the command of a start.

    Gemini CLI takes our server only from a file in folders of root, as in a container; elsewhere it warns on
    stderr and works without it. Its other places for settings are the tree and the user's own folder.
    """
    env, files = {}, {}
    if request.profile.sandbox:
        env["GEMINI_SANDBOX"] = request.profile.sandbox
    if request.mcp:
        settings = request.folder / "gemini-settings.json"
        env[_SETTINGS_VARIABLE] = str(settings)
        files[settings] = _build_settings(request.mcp)
    argv = ("gemini", "-p", "", "-o", "stream-json", "--skip-trust", *_list_flags(request))
    return Launch(argv, env, files, request.session_id)


def _list_flags(request: LaunchRequest) -> Iterator[str]:
    profile = request.profile
    permission = "default" if request.is_review else profile.permission or DEFAULT_PERMISSION
    yield f"--approval-mode={permission}"
    if profile.model:
        yield f"--model={profile.model}"
    yield from (f"--allowed-tools={tool}" for tool in profile.allow)
    if request.session_id:
        yield f"--{'resume' if request.is_resume else 'session-id'}={request.session_id}"


def _build_settings(server: McpServer) -> str:
    """Build the settings that add our server to those of the user."""
    entry = {"command": server.argv[0], "args": [*server.argv[1:]], "trust": True}
    return json.dumps({"mcpServers": {SERVER_NAME: entry}}, indent=2)


# The stream


def _read_details(event: Event) -> Iterator[TranscriptPart]:
    id = get_id(event, "tool_id")
    if event["type"] == "tool_use":
        yield describe_tool(id, get_text(event, "tool_name", 100), event.get("parameters"))
    elif event["type"] == "tool_result":
        answer = event.get("output") or get_object(event, "error").get("message")
        yield describe_answer(id, answer, is_error=event.get("status") == "error")


def _read_event(event: Event, now: int) -> Iterator[Signal]:
    match event["type"]:
        case "init":
            session_id = get_session_id(event, "session_id")
            if session_id:
                yield SessionStarted(session_id, get_id(event, "model") or None)
        case "message" if event.get("role") == "assistant":
            yield Said(get_text(event, "content"), is_delta=event.get("delta") is True)
        case "tool_use":
            name = clean_text(get_text(event, "tool_name"), 100)
            yield ToolStarted(get_id(event, "tool_id"), name, describe_input(event.get("parameters")))
        case "tool_result":
            yield ToolEnded(get_id(event, "tool_id"))
        case "error" if event.get("severity") == "error":
            yield from explain(get_text(event, "message"), now)
        case "result":
            yield from _read_result(event, now)


def _read_result(event: Event, now: int) -> Iterator[Signal]:
    yield from _read_stats(get_object(event, "stats"))
    is_error = event.get("status") != "success"
    error = get_object(event, "error")
    text = get_text(error, "message")
    yield Ended(is_error, text, get_id(error, "type"))
    if is_error:
        yield from explain(text, now) or explain(get_id(error, "type"), now)


def _read_stats(stats: Event) -> Iterator[Signal]:
    """Read what each model used in this start."""
    models = get_object(stats, "models") or {"": stats}
    for name, figures in models.items():
        if isinstance(figures, dict) and figures:
            yield _read_model(clean_text(name, 100), figures)


def _read_model(name: str, figures: Event) -> UsageReported:
    """Read a model's figures: the total also has the model's thoughts, which cost as output does."""
    read, cached = get_count(figures, "input_tokens"), get_count(figures, "cached")
    written = max(get_count(figures, "output_tokens"), get_count(figures, "total_tokens") - read)
    return UsageReported(
        f"{START_TOTAL}/{name}", max(0, read - cached), cached, written, model=name or None, is_total=True
    )


ADAPTER: Final = StreamAdapter(
    "gemini",
    build_launch,
    _read_event,
    _TOOL_END_PATTERN,
    _PLAIN_TOOL_END_PATTERN,
    known_types=_KNOWN_TYPES,
    read_details=_read_details,
    takeover=("gemini", "--resume"),
)
