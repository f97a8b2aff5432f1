from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepwork.runner.adapters import ADAPTERS, get_adapter
from deepwork.runner.signals import (
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
from deepwork.runner.stream_state import StreamState, apply, begin_start, describe_now
from runner.samples import NOW, STREAMS, Stream, read_all

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
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
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
    assert all(figure >= 0 for figure in (*list_figures(state), state.unpriced_tokens))


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


@pytest.mark.parametrize("kind", ADAPTERS)
@settings(max_examples=30)
@given(text=st.text())
def test_no_text_makes_an_adapter_raise(kind: str, text: str) -> None:
    adapter = get_adapter(kind)

    state = apply(StreamState(), adapter.read_line(text, now=NOW))

    require_valid(adapter.finish(state, 1, text, now=NOW))


@pytest.mark.parametrize("stream", STREAMS, ids=repr)
@settings(max_examples=30)
@given(data=st.data())
def test_no_value_in_a_known_event_makes_an_adapter_raise(stream: Stream, data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(stream.lines))
    event = json.loads(line) if line.startswith("{") else {"type": "result"}
    damaged = json.dumps(data.draw(st.sampled_from([*iterate_damaged(event, data.draw(VALUES))])))

    state = read_all(stream.kind, [damaged])

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
