"""Any command: its last line of words is its message, its exit code the result.

A line that is a JSON object `{"type": "result", "is_error": …}` may say that it failed, what it came to
(`result`), and what it used: `usage: {input_tokens, cached_tokens, output_tokens}`, `total_cost_usd`,
`model`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from deepwork.delivery.runner.adapters.base import (
    MAX_TEXT,
    Event,
    Launch,
    LaunchRequest,
    clean_text,
    describe_signals,
    finish_state,
    get_count,
    get_id,
    get_now,
    get_object,
    get_text,
    get_usd_micros,
    parse_event,
)
from deepwork.delivery.runner.models import (
    START_TOTAL,
    Ended,
    LimitReached,
    Said,
    Signal,
    TranscriptPart,
    UsageReported,
)
from deepwork.delivery.runner.profiles import COMMAND_KIND, PROMPT_FILE_FIELD
from deepwork.delivery.runner.stream_state import StreamState
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import copy_with

MAX_MESSAGE_BYTES = 2048


@dataclass(frozen=True)
class CommandAdapter:
    """Any command."""

    kind: str = COMMAND_KIND
    takes_session_id: bool = False
    has_hooks: bool = False

    def build_launch(self, request: LaunchRequest) -> Launch:
        """Build the command of a start: the profile's words, with the path of the prompt file in them."""
        path = str(request.prompt_file)
        return Launch(tuple(word.replace(PROMPT_FILE_FIELD, path) for word in request.profile.run))

    def read_line(self, line: str, *, now: int | None = None) -> tuple[Signal, ...]:  # noqa: ARG002 - as others
        """Return what a line says."""
        event = parse_event(line) if '"result"' in line else None
        is_result = event is not None and event["type"] == "result"
        return (*_read_message(line), *(_read_result(event) if event is not None and is_result else ()))

    def read_parts(self, line: str, *, now: int | None = None) -> tuple[TranscriptPart, ...]:
        """Return what a line says to people: all that it printed, and how it went if it says so."""
        parts = tuple(describe_signals(self.read_line(line, now=now)))
        if any(part.kind == "end" for part in parts):
            return parts
        text = clean_text(line.rstrip()[:MAX_TEXT], MAX_TEXT)
        return (TranscriptPart("output", text),) if text else ()

    def build_takeover(self, session_id: str) -> None:
        """Return None: a command has no session."""

    def find_awaited_limit(self, stderr_tail: str, *, now: int) -> LimitReached | None:  # noqa: ARG002 - as others
        """Return None: its errors may be about anything."""
        return None

    def finish(
        self, state: StreamState, exit_code: int | None, stderr_tail: str, *, now: int | None = None
    ) -> StreamState:
        """Return the state after the process ended: without a line that says otherwise, 0 is a success."""
        if exit_code == 0 and state.ended is None:
            state = copy_with(state, ended=Ended(is_error=False))
        return finish_state(state, exit_code, stderr_tail, get_now(now))


def _read_message(line: str) -> Iterator[Signal]:
    if not is_words(line):
        return
    text = clean_text(line.strip()[:MAX_MESSAGE_BYTES], MAX_MESSAGE_BYTES)
    if text := text.encode()[:MAX_MESSAGE_BYTES].decode("utf-8", "ignore").strip():
        yield Said(text)


def is_words(line: str) -> bool:
    """Return whether a line is meant for people: it has letters or digits, and is no JSON object or list."""
    if not any(map(str.isalnum, line)):
        return False
    if not line.strip().startswith(("{", "[")):
        return True
    try:
        return not isinstance(json.loads(line), dict | list)
    except (ValueError, RecursionError):
        return True


def _read_result(event: Event) -> Iterator[Signal]:
    usage, model = get_object(event, "usage"), get_id(event, "model") or None
    usd_micros = get_usd_micros(event, "total_cost_usd")
    if usage or model or usd_micros is not None:
        yield UsageReported(
            START_TOTAL,
            get_count(usage, "input_tokens"),
            get_count(usage, "cached_tokens"),
            get_count(usage, "output_tokens"),
            usd_micros,
            model,
            is_total=True,
        )
    text = get_text(event, "result", MAX_MESSAGE_BYTES)
    yield Ended(event.get("is_error") is True, text, get_id(event, "subtype"))


ADAPTER = CommandAdapter()
