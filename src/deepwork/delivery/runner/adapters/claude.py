"""Claude Code: `claude -p`, with a stream of JSON."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
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
    get_usd_micros,
    list_objects,
)
from deepwork.delivery.runner.adapters.wording import bound_reset
from deepwork.delivery.runner.models import (
    START_TOTAL,
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
from deepwork.kernel.foreign_text import read_moment
from deepwork.kernel.vendors import BY_NAME

DEFAULT_PERMISSION: Final = "acceptEdits"
_TOOL_END_PATTERN = re.compile(r'\{"type":\s?"user".*?"tool_use_id":\s?"([^"\\]+)"', re.DOTALL)
_PLAIN_TOOL_END_PATTERN = re.compile(
    r'\{"type":"user","message":\{"role":"user","content":\[\{"tool_use_id":"([\w-]{1,200})","type":"tool_result"[,}]',
    re.ASCII,
)
_KNOWN_TYPES = frozenset({"system", "assistant", "user", "rate_limit_event", "result"})
_RATE_LIMITED = 429
_PASSING_STATUSES = (408, 409, _RATE_LIMITED)
_FIRST_SERVER_ERROR = 500


def build_launch(request: LaunchRequest) -> Launch:
    """Build the command of a start. `--bare` is not among the flags, because it skips hooks."""
    flags = [*_list_session_flags(request), *_list_permission_flags(request)]
    env, files = {}, {}
    if request.mcp:
        config = request.folder / "mcp.json"
        flags += ["--mcp-config", str(config), "--strict-mcp-config"]
        env["MCP_CONNECTION_NONBLOCKING"] = "false"  # else the model may begin before our tools are there
        files[config] = _build_mcp_config(request.mcp)
    if request.program:
        hooks = request.folder / "hooks.json"
        flags += ["--settings", str(hooks)]  # in addition to those of the user and the project
        files[hooks] = _build_hooks(request.program)
    argv = ("claude", "-p", "--output-format", "stream-json", "--verbose", *flags)
    return Launch(argv, env, files, request.session_id)


def _build_mcp_config(server: McpServer) -> str:
    """Build the file that names our server."""
    entry = {"type": "stdio", "command": server.argv[0], "args": [*server.argv[1:]]}
    return json.dumps({"mcpServers": {SERVER_NAME: entry}}, indent=2)


def _build_hooks(program: Sequence[str]) -> str:
    """Build the settings with which it calls our hooks: they tell the agent things while it works."""
    vendor = BY_NAME["claude-code"]
    assert vendor.hooks
    entries = {
        theirs: {
            "type": "command",
            "command": shlex.join([*program, "hook", ours, "--client", vendor.name]),
            "timeout": vendor.hooks.timeout,
        }
        for ours, theirs in vendor.hooks.events.items()
    }
    return json.dumps({"hooks": {event: [{"hooks": [hook]}] for event, hook in entries.items()}}, indent=2)


def _list_session_flags(request: LaunchRequest) -> Iterator[str]:
    if request.profile.model:
        yield f"--model={request.profile.model}"
    if request.session_id:
        yield f"--{'resume' if request.is_resume else 'session-id'}={request.session_id}"
    if request.max_usd is not None:
        yield f"--max-budget-usd={request.max_usd:.6f}"


def _list_permission_flags(request: LaunchRequest) -> Iterator[str]:
    permission = "default" if request.is_review else request.profile.permission or DEFAULT_PERMISSION
    yield f"--permission-mode={permission}"
    yield from (f"--allowedTools={tool}" for tool in request.profile.allow)
    if request.mcp:
        yield f"--allowedTools=mcp__{SERVER_NAME}"


# The stream


def _read_details(event: Event) -> Iterator[TranscriptPart]:
    for block in list_objects(get_object(event, "message").get("content")):
        match block.get("type"):
            case "thinking":
                yield TranscriptPart("thought", get_text(block, "thinking"))
            case "tool_use":
                yield describe_tool(get_id(block, "id"), get_text(block, "name", 100), block.get("input"))
            case "tool_result":
                is_error = block.get("is_error") is True
                yield describe_answer(get_id(block, "tool_use_id"), block.get("content"), is_error=is_error)


def _read_event(event: Event, now: int) -> Iterator[Signal]:
    match event["type"]:
        case "system":
            yield from _read_system(event)
        case "assistant":
            yield from _read_assistant(event, now)
        case "user":
            for block in list_objects(get_object(event, "message").get("content")):
                if block.get("type") == "tool_result":
                    yield ToolEnded(get_id(block, "tool_use_id"))
        case "rate_limit_event":
            yield from _read_rate_limit(event, now)
        case "result":
            yield from _read_result(event, now)


def _read_system(event: Event) -> Iterator[Signal]:
    session_id = get_session_id(event, "session_id")
    if event.get("subtype") == "init" and session_id:
        yield SessionStarted(session_id, get_id(event, "model") or None)
    elif event.get("subtype") == "api_retry" and _may_pass(get_count(event, "error_status")):
        attempt = f"retry {get_count(event, 'attempt')} of {get_count(event, 'max_retries')}"
        status = f"{get_count(event, 'error_status') or ''} {get_text(event, 'error', 200)}".strip()
        yield TransientFailure(f"{status or 'the connection failed'}, {attempt}")


def _may_pass(status: int) -> bool:
    """Return whether a failed request may succeed later; it is retried also where the key is wrong."""
    return status in (0, *_PASSING_STATUSES) or status >= _FIRST_SERVER_ERROR


def _read_assistant(event: Event, now: int) -> Iterator[Signal]:
    """Read a part of a message: each part is a line, with the usage of the message so far."""
    message = get_object(event, "message")
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    if event.get("error") or message.get("model") == "<synthetic>":
        yield from explain(f"{_join_text(blocks)}\n{get_text(event, 'error', 200)}", now)
        return
    usage, id = message.get("usage"), get_id(message, "id")
    if id and isinstance(usage, dict):
        is_own = not event.get("parent_tool_use_id")  # a subagent has a context of its own
        yield _read_usage(id, usage, get_id(message, "model") or None, is_own=is_own)
    # What a subagent says is not a message of the agent.
    if not event.get("parent_tool_use_id") and (text := _join_text(blocks)):
        yield Said(text)
    for block in blocks:
        if block.get("type") == "tool_use":
            name = get_text(block, "name", 100)
            yield ToolStarted(get_id(block, "id"), name, describe_input(block.get("input")))


def _join_text(blocks: Sequence[Event]) -> str:
    return "".join([get_text(block, "text") for block in blocks if block.get("type") == "text"])


def _read_usage(key: str, usage: Event, model: str | None, *, is_own: bool) -> UsageReported:
    fresh = get_count(usage, "input_tokens") + get_count(usage, "cache_creation_input_tokens")
    cached, written = get_count(usage, "cache_read_input_tokens"), get_count(usage, "output_tokens")
    context = fresh + cached + written if is_own else None
    return UsageReported(key, fresh, cached, written, model=model, context=context)


def _read_rate_limit(event: Event, now: int) -> Iterator[Signal]:
    info = get_object(event, "rate_limit_info") or event
    goes_on = info.get("isUsingOverage") is True or info.get("overageStatus") in (
        "allowed",
        "allowed_warning",
    )
    if info.get("status") != "rejected" or goes_on:
        return
    scope = get_id(info, "rateLimitType")
    message = f"The limit {scope or 'of use'} was reached."
    resets_at = bound_reset(read_moment(info.get("resetsAt")), now)
    yield LimitReached(resets_at, message, scope)


def _read_result(event: Event, now: int) -> Iterator[Signal]:
    """Read the end: what the whole start used, with the vendor's own dollars, and how it went."""
    yield from _read_totals(event)
    errors = event.get("errors")
    lines = [each for each in errors if isinstance(each, str)] if isinstance(errors, list) else []
    text = get_text(event, "result") or clean_text("\n".join(lines), 16_000)
    subtype = get_id(event, "subtype")
    is_error = event.get("is_error") is True or subtype.startswith("error")
    yield Ended(is_error, text, _find_reason(event, subtype))
    if is_error:
        yield from _explain_result(event, text, now)


def _read_totals(event: Event) -> Iterator[Signal]:
    models = [each for each in get_object(event, "modelUsage").values() if isinstance(each, dict)]
    usd_micros = get_usd_micros(event, "total_cost_usd")
    if not models and usd_micros is None:
        return
    written = sum(get_count(each, "cacheCreationInputTokens") for each in models)
    yield UsageReported(
        START_TOTAL,
        sum(get_count(each, "inputTokens") for each in models) + written,
        sum(get_count(each, "cacheReadInputTokens") for each in models),
        sum(get_count(each, "outputTokens") for each in models),
        usd_micros,
        is_total=True,
    )


def _find_reason(event: Event, subtype: str) -> str:
    if event.get("stop_reason") == "tool_deferred":
        return "tool_deferred"
    status = get_count(event, "api_error_status")
    return f"api error {status}" if status else ("" if subtype == "success" else subtype)


def _explain_result(event: Event, text: str, now: int) -> Iterator[Signal]:
    """Say whether it was a limit or a passing failure: by the status of the API, else by the wording."""
    status = get_count(event, "api_error_status")
    found = explain(text, now)
    if status == _RATE_LIMITED:
        is_limit = bool(found) and isinstance(found[0], LimitReached)
        yield from found if is_limit else (LimitReached(None, text[:300], "rate"),)
    elif status >= _FIRST_SERVER_ERROR:
        yield TransientFailure(text[:300])
    elif not status and event.get("subtype") in ("success", "error_during_execution"):
        yield from found


ADAPTER: Final = StreamAdapter(
    "claude",
    build_launch,
    _read_event,
    _TOOL_END_PATTERN,
    _PLAIN_TOOL_END_PATTERN,
    '"tool_result"',
    _KNOWN_TYPES,
    takes_session_id=True,
    has_hooks=True,
    read_details=_read_details,
    takeover=("claude", "--resume"),
)
