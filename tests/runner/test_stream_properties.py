from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepwork.delivery.runner.adapters import KINDS, get_adapter
from deepwork.delivery.runner.adapters.base import StreamAdapter
from deepwork.delivery.runner.models import (
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
from deepwork.delivery.runner.stream_state import StreamState, apply, begin_start, describe_now
from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.kernel.foreign_text import MAX_MOMENT, MAX_TOKENS, MAX_USD
from runner.samples import NOW, STREAMS, Stream, read_all

LONGEST_WAIT_MS = 40 * 24 * 3_600_000
IDS = st.sampled_from(["", "a", "b", "c"])
TEXTS = st.sampled_from(["", "short", " two\nlines\t", "\x1b[31mred\u202e", "\udcff\x00", "long " * 5000])
COUNTS = st.integers(0, 10_000)
SIGNALS = st.one_of(
    st.builds(SessionStarted, IDS, st.none() | st.just("claude-opus-4-8")),
    st.builds(ToolStarted, IDS, TEXTS, TEXTS),
    st.builds(ToolEnded, IDS),
    st.builds(Said, TEXTS, st.booleans()),
    st.builds(
        UsageReported,
        st.sampled_from(["", "a", "b", START_TOTAL, f"{START_TOTAL}/x"]),
        COUNTS,
        COUNTS,
        COUNTS,
        st.none() | COUNTS,
        st.none() | st.just("claude-opus-4-8"),
        st.booleans(),
    ),
    st.builds(LimitReached, st.none() | st.integers(0, 2 * NOW), TEXTS, IDS),
    st.builds(TransientFailure, TEXTS),
    st.builds(Ended, st.booleans(), TEXTS, TEXTS),
)
NUMBERS = st.sampled_from([10**400, -(10**400), 2**63, 10**12, float("inf"), float("nan"), -1, True, "1e999"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def list_prefixes(stream: Stream) -> list[StreamState]:
    states = [StreamState()]
    for line in stream.lines:
        states.append(read_all(stream.kind, [line], states[-1]))
    return states


def list_figures(state: StreamState) -> tuple[int, int, int]:
    return state.input_tokens, state.cached_tokens, state.output_tokens


def require_valid(state: StreamState) -> None:
    described = describe_now(state)
    assert len(described) <= 80
    assert described.isprintable()
    assert StreamState.from_json(state.to_json()) == state
    assert all(0 <= figure <= MAX_TOKENS for figure in list_figures(state))
    assert 0 <= state.usd_micros <= MAX_USD * MICROS_PER_USD
    assert state.unpriced_tokens >= 0


@pytest.mark.parametrize("stream", STREAMS, ids=repr)
def test_any_prefix_of_a_stream_gives_a_valid_state_and_tokens_never_fall(stream: Stream) -> None:
    states = list_prefixes(stream)

    for state in states:
        require_valid(state)
        require_valid(get_adapter(stream.kind).finish(state, 1, "boom", now=NOW))
    for before, after in pairwise(states):
        assert all(one <= other for one, other in zip(list_figures(before), list_figures(after), strict=True))


@pytest.mark.parametrize("stream", STREAMS, ids=repr)
def test_reading_on_from_any_stored_state_gives_the_same_end(stream: Stream) -> None:
    states = list_prefixes(stream)

    for position, state in enumerate(states):
        stored = StreamState.from_json(state.to_json())
        assert read_all(stream.kind, stream.lines[position:], stored) == states[-1]


@pytest.mark.parametrize("stream", [each for each in STREAMS if each.kind != "command"], ids=repr)
def test_noise_between_the_lines_changes_nothing_for_a_vendor(stream: Stream) -> None:
    noise = ["", "   ", "\x00\x1b[31m\udcff\x00", "{", "[1, 2]", '{"type": 3}', '{"type":"made up"}', "null"]
    halves = [line[: len(line) // 2] for line in stream.lines if '"tool_use_id"' not in line]
    halves = [half for half in halves if not half.startswith(('{"type":"tool_result"', '{"type":"item.c'))]
    noisy = [part for line in stream.lines for part in (*noise, *halves, line)]

    assert read_all(stream.kind, noisy) == read_all(stream.kind, stream.lines)


def build_parsing_adapter(kind: str) -> StreamAdapter:
    """Return the adapter without its shortcuts, so that it parses every line."""
    adapter = get_adapter(kind)
    assert isinstance(adapter, StreamAdapter)
    return replace(adapter, plain_tool_end=None, known_types=None)


@pytest.mark.parametrize("stream", [each for each in STREAMS if each.kind != "command"], ids=repr)
def test_a_line_that_is_not_parsed_says_the_same_as_one_that_is(stream: Stream) -> None:
    for line in stream.lines:
        compact = json.dumps(json.loads(line), separators=(",", ":"), ensure_ascii=False)
        for each in (line, compact, compact[: len(compact) * 2 // 3]):
            found = get_adapter(stream.kind).read_line(each, now=NOW)
            assert found == build_parsing_adapter(stream.kind).read_line(each, now=NOW)


BLOCKS = st.one_of(
    st.builds(
        lambda tool, text: {"tool_use_id": tool, "type": "tool_result", "content": text},
        IDS | st.text(max_size=5),
        st.sampled_from(["ok", '"tool_result"', '\\"tool_use_id":"b"', "é\n\u2028"]),
    ),
    st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=5)),
)
OTHER_TYPES = st.sampled_from(["user", "assistant", "stream_event", "item.updated", "made_up"])


@settings(max_examples=100)
@given(blocks=st.lists(BLOCKS, max_size=3), kind=OTHER_TYPES, data=st.data())
def test_any_answers_of_tools_say_the_same_without_being_parsed(
    blocks: list[object], kind: str, data: st.DataObject
) -> None:
    event = {"type": kind, "message": {"role": "user", "content": blocks}, "tool_use_result": "x"}
    line = json.dumps(event, separators=(",", ":"), ensure_ascii=data.draw(st.booleans()))
    cut = line[: data.draw(st.integers(0, len(line)))]

    for each in (line, cut):
        assert get_adapter("claude").read_line(each, now=NOW) == build_parsing_adapter("claude").read_line(
            each, now=NOW
        )


@pytest.mark.parametrize("stream", STREAMS, ids=repr)
def test_many_lines_folded_together_give_the_state_of_one_after_the_other(stream: Stream) -> None:
    adapter = get_adapter(stream.kind)
    signals = [signal for line in stream.lines for signal in adapter.read_line(line, now=NOW)]
    before = StreamState()

    assert apply(before, signals) == list_prefixes(stream)[-1]
    assert before == StreamState()


@settings(max_examples=60)
@given(st.lists(SIGNALS, max_size=15), st.integers(0, 15))
def test_any_signals_give_a_valid_state_that_can_be_stored_anywhere(signals: list[Signal], cut: int) -> None:
    whole = apply(StreamState(), signals)

    first = apply(StreamState(), signals[:cut])

    require_valid(whole)
    assert apply(StreamState.from_json(first.to_json()), signals[cut:]) == whole


@settings(max_examples=60)
@given(st.lists(SIGNALS, max_size=10), st.lists(SIGNALS, max_size=10))
def test_tokens_never_fall_also_over_starts(first: list[Signal], second: list[Signal]) -> None:
    states = [StreamState()]
    for signals in (first, second):
        states.append(begin_start(states[-1]))
        for signal in signals:
            states.append(apply(states[-1], [signal]))

    assert all(before.tokens <= after.tokens for before, after in pairwise(states))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(text=st.text())
def test_no_text_makes_an_adapter_raise(kind: str, text: str) -> None:
    adapter = get_adapter(kind)

    state = apply(StreamState(), adapter.read_line(text, now=NOW))

    require_valid(adapter.finish(state, 1, text, now=NOW))


LIMITS = st.sampled_from(
    ["usage limit reached", "429 rate limited", "quota exceeded\0", "overloaded", "\udcff"]
)
LEADS = st.sampled_from(
    ["try again in", "resets at", "retry-after:", "|", "resets", "try again after", "until Nov"]
)
AMOUNTS = st.sampled_from(
    ["9" * 400, "0." + "9" * 400, "1e999", "-1", "25:61", "3", "9999", "1794960000", "\u0663"]
)
DATES = st.sampled_from(
    ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "12:00 (../../x)", "11pm (Etc/GMT+14)"]
)
UNITS = st.sampled_from(["", "ms", "hours", " weeks and", "am", " 99 4:00"])
WORDING = st.tuples(LIMITS, LEADS, AMOUNTS | DATES, UNITS).map(" ".join)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100)
@given(text=WORDING, now=st.integers(0, MAX_MOMENT) | st.just(NOW))
def test_no_wording_makes_an_adapter_raise_or_wait_for_ever(kind: str, text: str, now: int) -> None:
    adapter = get_adapter(kind)

    state = adapter.finish(StreamState(), 1, text, now=now)

    require_valid(state)
    assert state.limit is None or (state.limit.resets_at or 0) - now <= LONGEST_WAIT_MS
    adapter.find_awaited_limit(text, now=now)


@pytest.mark.parametrize("stream", STREAMS, ids=repr)
@settings(max_examples=30)
@given(data=st.data())
def test_no_value_in_a_known_event_makes_an_adapter_raise(stream: Stream, data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(stream.lines))
    event = json.loads(line) if line.startswith("{") else {"type": "result"}
    damaged = json.dumps(data.draw(st.sampled_from([*iterate_damaged(event, data.draw(VALUES))])))

    state = read_all(stream.kind, [damaged] * 3)

    require_valid(state)


def iterate_damaged(value: object, other: object) -> list[object]:
    """List the value with each part of it replaced by another value."""
    found = [other]
    if isinstance(value, dict):
        found += [{**value, key: damaged} for key in value for damaged in iterate_damaged(value[key], other)]
    elif isinstance(value, list):
        found += [
            [*value[:index], damaged, *value[index + 1 :]]
            for index in range(len(value))
            for damaged in iterate_damaged(value[index], other)
        ]
    return found
