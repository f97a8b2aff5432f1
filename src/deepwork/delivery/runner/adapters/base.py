"""What every adapter is and needs: the launch of an agent, and careful reading of what it writes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from deepwork.delivery.runner.adapters.wording import classify, find_reset, is_lost_session
from deepwork.delivery.runner.models import (
    Ended,
    LimitReached,
    Said,
    SessionStarted,
    Signal,
    ToolEnded,
    TranscriptPart,
    TransientFailure,
)
from deepwork.delivery.runner.stream_state import StreamState, apply
from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.kernel.foreign_text import MAX_TOKENS, MAX_USD, read_number, read_whole_number
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import copy_with

if TYPE_CHECKING:
    from deepwork.delivery.runner.profiles import AgentProfile

SERVER_NAME: Final = "deepwork"
"""The name under which an agent has our MCP server."""
MAX_TEXT: Final = 16_000
_KEPT_HEAD = 4_000
"""Characters of the beginning of a long text that are shown, before its end."""
_MAX_DETAIL = 200
_MAX_ID = 200
_HEAD = 2_000
"""Characters of a line that was cut in which the id of a tool is looked for."""
_DETAIL_KEYS = ("command", "file_path", "filePath", "path", "pattern", "query", "url", "description")

_TYPE_PATTERN = re.compile(r'\{"type":"([a-z_.]+)"')
_parse = json.JSONDecoder().raw_decode

Event = Mapping[str, Any]


@dataclass(frozen=True)
class McpServer:
    """The command of our server, bound to the agent that gets it; it needs no variables."""

    argv: tuple[str, ...]


@dataclass(frozen=True)
class LaunchRequest:
    """What an agent is to be started with. Its standard input is always the prompt file."""

    profile: AgentProfile
    tree: Path
    prompt_file: Path
    folder: Path
    """Where private files of this start go."""
    session_id: str | None = None
    """The session to resume, or a new UUID for vendors that let us choose it."""
    is_resume: bool = False
    mcp: McpServer | None = None
    program: tuple[str, ...] = ()
    """The command of deepwork, for the hooks of vendors that take them at a start."""
    max_usd: float | None = None
    is_review: bool = False
    """Whether the agent may change nothing: what it would have to ask for is refused, as nobody is there."""


@dataclass(frozen=True)
class Launch:
    """The exact command of a start; `files` are to be written before it, for this user only."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, str] = field(default_factory=dict)
    session_id: str | None = None
    """The session, where it is known before the stream names it."""


class Adapter(Protocol):
    """One kind of agent: its command line, and what its stream says."""

    @property
    def kind(self) -> str: ...

    @property
    def takes_session_id(self) -> bool:
        """Whether we choose the id of a new session."""

    @property
    def has_hooks(self) -> bool:
        """Whether its agents are started with hooks, which tell them things while they work."""

    def build_launch(self, request: LaunchRequest) -> Launch:
        """Build the command of a start."""

    def read_line(self, line: str, *, now: int | None = None) -> tuple[Signal, ...]:
        """Return what a line says: nothing for unknown events, noise and half lines. Never raises.

        `now` is the time of the line, for limits that say "in 20 minutes"; without it, the current time.
        """

    def read_parts(self, line: str, *, now: int | None = None) -> tuple[TranscriptPart, ...]:
        """Return what a line says to people: words, each tool with its input, and what it answered."""

    def build_takeover(self, session_id: str) -> tuple[str, ...] | None:
        """Build the command with which a person continues a session in a terminal; None if there is none."""

    def find_awaited_limit(self, stderr_tail: str, *, now: int) -> LimitReached | None:
        """Return the limit that the last error names; the agent may wait at it, and say so nowhere else."""

    def finish(
        self, state: StreamState, exit_code: int | None, stderr_tail: str, *, now: int | None = None
    ) -> StreamState:
        """Return the state after the process ended; an exit code of None is unknown."""


@dataclass(frozen=True)
class StreamAdapter:
    """An agent that writes a JSON object per line: data, and the functions that read it."""

    kind: str
    build: Callable[[LaunchRequest], Launch]
    read_event: Callable[[Event, int], Iterable[Signal]]
    tool_end: re.Pattern[str] | None = None
    """The beginning of a line that ends a tool, with the tool's id as its group."""
    plain_tool_end: re.Pattern[str] | None = None
    """The same, so exact that the rest of the line says nothing more unless it has `another_tool_end`."""
    another_tool_end: str = ""
    known_types: frozenset[str] | None = None
    """The events that say anything; None: not known, so all are parsed."""
    read_log: Callable[[str], str] = str
    """Returns the errors of what it writes to stderr."""
    takes_session_id: bool = False
    has_hooks: bool = False
    read_details: Callable[[Event], Iterable[TranscriptPart]] = lambda _: ()
    """Returns the tools of an event with their whole input, what they answered, and thoughts, for people."""
    takeover: tuple[str, ...] = ()
    """The words before the id of a session with which a person continues it in a terminal."""

    def build_launch(self, request: LaunchRequest) -> Launch:
        """Build the command of a start."""
        return self.build(request)

    def read_line(self, line: str, *, now: int | None = None) -> tuple[Signal, ...]:
        """Return what a line says.

        Most lines are answers of tools, which may be long, and of which only the tool's id matters: those are
        not parsed. Nor are events of a type that says nothing.
        """
        if self.plain_tool_end is not None and (match := self.plain_tool_end.match(line)):
            if not self.another_tool_end or line.find(self.another_tool_end, match.end()) < 0:
                return (ToolEnded(match[1]),)
        elif self._says_nothing(line):
            return ()
        event = parse_event(line)
        if event is None:
            return _salvage_tool_end(line, self.tool_end) if self.tool_end else ()
        return tuple(self.read_event(event, get_now(now)))

    def read_parts(self, line: str, *, now: int | None = None) -> tuple[TranscriptPart, ...]:
        """Return what a line says to people; nothing is left out but what they cannot use."""
        event = parse_event(line)
        if event is None:
            text = clean_text(line.strip()[:MAX_TEXT], MAX_TEXT)
            return (TranscriptPart("note", text),) if text else ()
        signals = self.read_event(event, get_now(now))
        return (*self.read_details(event), *describe_signals(signals))

    def build_takeover(self, session_id: str) -> tuple[str, ...] | None:
        """Build the command with which a person continues a session in a terminal."""
        return (*self.takeover, session_id) if self.takeover else None

    def _says_nothing(self, line: str) -> bool:
        match = _TYPE_PATTERN.match(line) if self.known_types is not None else None
        return match is not None and match[1] not in (self.known_types or ())

    def find_awaited_limit(self, stderr_tail: str, *, now: int) -> LimitReached | None:
        """Return the limit that the last error names."""
        found = classify(_get_last_line(self.read_log(stderr_tail)), now)
        return found if isinstance(found, LimitReached) else None

    def finish(
        self, state: StreamState, exit_code: int | None, stderr_tail: str, *, now: int | None = None
    ) -> StreamState:
        """Return the state after the process ended."""
        return finish_state(state, exit_code, self.read_log(stderr_tail), get_now(now))


def describe_signals(signals: Iterable[Signal]) -> Iterator[TranscriptPart]:
    """Return what signals say to people; tools are described with their input instead."""
    for signal in signals:
        match signal:
            case SessionStarted(session_id=id, model=model):
                yield TranscriptPart("session", id, name=model or "")
            case Said(text=text, is_delta=is_delta) if text:
                yield TranscriptPart("said", text, is_delta=is_delta)
            case LimitReached(message=message):
                yield TranscriptPart("limit", message)
            case TransientFailure(message=message):
                yield TranscriptPart("failure", message)
            case Ended(is_error=is_error, text=text, reason=reason):
                yield TranscriptPart("end", text or reason, is_error=is_error)


def describe_tool(id: str, name: str, given: object) -> TranscriptPart:
    """Describe the use of a tool with all that it was given, as JSON unless it is text."""
    return TranscriptPart("tool", write_value(given), id, name)


def describe_answer(id: str, answer: object, *, is_error: bool = False) -> TranscriptPart:
    """Describe what a tool answered."""
    return TranscriptPart("result", write_value(answer), id, is_error=is_error)


def write_value(value: object) -> str:
    """Write a value for people: text as it is, the texts of a list of blocks, anything else as JSON."""
    if isinstance(value, list) and (texts := [get_text(each, "text") for each in list_objects(value)]):
        value = "\n".join(filter(None, texts)) or value
    if value is None or value == {}:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)
    if len(text) > MAX_TEXT:
        left_out = f"[{len(text) - MAX_TEXT} characters left out]"
        text = f"{text[:_KEPT_HEAD]}\n{left_out}\n{text[_KEPT_HEAD - MAX_TEXT :]}"
    return clean_text(text, 2 * MAX_TEXT)


def get_now(now: int | None) -> int:
    """Return the given time, else the current one, in Unix milliseconds."""
    return now if now is not None else time.time_ns() // 1_000_000


# Reading


def parse_event(line: str) -> Event | None:
    """Parse a line that is a JSON object with a type."""
    if not line.startswith("{"):
        line = line.strip().lstrip("\ufeff")
        if not line.startswith("{"):
            return None
    try:
        event, end = _parse(line)
    except (ValueError, RecursionError):
        return None
    if end != len(line) and line[end:].strip(" \t\r\n"):
        return None
    return event if isinstance(event.get("type"), str) else None


def _salvage_tool_end(line: str, pattern: re.Pattern[str]) -> tuple[Signal, ...]:
    """Return the end of a tool whose answer was too long to be kept: a tool that stays open hides a stall."""
    match = pattern.match(line[:_HEAD])
    return (ToolEnded(match[1][:_MAX_ID]),) if match else ()


def get_object(event: object, *path: str) -> Event:
    """Return a nested object, empty if it is not there."""
    for key in path:
        event = event.get(key) if isinstance(event, dict) else None
    return event if isinstance(event, dict) else {}


def list_objects(value: object) -> Iterator[Event]:
    """List the objects of a list; anything else has none."""
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())


def get_text(event: Event, key: str, limit: int = MAX_TEXT) -> str:
    """Return a text without what no store takes; "" if there is none."""
    value = event.get(key)
    return clean_text(value, limit) if isinstance(value, str) else ""


def get_id(event: Event, key: str) -> str:
    """Return an id; "" if there is none."""
    value = event.get(key)
    return clean_text(value, _MAX_ID) if isinstance(value, str) else ""


def get_count(event: Event, key: str) -> int:
    """Return a number of tokens; 0 if it is none."""
    value = event.get(key)
    return 0 if value is None else read_whole_number(value, MAX_TOKENS) or 0


def get_usd_micros(event: Event, key: str) -> int | None:
    """Return an amount in millionths of a dollar; None if there is none."""
    usd = read_number(event.get(key), MAX_USD)
    return None if usd is None else round(usd * MICROS_PER_USD)


def get_session_id(event: Event, key: str) -> str:
    """Return the id of a session; "" if there is none that could be an argument of a program."""
    id = get_id(event, key)
    return "" if id.startswith("-") else id


def clean_text(text: str, limit: int) -> str:
    """Cut a text, keeping its end, and replace characters that cannot be stored."""
    if len(text) > limit:
        text = text[-limit:]
    return text if text.isascii() and "\0" not in text else _replace_unstorable(text)


def _replace_unstorable(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def describe_input(given: object) -> str:
    """Say what a tool was called with: its command, file or query."""
    values = given if isinstance(given, dict) else {}
    for key in _DETAIL_KEYS:
        if isinstance(found := values.get(key), str):
            return clean_text(found[:_MAX_DETAIL], _MAX_DETAIL)
    return ""


def explain(text: str, now: int) -> tuple[Signal, ...]:
    """Return the limit or passing failure that an error of the vendor names."""
    found = classify(text, now)
    return () if found is None else (found,)


# Ending


def finish_state(state: StreamState, exit_code: int | None, stderr_tail: str, now: int) -> StreamState:
    """Return the state after the process ended: without a result, it failed.

    The vendor's own error says why; stderr does where there is none, and may say when a limit ends.
    """
    ended = _conclude(state, exit_code, stderr_tail)
    if ended is None:
        return state
    found = _find_cause(state, ended, stderr_tail, now) if ended.is_error else None
    is_lost = ended.is_error and is_lost_session(f"{ended.text}\n{stderr_tail}")
    state = copy_with(apply(state, [ended]), limit=None, is_session_lost=is_lost)
    return apply(state, [] if found is None else [found])


def _find_cause(
    state: StreamState, ended: Ended, stderr_tail: str, now: int
) -> LimitReached | TransientFailure | None:
    said_nothing = state.ended is None or not state.ended.text
    found = (
        state.limit
        or classify(ended.text, now)
        or (classify(stderr_tail, now) if said_nothing else None)
        or state.transient
    )
    if isinstance(found, LimitReached) and found.resets_at is None:
        return copy_with(found, resets_at=find_reset(stderr_tail, now))
    return found


def _conclude(state: StreamState, exit_code: int | None, stderr_tail: str) -> Ended | None:
    if exit_code is None:
        return state.ended
    if exit_code != 0:
        known = state.ended or Ended(is_error=True)
        text = known.text if known.is_error else ""
        return Ended(True, text or _get_last_line(stderr_tail), known.reason or f"exit code {exit_code}")
    return state.ended or Ended(True, _get_last_line(stderr_tail), "no result")


def _get_last_line(text: str) -> str:
    lines = [line.strip() for line in text[-MAX_TEXT:].splitlines() if line.strip()]
    return clean_text(lines[-1], MAX_TEXT) if lines else ""
