"""What is known about an agent from its stream so far: a pure fold of signals.

A state is stored as JSON with the offset that was read, and reading goes on from there. One state serves all
starts of an attempt, so that totals of a resumed session count once: call `begin_start` before each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from deepwork.budgets.models import Source
from deepwork.budgets.prices import Price, load_price_table, price_tokens
from deepwork.foreign_text import to_one_line
from deepwork.records import copy_with
from deepwork.runner.signals import (
    SESSION_TOTAL,
    START_TOTAL,
    Ended,
    LimitReached,
    Said,
    SessionStarted,
    Signal,
    ToolEnded,
    ToolStarted,
    TransientFailure,
    UsageReported,
)

MAX_MESSAGE = 16_000
"""Characters of the last message that are kept: its end, which has the outcome."""
_MAX_DETAIL = 200
_MAX_OPEN_TOOLS = 32
_MAX_KEYS = 64
"""Keys of reports that are remembered. Vendors repeat a report in the lines after it, never much later."""
_MAX_DESCRIPTION = 80
_Value = TypeVar("_Value")
_VARIANT_PATTERN = re.compile(r"\[[^\]]*\]$")


class Counts(NamedTuple):
    """Tokens that were counted."""

    input: int = 0
    cached: int = 0
    output: int = 0

    def increase_by(self, other: Counts) -> Counts:
        """Return the sum of each figure."""
        return Counts(self.input + other.input, self.cached + other.cached, self.output + other.output)

    def grow_to(self, other: Counts) -> Counts:
        """Return the higher one of each figure."""
        return Counts(
            max(self.input, other.input), max(self.cached, other.cached), max(self.output, other.output)
        )

    def subtract(self, other: Counts) -> Counts:
        """Return what is more than in `other`, of each figure."""
        return Counts(
            max(0, self.input - other.input),
            max(0, self.cached - other.cached),
            max(0, self.output - other.output),
        )

    @property
    def total(self) -> int:
        return self.input + self.cached + self.output


_NOTHING = Counts()


@dataclass(frozen=True)
class StreamState:
    """What an agent's stream said, over all starts of an attempt."""

    session_id: str | None = None
    model: str | None = None
    """From the profile until the stream names one; without it, tokens have no price."""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    usd_micros: int = 0
    usd_source: Source | None = None
    """The weakest source of the dollars; None while no dollars are known."""
    unpriced_tokens: int = 0
    """Tokens of this attempt whose dollars nobody knows."""
    now_doing: str = ""
    open_tools: Mapping[str, str] = field(default_factory=dict)
    """What each tool that has not answered yet does, by its id."""
    last_message: str = ""
    limit: LimitReached | None = None
    transient: TransientFailure | None = None
    ended: Ended | None = None
    is_session_lost: bool = False
    """Whether the session that was to go on is gone: only a new one can."""
    is_message_open: bool = False
    """Whether the next part of a text continues the last message."""
    recent: Mapping[str, Counts] = field(default_factory=dict)
    """What was counted for the last keys."""
    totals: Mapping[str, Counts] = field(default_factory=dict)
    """The last total of each session, and of this start."""
    start_usd_micros: int = 0
    start_unpriced_tokens: int = 0
    earlier_source: Source | None = None
    """Where the dollars of earlier starts come from."""

    @property
    def tokens(self) -> int:
        """All tokens, which never fall."""
        return self.input_tokens + self.cached_tokens + self.output_tokens

    def to_json(self) -> str:
        """Write the state, to go on with it later."""
        return json.dumps({name: _to_plain(value) for name, value in vars(self).items()})

    @classmethod
    def from_json(cls, text: str) -> StreamState:
        """Read a state; keys of other versions are ignored."""
        data = json.loads(text)
        values = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        read = {name: read(values[name]) for name, read in _READERS.items() if values.get(name)}
        return cls(**values | read)


def apply(state: StreamState, signals: Iterable[Signal]) -> StreamState:
    """Return the state after these signals."""
    for signal in signals:
        state = _HANDLERS[type(signal)](state, signal)
    return state


def begin_start(state: StreamState, *, model: str | None = None) -> StreamState:
    """Return the state before the next start of an attempt: what ended is forgotten, what was spent is not.

    The model is the profile's.
    """
    totals = {key: counts for key, counts in state.totals.items() if not _is_of_start(key)}
    return copy_with(
        state,
        model=model or state.model,
        now_doing="",
        open_tools={},
        limit=None,
        transient=None,
        ended=None,
        session_id=None if state.is_session_lost else state.session_id,
        is_session_lost=False,
        is_message_open=False,
        recent={},
        totals=totals,
        start_usd_micros=0,
        start_unpriced_tokens=0,
        earlier_source=state.usd_source,
    )


def describe_now(state: StreamState) -> str:
    """Say what the agent is doing, in at most 80 printable characters."""
    text = to_one_line(state.now_doing)
    return text if len(text) <= _MAX_DESCRIPTION else text[: _MAX_DESCRIPTION - 1] + "…"


# Signals


def _start_session(state: StreamState, signal: SessionStarted) -> StreamState:
    return copy_with(
        state, session_id=signal.session_id, model=signal.model or state.model, now_doing="starting"
    )


def _start_tool(state: StreamState, signal: ToolStarted) -> StreamState:
    what = f"{signal.name}: {signal.detail}" if signal.detail else signal.name
    tools = _keep_last(state.open_tools, signal.id, what[:_MAX_DETAIL], _MAX_OPEN_TOOLS)
    started = copy_with(state, open_tools=tools, now_doing=tools[signal.id], is_message_open=False)
    return _note_progress(started)


def _end_tool(state: StreamState, signal: ToolEnded) -> StreamState:
    if signal.id not in state.open_tools:
        return state
    tools = {id: what for id, what in state.open_tools.items() if id != signal.id}
    return copy_with(state, open_tools=tools, now_doing=list(tools.values())[-1] if tools else "thinking")


def _say(state: StreamState, signal: Said) -> StreamState:
    continues = signal.is_delta and state.is_message_open
    text = state.last_message + signal.text if continues else signal.text
    if not text.strip():
        return state
    return _note_progress(
        copy_with(
            state,
            last_message=text[-MAX_MESSAGE:],
            now_doing=text.strip()[:_MAX_DETAIL],
            is_message_open=signal.is_delta,
        )
    )


def _note_progress(state: StreamState) -> StreamState:
    """Forget a limit or failure that the agent got over."""
    if state.limit is None and state.transient is None and state.ended is None:
        return state
    return copy_with(state, limit=None, transient=None, ended=None)


def _reach_limit(state: StreamState, signal: LimitReached) -> StreamState:
    """Note a limit. The first reset stands: events come before the text, which rounds it to minutes."""
    known = state.limit.resets_at if state.limit else None
    limit = signal if known is None else copy_with(signal, resets_at=known)
    return copy_with(state, limit=limit, now_doing=f"at a limit: {signal.message}"[:_MAX_DETAIL])


def _fail_for_now(state: StreamState, signal: TransientFailure) -> StreamState:
    return copy_with(state, transient=signal, now_doing=f"waiting: {signal.message}"[:_MAX_DETAIL])


def _end(state: StreamState, signal: Ended) -> StreamState:
    """End the turn. Its own cause follows, so an earlier failure is not the reason; a limit still may be."""
    message = "" if signal.is_error else signal.text[-MAX_MESSAGE:]
    return copy_with(
        state,
        ended=signal,
        open_tools={},
        transient=None,
        limit=state.limit if signal.is_error else None,
        last_message=message or state.last_message,
        is_message_open=False,
        now_doing="failed" if signal.is_error else "finished",
    )


# What was used


def _count(state: StreamState, signal: UsageReported) -> StreamState:
    counts = Counts(signal.input, signal.cached, signal.output)
    if signal.is_total:
        return _count_total(state, signal, counts)
    before = state.recent.get(signal.key)
    delta = counts if before is None else counts.subtract(before)
    if before is not None and not delta.total:
        return state
    totals = {**state.totals, START_TOTAL: state.totals.get(START_TOTAL, _NOTHING).increase_by(delta)}
    recent = _keep_last(state.recent, signal.key, (before or _NOTHING).grow_to(counts), _MAX_KEYS)
    usd_micros = signal.usd_micros if before is None else None
    return _add(state, delta, usd_micros, signal.model, recent=recent, totals=totals)


def _count_total(state: StreamState, signal: UsageReported, counts: Counts) -> StreamState:
    key = f"session/{state.session_id}" if signal.key == SESSION_TOTAL else signal.key
    before = state.totals.get(key, _NOTHING)
    if not _is_of_start(key) and counts.total < before.total:
        before = _NOTHING  # the vendor began to count anew: what it counts now was not counted before
    delta = counts.subtract(before)
    after = before.grow_to(counts) if _is_of_start(key) else counts
    totals = _keep_last(state.totals, key, after, _MAX_KEYS)
    if signal.key == START_TOTAL and signal.usd_micros is not None:
        return _correct_dollars(_add(state, delta, 0, None, totals=totals), signal.usd_micros)
    return _add(state, delta, signal.usd_micros, signal.model, totals=totals)


def _add(
    state: StreamState, delta: Counts, usd_micros: int | None, model: str | None, **changes: Any
) -> StreamState:
    """Add tokens with their dollars: the vendor's figure, else their price, else unknown."""
    source: Source | None = Source.REPORTED
    if usd_micros is None:
        price = _find_price(model or state.model)
        source = Source.PRICED if price and delta.total else None
        usd_micros = _compute_price(price, delta) if price else 0
    unpriced = 0 if source else delta.total
    return copy_with(
        state,
        input_tokens=state.input_tokens + delta.input,
        cached_tokens=state.cached_tokens + delta.cached,
        output_tokens=state.output_tokens + delta.output,
        usd_micros=state.usd_micros + usd_micros,
        start_usd_micros=state.start_usd_micros + usd_micros,
        usd_source=_find_weaker(state.usd_source, source) if source else state.usd_source,
        unpriced_tokens=state.unpriced_tokens + unpriced,
        start_unpriced_tokens=state.start_unpriced_tokens + unpriced,
        **changes,
    )


@lru_cache(maxsize=64)
def _find_price(model: str | None) -> Price | None:
    return load_price_table().find(_VARIANT_PATTERN.sub("", model)) if model else None


def _compute_price(price: Price, delta: Counts) -> int:
    return price_tokens(price, input=delta.input, cached=delta.cached, output=delta.output)


def _correct_dollars(state: StreamState, usd_micros: int) -> StreamState:
    """Replace the dollars of this start by the vendor's own figure."""
    return copy_with(
        state,
        usd_micros=state.usd_micros - state.start_usd_micros + usd_micros,
        start_usd_micros=usd_micros,
        usd_source=_find_weaker(state.earlier_source, Source.REPORTED),
        unpriced_tokens=state.unpriced_tokens - state.start_unpriced_tokens,
        start_unpriced_tokens=0,
    )


def _find_weaker(one: Source | None, other: Source) -> Source:
    return Source.PRICED if Source.PRICED in (one, other) else other


def _is_of_start(key: str) -> bool:
    return key == START_TOTAL or key.startswith(f"{START_TOTAL}/")


def _keep_last(known: Mapping[str, _Value], key: str, value: _Value, limit: int) -> dict[str, _Value]:
    """Return the mapping with this entry as its last, without the oldest of too many."""
    kept = dict(known)
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > limit:
        del kept[next(iter(kept))]
    return kept


_HANDLERS: Mapping[type, Any] = {
    SessionStarted: _start_session,
    ToolStarted: _start_tool,
    ToolEnded: _end_tool,
    Said: _say,
    UsageReported: _count,
    LimitReached: _reach_limit,
    TransientFailure: _fail_for_now,
    Ended: _end,
}


# JSON


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _to_plain(each) for key, each in value.items()}
    if isinstance(value, Counts):
        return list(value)
    return asdict(value) if isinstance(value, LimitReached | TransientFailure | Ended) else value


def _read_counts(data: Mapping[str, list[int]]) -> dict[str, Counts]:
    return {key: Counts(*figures) for key, figures in data.items()}


_READERS: Mapping[str, Any] = {
    "usd_source": Source,
    "earlier_source": Source,
    "limit": lambda data: LimitReached(**data),
    "transient": lambda data: TransientFailure(**data),
    "ended": lambda data: Ended(**data),
    "recent": _read_counts,
    "totals": _read_counts,
}
