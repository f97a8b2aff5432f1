"""Streams of agents for tests: recorded from the real programs, and constructed where none could be recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from deepwork.delivery.runner.adapters import get_adapter
from deepwork.delivery.runner.stream_state import StreamState, apply

RECORDED_FOLDER = Path(__file__).parent / "streams"
NOW = 1_794_950_000_000
"""2026-11-17T21:13:20Z."""


@dataclass(frozen=True)
class Stream:
    """The lines of one start of an agent."""

    kind: str
    name: str
    lines: tuple[str, ...]

    def __repr__(self) -> str:
        return self.name


def load_recorded() -> list[Stream]:
    """Load the streams that were recorded; their files are called `<kind>_<scene>.jsonl`."""
    paths = sorted(RECORDED_FOLDER.glob("*.jsonl"))
    return [Stream(path.stem.split("_")[0], path.stem, tuple(_read_lines(path))) for path in paths]


def _read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def read_all(kind: str, lines: Iterable[str], state: StreamState | None = None) -> StreamState:
    """Read lines into a state."""
    adapter = get_adapter(kind)
    state = StreamState() if state is None else state
    for line in lines:
        state = apply(state, adapter.read_line(line, now=NOW))
    return state


def to_line(**event: object) -> str:
    """Write an event."""
    return json.dumps(event)


# Constructed: no program was asked for these


def build_message(
    id: str, *blocks: dict[str, object], output: int = 10, parent: str | None = None, **more: object
) -> str:
    """Construct a part of a message of Claude Code."""
    usage = {
        "input_tokens": 100,
        "cache_read_input_tokens": 2000,
        "cache_creation_input_tokens": 50,
        "output_tokens": output,
    }
    message = {"id": id, "model": "claude-opus-4-8", "content": blocks, "usage": usage}
    return to_line(type="assistant", message=message, parent_tool_use_id=parent, **more)


def text_block(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def tool_block(id: str, name: str = "Bash", **given: object) -> dict[str, object]:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def tool_answer(id: str, text: str = "ok") -> str:
    """Construct the answer of a tool, as Claude Code writes it."""
    block = {"tool_use_id": id, "type": "tool_result", "content": text}
    event = {"type": "user", "message": {"role": "user", "content": [block]}}
    return json.dumps(event, separators=(",", ":"))


CLAUDE_INIT = to_line(type="system", subtype="init", session_id="s-1", model="claude-opus-4-8[1m]")
CLAUDE_RESULT = to_line(
    type="result",
    subtype="success",
    is_error=False,
    result="All done.",
    total_cost_usd=0.25,
    modelUsage={
        "claude-opus-4-8[1m]": {
            "inputTokens": 240,
            "outputTokens": 500,
            "cacheReadInputTokens": 4000,
            "cacheCreationInputTokens": 100,
            "costUSD": 0.2,
        },
        "claude-haiku-4-5": {"inputTokens": 30, "outputTokens": 5, "costUSD": 0.05},
    },
)
CONSTRUCTED = [
    Stream(
        "claude",
        "constructed_claude_subagent",
        (
            CLAUDE_INIT,
            build_message("m1", text_block("I begin.")),
            build_message("m1", tool_block("t1", "Task", description="look around")),
            build_message("m2", tool_block("t2", command="ls"), parent="t1"),
            build_message("m2", text_block("found it"), parent="t1", output=40),
            tool_answer("t2"),
            tool_answer("t1"),
            CLAUDE_RESULT,
        ),
    ),
    Stream(
        "claude",
        "constructed_claude_limit_of_a_subscription",
        (
            CLAUDE_INIT,
            build_message("m1", tool_block("t1", command="make")),
            to_line(
                type="rate_limit_event",
                rate_limit_info={"status": "allowed_warning", "resetsAt": NOW // 1000 + 60},
            ),
            tool_answer("t1"),
            to_line(
                type="rate_limit_event",
                rate_limit_info={
                    "status": "rejected",
                    "resetsAt": NOW // 1000 + 7777,
                    "rateLimitType": "five_hour",
                },
            ),
            to_line(
                type="assistant",
                message={
                    "id": "m2",
                    "model": "<synthetic>",
                    "content": [text_block("You've hit your session limit · resets 11:20pm (UTC)")],
                    "usage": {},
                },
                error="rate_limit",
            ),
            to_line(
                type="result",
                subtype="success",
                is_error=True,
                api_error_status=429,
                result="You've hit your session limit · resets 11:20pm (UTC)",
                total_cost_usd=0.01,
            ),
        ),
    ),
    Stream(
        "codex",
        "constructed_codex_two_turns",
        (
            to_line(type="thread.started", thread_id="th-1"),
            to_line(type="turn.started"),
            to_line(type="item.started", item={"id": "i1", "type": "command_execution", "command": "make"}),
            to_line(type="error", message="Reconnecting... 2/5 (stream disconnected before completion)"),
            to_line(type="item.completed", item={"id": "i1", "type": "command_execution"}),
            to_line(type="item.completed", item={"id": "i2", "type": "agent_message", "text": "One."}),
            to_line(
                type="turn.completed",
                usage={"input_tokens": 1000, "cached_input_tokens": 400, "output_tokens": 50},
            ),
            to_line(type="item.completed", item={"id": "i3", "type": "agent_message", "text": "Two."}),
            to_line(
                type="turn.completed",
                usage={"input_tokens": 1500, "cached_input_tokens": 700, "output_tokens": 90},
            ),
        ),
    ),
    Stream(
        "gemini",
        "constructed_gemini_parts_of_a_text",
        (
            to_line(type="init", session_id="g-1", model="auto"),
            to_line(type="message", role="user", content="Do it."),
            to_line(type="message", role="assistant", content="I ", delta=True),
            to_line(type="message", role="assistant", content="look.", delta=True),
            to_line(type="tool_use", tool_id="t1", tool_name="read_file", parameters={"path": "a.txt"}),
            to_line(type="tool_result", tool_id="t1", status="success"),
            to_line(type="message", role="assistant", content="Do", delta=True),
            to_line(type="message", role="assistant", content="ne.", delta=True),
            to_line(
                type="result",
                status="success",
                stats={
                    "models": {
                        "gemini-3.5-flash": {
                            "input_tokens": 900,
                            "cached": 300,
                            "output_tokens": 40,
                            "total_tokens": 1000,
                        },
                        "gemini-unknown": {"input_tokens": 10, "cached": 0, "output_tokens": 2},
                    }
                },
            ),
        ),
    ),
    Stream(
        "opencode",
        "constructed_opencode_with_dollars",
        (
            to_line(type="step_start", sessionID="ses_1", part={"id": "p0"}),
            to_line(
                type="tool_use",
                part={"callID": "c1", "tool": "bash", "state": {"input": {"command": "make"}}},
            ),
            to_line(
                type="step_finish",
                part={
                    "id": "p1",
                    "reason": "tool-calls",
                    "cost": 0.002,
                    "tokens": {"input": 10, "output": 5, "reasoning": 2, "cache": {"read": 7, "write": 3}},
                },
            ),
            to_line(type="text", part={"text": "Ready."}),
            to_line(
                type="step_finish",
                part={"id": "p2", "reason": "stop", "cost": 0.001, "tokens": {"input": 4, "output": 1}},
            ),
        ),
    ),
    Stream("command", "constructed_command", ("starting", "", "step 1", "All written.", "  ")),
]
STREAMS = load_recorded() + CONSTRUCTED
