"""What is known about an agent from its stream so far: a pure fold of signals.

`apply` folds the signals of many lines into one copy of a state: fifty agents write a thousand lines a
second, and a copy for each signal costs more than reading the lines. Only `apply` makes such a draft, and
only the handlers of signals change it.

A state is stored as JSON with the offset that was read, and reading goes on from there. One state serves all
starts of an attempt, so that totals of a resumed session count once: call `begin_start` before each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from deepwork.delivery.runner.models import (
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
from deepwork.gates.budgets.models import MICROS_PER_USD, CostSource
from deepwork.gates.budgets.rules import Price, load_price_table, price_tokens
from deepwork.kernel.foreign_text import MAX_TOKENS, MAX_USD, to_one_line
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import copy_with

MAX_MESSAGE = 16_000
"""Characters of the last message that are kept: its end, which has the outcome."""
_MAX_DETAIL = 200
_MAX_OPEN_TOOLS = 32
_MAX_KEYS = 64
"""Keys of reports that are remembered. Vendors repeat a report in the lines after it, never much later."""
_MAX_DESCRIPTION = 80
_MAX_USD_MICROS = MAX_USD * MICROS_PER_USD
"""Sums of an attempt stop here, so that those of all attempts fit their columns."""
_Value = TypeVar("_Value")
_VARIANT_PATTERN = re.compile(r"\[[^\]]*\]$")


class TokenCounts(NamedTuple):
    """Tokens that were counted."""

    input: int = 0
    cached: int = 0
    output: int = 0

    def increase_by(self, other: TokenCounts) -> TokenCounts:
        """Return the sum of each figure."""
        return TokenCounts(self.input + other.input, self.cached + other.cached, self.output + other.output)

    def grow_to(self, other: TokenCounts) -> TokenCounts:
        """Return the higher one of each figure."""
        return TokenCounts(
            max(self.input, other.input), max(self.cached, other.cached), max(self.output, other.output)
        )

    def subtract(self, other: TokenCounts) -> TokenCounts:
        """Return what is more than in `other`, of each figure."""
        return TokenCounts(
            max(0, self.input - other.input),
            max(0, self.cached - other.cached),
            max(0, self.output - other.output),
        )

    @property
    def total(self) -> int:
        return self.input + self.cached + self.output


_NOTHING = TokenCounts()


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
    usd_source: CostSource | None = None
    """The weakest source of the dollars; None while no dollars are known."""
    unpriced_tokens: int = 0
    """Tokens of this attempt whose dollars nobody knows."""
    now_doing: str = ""
    doing_since: int | None = None
    """When it began what it does now: the tool that it is in, or to think."""
    context_tokens: int | None = None
    """What the model has in its context, if the vendor says so."""
    open_tools: dict[str, str] = field(default_factory=dict)
    """What each tool that has not answered yet does, by its id."""
    last_message: str = ""
    limit: LimitReached | None = None
    transient: TransientFailure | None = None
    ended: Ended | None = None
    is_session_lost: bool = False
    """Whether the session that was to go on is gone: only a new one can."""
    is_message_open: bool = False
    """Whether the next part of a text continues the last message."""
    recent: dict[str, TokenCounts] = field(default_factory=dict)
    """What was counted for the last keys."""
    totals: dict[str, TokenCounts] = field(default_factory=dict)
    """The last total of each session, and of this start."""
    start_usd_micros: int = 0
    start_unpriced_tokens: int = 0
    earlier_source: CostSource | None = None
    """Where the dollars of earlier starts come from."""

    @property
    def tokens(self) -> int:
        """All tokens, which never fall."""
        return self.input_tokens + self.cached_tokens + self.output_tokens

    def to_json(self) -> str:
        """Write the state, to go on with it later."""
        return json.dumps(vars(self), default=vars)

    @classmethod
    def from_json(cls, text: str) -> StreamState:
        """Read a state; keys of other versions are ignored."""
        data = json.loads(text)
        values = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        read = {name: read(values[name]) for name, read in _READERS.items() if values.get(name)}
        return cls(**values | read)


def apply(state: StreamState, signals: Iterable[Signal]) -> StreamState:
    """Return the state after these signals, which may be those of many lines."""
    draft = copy_with(
        state, open_tools=dict(state.open_tools), recent=dict(state.recent), totals=dict(state.totals)
    )
    for signal in signals:
        _HANDLERS[type(signal)](draft, signal)
    return draft


def begin_start(state: StreamState, *, model: str | None = None) -> StreamState:
    """Return the state before the next start of an attempt: what ended is forgotten, what was spent is not.

    The model is the profile's.
    """
    totals = {key: counts for key, counts in state.totals.items() if not _is_of_start(key)}
    return copy_with(
        state,
        model=model or state.model,
        now_doing="",
        doing_since=None,
        context_tokens=None,
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


def note_time(state: StreamState, before: StreamState, now: int) -> StreamState:
    """Return the state with the moment at which the agent began what it does now, if that is new."""
    if state.doing_since is not None and get_open_tool(state)[0] == get_open_tool(before)[0]:
        return state
    return copy_with(state, doing_since=now)


def get_open_tool(state: StreamState) -> tuple[str, str]:
    """Return the id of the tool that was opened last, and what it does; empty if none is open."""
    return next(reversed(state.open_tools.items()), ("", ""))


def describe_now(state: StreamState) -> str:
    """Say what the agent is doing, in at most 80 printable characters."""
    text = to_one_line(state.now_doing)
    return text if len(text) <= _MAX_DESCRIPTION else text[: _MAX_DESCRIPTION - 1] + "…"


# Signals, which change a draft


def _change(draft: StreamState, **changes: Any) -> None:
    vars(draft).update(changes)


def _start_session(draft: StreamState, signal: SessionStarted) -> None:
    _change(draft, session_id=signal.session_id, model=signal.model or draft.model, now_doing="starting")


def _start_tool(draft: StreamState, signal: ToolStarted) -> None:
    what = f"{signal.name}: {signal.detail}" if signal.detail else signal.name
    what = what[:_MAX_DETAIL]
    _keep_last(draft.open_tools, signal.id, what, _MAX_OPEN_TOOLS)
    _change(draft, now_doing=what, is_message_open=False)
    _note_progress(draft)


def _end_tool(draft: StreamState, signal: ToolEnded) -> None:
    if draft.open_tools.pop(signal.id, None) is not None:
        _change(draft, now_doing=next(reversed(draft.open_tools.values()), "thinking"))


def _say(draft: StreamState, signal: Said) -> None:
    continues = signal.is_delta and draft.is_message_open
    text = draft.last_message + signal.text if continues else signal.text
    if not text.strip():
        return
    _change(
        draft,
        last_message=text[-MAX_MESSAGE:],
        now_doing=text.strip()[:_MAX_DETAIL],
        is_message_open=signal.is_delta,
    )
    _note_progress(draft)


def _note_progress(draft: StreamState) -> None:
    """Forget a limit or failure that the agent got over."""
    if not (draft.limit is None and draft.transient is None and draft.ended is None):
        _change(draft, limit=None, transient=None, ended=None)


def _reach_limit(draft: StreamState, signal: LimitReached) -> None:
    """Note a limit. The first reset stands: events come before the text, which rounds it to minutes."""
    known = draft.limit.resets_at if draft.limit else None
    limit = signal if known is None else copy_with(signal, resets_at=known)
    _change(draft, limit=limit, now_doing=f"at a limit: {signal.message}"[:_MAX_DETAIL])


def _fail_for_now(draft: StreamState, signal: TransientFailure) -> None:
    _change(draft, transient=signal, now_doing=f"waiting: {signal.message}"[:_MAX_DETAIL])


def _end(draft: StreamState, signal: Ended) -> None:
    """End the turn. Its own cause follows, so an earlier failure is not the reason; a limit still may be."""
    message = "" if signal.is_error else signal.text[-MAX_MESSAGE:]
    draft.open_tools.clear()
    _change(
        draft,
        ended=signal,
        transient=None,
        limit=draft.limit if signal.is_error else None,
        last_message=message or draft.last_message,
        is_message_open=False,
        now_doing="failed" if signal.is_error else "finished",
    )


# What was used


def _count(draft: StreamState, signal: UsageReported) -> None:
    if signal.context:
        _change(draft, context_tokens=signal.context)
    counts = TokenCounts(signal.input, signal.cached, signal.output)
    if signal.is_total:
        _count_total(draft, signal, counts)
        return
    before = draft.recent.get(signal.key)
    if counts == before:  # the usage of a message is repeated with each part of it
        return
    delta = counts if before is None else counts.subtract(before)
    if before is not None and not delta.total:
        return
    draft.totals[START_TOTAL] = draft.totals.get(START_TOTAL, _NOTHING).increase_by(delta)
    _keep_last(draft.recent, signal.key, (before or _NOTHING).grow_to(counts), _MAX_KEYS)
    _add(draft, delta, signal.usd_micros if before is None else None, signal.model)


def _count_total(draft: StreamState, signal: UsageReported, counts: TokenCounts) -> None:
    key = f"session/{draft.session_id}" if signal.key == SESSION_TOTAL else signal.key
    before = draft.totals.get(key, _NOTHING)
    if not _is_of_start(key) and counts.total < before.total:
        before = _NOTHING  # the vendor counts from zero again: what it counts now was not counted before
    delta = counts.subtract(before)
    _keep_last(draft.totals, key, before.grow_to(counts) if _is_of_start(key) else counts, _MAX_KEYS)
    if signal.key == START_TOTAL and signal.model:
        _change(draft, model=signal.model)
    if signal.key == START_TOTAL and signal.usd_micros is not None:
        _add(draft, delta, 0, None)
        _correct_dollars(draft, signal.usd_micros)
    else:
        _add(draft, delta, signal.usd_micros, signal.model)


def _add(draft: StreamState, delta: TokenCounts, usd_micros: int | None, model: str | None) -> None:
    """Add tokens with their dollars: the vendor's figure, else their price, else unknown."""
    source: CostSource | None = CostSource.REPORTED
    if usd_micros is None:
        price = _find_price(model or draft.model)
        source = CostSource.PRICED if price and delta.total else None
        usd_micros = _compute_price(price, delta) if price else 0
    unpriced = 0 if source else delta.total
    _change(
        draft,
        input_tokens=min(draft.input_tokens + delta.input, MAX_TOKENS),
        cached_tokens=min(draft.cached_tokens + delta.cached, MAX_TOKENS),
        output_tokens=min(draft.output_tokens + delta.output, MAX_TOKENS),
        usd_micros=min(draft.usd_micros + usd_micros, _MAX_USD_MICROS),
        start_usd_micros=min(draft.start_usd_micros + usd_micros, _MAX_USD_MICROS),
        usd_source=_find_weaker(draft.usd_source, source) if source else draft.usd_source,
        unpriced_tokens=draft.unpriced_tokens + unpriced,
        start_unpriced_tokens=draft.start_unpriced_tokens + unpriced,
    )


@lru_cache(maxsize=64)
def _find_price(model: str | None) -> Price | None:
    return load_price_table().find(_VARIANT_PATTERN.sub("", model)) if model else None


def _compute_price(price: Price, delta: TokenCounts) -> int:
    return price_tokens(price, input=delta.input, cached=delta.cached, output=delta.output)


def _correct_dollars(draft: StreamState, usd_micros: int) -> None:
    """Replace the dollars of this start by the vendor's own figure."""
    _change(
        draft,
        usd_micros=min(draft.usd_micros - draft.start_usd_micros + usd_micros, _MAX_USD_MICROS),
        start_usd_micros=usd_micros,
        usd_source=_find_weaker(draft.earlier_source, CostSource.REPORTED),
        unpriced_tokens=draft.unpriced_tokens - draft.start_unpriced_tokens,
        start_unpriced_tokens=0,
    )


def _find_weaker(one: CostSource | None, other: CostSource) -> CostSource:
    return CostSource.PRICED if CostSource.PRICED in (one, other) else other


def _is_of_start(key: str) -> bool:
    return key == START_TOTAL or key.startswith(f"{START_TOTAL}/")


def _keep_last(kept: dict[str, _Value], key: str, value: _Value, limit: int) -> None:
    """Make this the last entry, and drop the oldest of too many."""
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > limit:
        del kept[next(iter(kept))]


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


def _read_counts(data: Mapping[str, list[int]]) -> dict[str, TokenCounts]:
    return {key: TokenCounts._make(figures) for key, figures in data.items()}


_READERS: Mapping[str, Any] = {
    "usd_source": CostSource,
    "earlier_source": CostSource,
    "limit": lambda data: LimitReached(**data),
    "transient": lambda data: TransientFailure(**data),
    "ended": lambda data: Ended(**data),
    "recent": _read_counts,
    "totals": _read_counts,
}
