"""Numbers of others are within their bounds, or unknown."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepwork.kernel.foreign_text import (
    MAX_MOMENT,
    MAX_PID,
    MAX_TOKENS,
    read_decimal,
    read_moment,
    read_number,
    read_pid,
    read_whole_number,
)
from deepwork.kernel.values import format_timestamp

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**500), 10**500),
    st.floats(),
    st.text(),
    st.integers().map(str),
    st.floats().map(str),
    st.lists(st.integers()),
)


@given(ANYTHING)
def test_any_value_is_a_number_within_its_bounds_or_unknown(value: object):
    number = read_number(value, 100.5, least=-3)
    whole = read_whole_number(value, MAX_TOKENS)
    decimal = read_decimal(value, 7.0)
    moment = read_moment(value)
    pid = read_pid(value)

    assert number is None or -3 <= number <= 100.5
    assert whole is None or (type(whole) is int and 0 <= whole <= MAX_TOKENS)
    assert decimal is None or 0 <= decimal <= 7
    assert moment is None or (0 < moment <= MAX_MOMENT and format_timestamp(moment))
    assert pid is None or 1 < pid <= MAX_PID


@pytest.mark.parametrize(
    "value", [True, False, None, "7", [7], math.nan, math.inf, -math.inf, 10**400, -1, 8.5]
)
def test_what_is_no_number_from_0_to_8_is_unknown(value: object):
    assert read_number(value, 8) is None


def test_a_unix_time_may_be_in_seconds_or_milliseconds():
    assert read_moment(1_794_960_000) == read_moment(1_794_960_000_000) == 1_794_960_000_000


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "-1", "1e999", "9" * 5000, None, True])
def test_a_text_that_is_no_bounded_number_is_unknown(text: object):
    assert read_decimal(text, 1e300) is None


@pytest.mark.parametrize("value", [0, 1, -1, -(2**31), 2**31, 7.0, "7", True])
def test_what_could_signal_many_processes_is_no_pid(value: object):
    assert read_pid(value) is None
