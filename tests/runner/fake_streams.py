"""The streams of the agents' command lines, as the scripted agent writes them: one class per vendor."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

MODEL = "scripted-1"
"""No price list has it: money is what the stream reports."""

TOKENS = ("input", "cached", "output")
MONEY = ("usd_micros",)


@dataclass(frozen=True)
class Used:
    """Tokens and money of one answer of the model; `input` is without `cached`."""

    input: int = 0
    cached: int = 0
    output: int = 0
    usd_micros: int = 0

    def __add__(self, other: Used) -> Used:
        return Used(
            self.input + other.input,
            self.cached + other.cached,
            self.output + other.output,
            self.usd_micros + other.usd_micros,
        )

    def pick(self, names: tuple[str, ...]) -> Used:
        """Return only these amounts."""
        return Used(**{name: getattr(self, name) for name in names})


class Stream:
    """Builds the lines of a vendor; the base is a plain command, which has hardly any format."""

    vendor = "command"
    reports: tuple[str, ...] = ()
    """What it reports of each answer of the model: fields of `Used`."""
    reports_at_end: tuple[str, ...] = TOKENS + MONEY
    """What it reports of the whole process, in its last line."""
    reports_failures = True
    """Whether the last line reports it also when the process failed."""
    reports_session = False
    """Whether the last line reports what the session used, also in processes that were killed."""

    def __init__(self, arguments: list[str]) -> None:
        self.arguments = arguments
        self.resumed = self.find_resumed()
        self.session = self.resumed or self.find_chosen() or self.new_session()
        self.total = Used()
        """What this session has used, over all its processes."""
        self.used = Used()
        """What this process has used."""
        self.owed = Used()
        """What this process has used and not reported."""

    # the arguments

    def find_resumed(self) -> str | None:
        return None

    def find_chosen(self) -> str | None:
        return None

    def new_session(self) -> str:
        return str(uuid.uuid4())

    def get_option(self, name: str) -> str | None:
        """Return the value of an option, written `--name value` or `--name=value`."""
        for place, word in enumerate(self.arguments):
            if word == name and place + 1 < len(self.arguments):
                return self.arguments[place + 1]
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
        return None

    # the lines

    def begin(self, folder: str) -> list[Any]:
        return []

    def say(self, text: str) -> list[Any]:
        return [text]

    def start_tool(self, id: str, name: str, detail: str) -> list[Any]:
        return [f"{name}: {detail}"]

    def end_tool(self, id: str, name: str, detail: str) -> list[Any]:
        return []

    def report_answer(self, used: Used) -> list[Any]:
        """Report an answer of the model; `used` is already in the sums."""
        return []

    def limit(self, resets_at: float | None) -> list[Any]:
        words = "usage limit reached"
        if resets_at is not None:
            words += f", try again in {max(0, resets_at - time.time()):.1f}s"
        return self.end(words, is_error=True)

    def fail_for_a_moment(self) -> list[Any]:
        return self.end("error 503: overloaded", is_error=True)

    def end(self, text: str, *, is_error: bool) -> list[Any]:
        usage = {
            "input_tokens": self.used.input,
            "cached_tokens": self.used.cached,
            "output_tokens": self.used.output,
        }
        result: dict[str, Any] = {"type": "result", "is_error": is_error, "result": text, "usage": usage}
        result["total_cost_usd"] = self.used.usd_micros / 1e6
        return [result] if is_error else [result, text]

    # the sums

    def add(self, used: Used) -> None:
        """Count an answer of the model."""
        self.used, self.total, self.owed = self.used + used, self.total + used, self.owed + used

    def settle(self, *, is_error: bool) -> Used:
        """Return what the last line reports that no line before did."""
        if is_error and not self.reports_failures:
            return Used()
        owed, self.owed = self.owed.pick(self.reports_at_end), Used()
        return owed


class ClaudeStream(Stream):
    vendor = "claude"
    reports = TOKENS
    reports_at_end = MONEY

    def find_resumed(self) -> str | None:
        return self.get_option("--resume")

    def find_chosen(self) -> str | None:
        return self.get_option("--session-id")

    def begin(self, folder: str) -> list[Any]:
        init = {"type": "system", "subtype": "init", "cwd": folder, "model": MODEL, "tools": ["Bash", "Edit"]}
        return [self._sign({**init, "mcp_servers": [], "permissionMode": "default"})]

    def say(self, text: str) -> list[Any]:
        return [self._build_message({"type": "text", "text": text}, Used())]

    def start_tool(self, id: str, name: str, detail: str) -> list[Any]:
        return [
            self._build_message(
                {"type": "tool_use", "id": id, "name": name, "input": {"command": detail}}, Used()
            )
        ]

    def end_tool(self, id: str, name: str, detail: str) -> list[Any]:
        content = [{"tool_use_id": id, "type": "tool_result", "content": "ok", "is_error": False}]
        return [self._sign({"type": "user", "message": {"role": "user", "content": content}})]

    def report_answer(self, used: Used) -> list[Any]:
        line = self._build_message({"type": "text", "text": "Thinking."}, used)
        return [line, line]  # each block of an answer repeats its usage

    def limit(self, resets_at: float | None) -> list[Any]:
        info: dict[str, Any] = {"status": "rejected", "rateLimitType": "five_hour"}
        if resets_at is not None:
            info["resetsAt"] = int(resets_at)
        return [
            self._sign({"type": "rate_limit_event", "rate_limit_info": info}),
            *self.end("You've hit your limit", is_error=True),
        ]

    def fail_for_a_moment(self) -> list[Any]:
        retry = {
            "type": "system",
            "subtype": "api_retry",
            "attempt": 1,
            "error_status": 529,
            "error": "overloaded",
        }
        return [
            self._sign(retry),
            *self.end('API Error: 529 {"type":"overloaded_error","message":"Overloaded"}', is_error=True),
        ]

    def end(self, text: str, *, is_error: bool) -> list[Any]:
        """End with the sums of this process."""
        usage = _describe_anthropic(self.used)
        models = {
            MODEL: {
                "inputTokens": self.used.input,
                "outputTokens": self.used.output,
                "cacheReadInputTokens": self.used.cached,
                "cacheCreationInputTokens": 0,
                "costUSD": self.used.usd_micros / 1e6,
            }
        }
        result = {
            "type": "result", "subtype": "success", "is_error": is_error, "num_turns": 1, "result": text,
            "total_cost_usd": self.used.usd_micros / 1e6, "usage": usage, "modelUsage": models,
        }  # fmt: skip
        return [self._sign(result)]

    def _build_message(self, block: dict[str, Any], used: Used) -> dict[str, Any]:
        message = {
            "id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": MODEL,
            "content": [block], "stop_reason": None, "usage": _describe_anthropic(used),
        }  # fmt: skip
        return self._sign({"type": "assistant", "message": message, "parent_tool_use_id": None})

    def _sign(self, line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "session_id": self.session, "uuid": str(uuid.uuid4())}


class CodexStream(Stream):
    vendor = "codex"
    reports_at_end = TOKENS
    reports_failures = False
    reports_session = True

    def find_resumed(self) -> str | None:
        if "resume" not in self.arguments:
            return None
        return self.arguments[self.arguments.index("resume") + 1]

    def begin(self, folder: str) -> list[Any]:
        return [{"type": "thread.started", "thread_id": self.session}, {"type": "turn.started"}]

    def say(self, text: str) -> list[Any]:
        item = {"id": f"item_{uuid.uuid4().hex[:6]}", "type": "agent_message", "text": text}
        return [{"type": "item.completed", "item": item}]

    def start_tool(self, id: str, name: str, detail: str) -> list[Any]:
        return [{"type": "item.started", "item": self._build_command(id, detail, None, "in_progress")}]

    def end_tool(self, id: str, name: str, detail: str) -> list[Any]:
        return [{"type": "item.completed", "item": self._build_command(id, detail, 0, "completed")}]

    def limit(self, resets_at: float | None) -> list[Any]:
        words = "You've hit your usage limit."
        if resets_at is not None:
            words = f"{words} Please try again in {max(0, resets_at - time.time()):.1f}s."
        return self._fail(words)

    def fail_for_a_moment(self) -> list[Any]:
        return self._fail("stream disconnected before completion: Transport error")

    def end(self, text: str, *, is_error: bool) -> list[Any]:
        """End the turn: the figures are those of the whole thread, and the input includes what was cached."""
        usage = {
            "input_tokens": self.total.input + self.total.cached,
            "cached_input_tokens": self.total.cached,
            "output_tokens": self.total.output,
            "reasoning_output_tokens": 0,
        }
        return self._fail(text) if is_error else [*self.say(text), {"type": "turn.completed", "usage": usage}]

    def _fail(self, message: str) -> list[Any]:
        return [{"type": "error", "message": message}, {"type": "turn.failed", "error": {"message": message}}]

    def _build_command(self, id: str, command: str, code: int | None, status: str) -> dict[str, Any]:
        return {
            "id": id, "type": "command_execution", "command": command, "aggregated_output": "",
            "exit_code": code, "status": status,
        }  # fmt: skip


class GeminiStream(Stream):
    vendor = "gemini"
    reports_at_end = TOKENS

    def find_resumed(self) -> str | None:
        return self.get_option("--resume")

    def begin(self, folder: str) -> list[Any]:
        return [{"type": "init", "timestamp": _now(), "session_id": self.session, "model": MODEL}]

    def say(self, text: str) -> list[Any]:
        return [{"type": "message", "timestamp": _now(), "role": "assistant", "content": text, "delta": True}]

    def start_tool(self, id: str, name: str, detail: str) -> list[Any]:
        use = {"type": "tool_use", "timestamp": _now(), "tool_name": name, "tool_id": id}
        return [{**use, "parameters": {"command": detail}}]

    def end_tool(self, id: str, name: str, detail: str) -> list[Any]:
        return [
            {"type": "tool_result", "timestamp": _now(), "tool_id": id, "status": "success", "output": "ok"}
        ]

    def limit(self, resets_at: float | None) -> list[Any]:
        words = "You have exhausted your capacity on this model."
        if resets_at is not None:
            words += f" Your quota will reset after {max(0, round(resets_at - time.time()))}s."
        return self._fail(words)

    def fail_for_a_moment(self) -> list[Any]:
        return self._fail("The model is overloaded. Please try again later. (503 UNAVAILABLE)")

    def end(self, text: str, *, is_error: bool) -> list[Any]:
        return self._fail(text) if is_error else [*self.say(text), self._build_result("success")]

    def _fail(self, message: str) -> list[Any]:
        error = {"type": "error", "timestamp": _now(), "severity": "error", "message": message}
        return [error, {**self._build_result("error"), "error": {"type": "Error", "message": message}}]

    def _build_result(self, status: str) -> dict[str, Any]:
        stats = {
            "total_tokens": self.used.input + self.used.cached + self.used.output,
            "input_tokens": self.used.input + self.used.cached,
            "output_tokens": self.used.output,
            "cached": self.used.cached,
            "input": self.used.input,
            "duration_ms": 1,
            "tool_calls": 0,
        }
        return {"type": "result", "timestamp": _now(), "status": status, "stats": stats}


class OpencodeStream(Stream):
    vendor = "opencode"
    reports = TOKENS + MONEY
    reports_at_end = ()

    def find_resumed(self) -> str | None:
        return self.get_option("--session")

    def new_session(self) -> str:
        return f"ses_{uuid.uuid4().hex[:26]}"

    def begin(self, folder: str) -> list[Any]:
        return [self._build("step_start", {"type": "step-start"})]

    def say(self, text: str) -> list[Any]:
        return [self._build("text", {"type": "text", "text": text})]

    def end_tool(self, id: str, name: str, detail: str) -> list[Any]:
        state = {"status": "completed", "input": {"command": detail}, "output": "ok"}
        return [self._build("tool_use", {"type": "tool", "callID": id, "tool": name.lower(), "state": state})]

    def start_tool(self, id: str, name: str, detail: str) -> list[Any]:
        return []  # reported only when it has ended

    def report_answer(self, used: Used) -> list[Any]:
        return [self._finish_step(used, "tool-calls")]

    def _finish_step(self, used: Used, reason: str) -> dict[str, Any]:
        cache = {"read": used.cached, "write": 0}
        tokens = {"input": used.input, "output": used.output, "reasoning": 0, "cache": cache}
        finish = {"type": "step-finish", "reason": reason, "cost": used.usd_micros / 1e6, "tokens": tokens}
        return self._build("step_finish", finish)

    def limit(self, resets_at: float | None) -> list[Any]:
        headers = {}
        if resets_at is not None:
            headers["retry-after"] = str(max(0, round(resets_at - time.time())))
        return self._fail("Rate limit reached: too many requests", 429, headers)

    def fail_for_a_moment(self) -> list[Any]:
        return self._fail("Service overloaded", 503, {})

    def end(self, text: str, *, is_error: bool) -> list[Any]:
        if is_error:
            return self._fail(text, 400, {})
        return [*self.say(text), self._finish_step(Used(), "stop")]

    def _fail(self, message: str, status: int, headers: dict[str, str]) -> list[Any]:
        data = {"message": message, "statusCode": status, "isRetryable": False, "responseHeaders": headers}
        error = {"name": "APIError", "data": data}
        return [{"type": "error", "timestamp": 0, "sessionID": self.session, "error": error}]

    def _build(self, kind: str, part: dict[str, Any]) -> dict[str, Any]:
        ids = {"id": f"prt_{uuid.uuid4().hex[:20]}", "messageID": "msg_1", "sessionID": self.session}
        return {"type": kind, "timestamp": 0, "sessionID": self.session, "part": {**ids, **part}}


STREAMS: dict[str, type[Stream]] = {
    each.vendor: each for each in (Stream, ClaudeStream, CodexStream, GeminiStream, OpencodeStream)
}


def encode_line(line: Any) -> bytes:
    """Return one line of a stream: text as it is, everything else as JSON."""
    return (line if isinstance(line, str) else json.dumps(line)).encode() + b"\n"


def _describe_anthropic(used: Used) -> dict[str, int]:
    return {
        "input_tokens": used.input, "output_tokens": used.output,
        "cache_read_input_tokens": used.cached, "cache_creation_input_tokens": 0,
    }  # fmt: skip


def _now() -> str:
    return datetime.now(UTC).isoformat()
