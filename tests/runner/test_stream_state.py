from __future__ import annotations

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
from deepwork.delivery.runner.stream_state import MAX_MESSAGE, StreamState, apply, begin_start, describe_now
from deepwork.gates.budgets.models import CostSource

OPUS = "claude-opus-4-8"


def fold(*signals: Signal, state: StreamState | None = None) -> StreamState:
    return apply(state or StreamState(), signals)


def total(input: int, cached: int = 0, output: int = 0, key: str = SESSION_TOTAL) -> UsageReported:
    return UsageReported(key, input, cached, output, is_total=True)


def test_a_report_that_is_repeated_counts_once_with_its_highest_figures() -> None:
    state = fold(
        UsageReported("m1", 100, 20, 1), UsageReported("m1", 100, 20, 30), UsageReported("m1", 90, 0, 0)
    )

    assert (state.input_tokens, state.cached_tokens, state.output_tokens) == (100, 20, 30)


def test_totals_of_a_session_count_by_their_differences() -> None:
    state = fold(SessionStarted("th"), total(1000, 400, 50), total(1000, 400, 50), total(1500, 700, 90))

    assert (state.input_tokens, state.cached_tokens, state.output_tokens) == (1500, 700, 90)


def test_totals_of_a_resumed_session_go_on_where_the_start_before_ended() -> None:
    first = fold(SessionStarted("th"), total(1000, 400, 50))

    second = fold(SessionStarted("th"), total(1600, 700, 90), state=begin_start(first))

    assert second.tokens == 1600 + 700 + 90


def test_a_new_session_counts_from_zero() -> None:
    first = fold(SessionStarted("th-1"), total(1000))

    second = fold(SessionStarted("th-2"), total(300), state=begin_start(first))

    assert second.tokens == 1300


def test_a_total_that_falls_was_begun_anew() -> None:
    assert fold(SessionStarted("th"), total(1000), total(200), total(250)).tokens == 1250


def test_the_total_of_a_start_corrects_what_was_counted_live() -> None:
    live = fold(UsageReported("m1", 100, 0, 1, model=OPUS), UsageReported("m2", 100, 0, 1, model=OPUS))

    state = fold(UsageReported(START_TOTAL, 240, 10, 90, 7_000, is_total=True), state=live)

    assert (live.usd_source, live.usd_micros) == (CostSource.PRICED, 1050)
    assert (state.input_tokens, state.cached_tokens, state.output_tokens) == (240, 10, 90)
    assert (state.usd_source, state.usd_micros) == (CostSource.REPORTED, 7_000)


def test_the_total_of_a_start_corrects_no_earlier_start() -> None:
    first = fold(UsageReported("m1", 100, 0, 1, model=OPUS))
    live = fold(UsageReported("m1", 100, 0, 1, model=OPUS), state=begin_start(first))

    state = fold(UsageReported(START_TOTAL, 100, 0, 50, 2_000, is_total=True), state=live)

    assert state.tokens == 101 + 150
    assert state.usd_micros == first.usd_micros + 2_000
    assert state.usd_source is CostSource.PRICED


def test_tokens_do_not_fall_where_the_total_of_a_start_is_lower() -> None:
    state = fold(UsageReported("m1", 100, 0, 9), UsageReported(START_TOTAL, 10, 0, 2, is_total=True))

    assert state.tokens == 109


def test_tokens_are_priced_by_the_model_of_the_report_else_of_the_session() -> None:
    by_session = fold(SessionStarted("s", f"{OPUS}[1m]"), UsageReported("m1", 1_000_000, 0, 0))
    by_profile = fold(SessionStarted("s"), total(1_000_000), state=begin_start(StreamState(), model=OPUS))

    assert by_session.usd_micros == by_profile.usd_micros == 5_000_000


def test_tokens_of_an_unknown_model_have_no_dollars() -> None:
    unknown = fold(UsageReported("m1", 100, 0, 5, model="mystery"))

    reported = fold(UsageReported(START_TOTAL, 100, 0, 5, 900, is_total=True), state=unknown)

    assert (unknown.usd_micros, unknown.usd_source, unknown.unpriced_tokens) == (0, None, 105)
    assert (reported.usd_micros, reported.usd_source, reported.unpriced_tokens) == (
        900,
        CostSource.REPORTED,
        0,
    )


def test_progress_ends_a_limit_and_a_failure() -> None:
    stopped = fold(LimitReached(5, "limit"), TransientFailure("529"))

    for signal in (Said("on"), ToolStarted("t", "Bash")):
        state = fold(signal, state=stopped)
        assert (state.limit, state.transient) == (None, None)


def test_the_first_reset_of_a_limit_stands() -> None:
    state = fold(LimitReached(None, "a"), LimitReached(77_000, "event"), LimitReached(60_000, "text"))

    assert state.limit == LimitReached(77_000, "text")


def test_an_error_at_the_end_is_not_explained_by_a_failure_before_it() -> None:
    state = fold(TransientFailure("529"), Ended(is_error=True, text="Invalid API key"))

    assert state.transient is None


def test_a_start_forgets_how_the_one_before_ended_and_keeps_what_was_spent() -> None:
    ended = fold(
        SessionStarted("s", OPUS),
        UsageReported("m1", 10, 0, 0),
        ToolStarted("t", "Bash"),
        Said("half"),
        LimitReached(5, "limit"),
        Ended(is_error=True),
    )

    state = begin_start(ended)

    assert (state.ended, state.limit, state.open_tools, describe_now(state)) == (None, None, {}, "")
    assert (state.session_id, state.tokens, state.last_message) == ("s", 10, "half")


def test_it_says_what_the_agent_is_doing() -> None:
    state = fold(ToolStarted("t1", "Bash", "make\n\ttest"), ToolStarted("t2", "Read", "a.txt"))

    assert describe_now(state) == "Read: a.txt"
    state = fold(ToolEnded("t2"), state=state)
    assert describe_now(state) == "Bash: make test"
    assert describe_now(fold(ToolEnded("t1"), state=state)) == "thinking"
    assert describe_now(fold(TransientFailure("529"), state=state)) == "waiting: 529"
    assert describe_now(fold(Said("\x1b[31m" + "word " * 100))) == ("[31m" + "word " * 16)[:79] + "…"


def test_parts_of_a_text_are_one_message() -> None:
    state = fold(Said("I ", is_delta=True), Said("look.", is_delta=True), ToolStarted("t", "Read"))

    assert state.last_message == "I look."
    assert fold(Said("Done.", is_delta=True), state=state).last_message == "Done."


def test_the_end_of_a_long_message_is_kept() -> None:
    state = fold(Said("x" * MAX_MESSAGE + "the outcome"))

    assert len(state.last_message) == MAX_MESSAGE
    assert state.last_message.endswith("the outcome")


def test_a_state_stays_small() -> None:
    many = range(1000)

    state = fold(
        *(UsageReported(f"m{n}", 1, 1, 1) for n in many),
        *(ToolStarted(f"t{n}", "Bash", "x" * 999) for n in many),
    )

    assert state.tokens == 3000
    assert len(state.to_json()) < 20_000


def test_a_state_of_another_version_can_be_read() -> None:
    assert StreamState.from_json('{"output_tokens": 5, "made_up": 1}') == StreamState(output_tokens=5)
