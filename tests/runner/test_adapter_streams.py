from __future__ import annotations

import json

import pytest

from deepwork.delivery.runner.adapters import KINDS, get_adapter
from deepwork.delivery.runner.models import Ended, LimitReached, Said, ToolEnded, TransientFailure
from deepwork.delivery.runner.stream_state import StreamState, begin_start
from deepwork.gates.budgets.models import CostSource
from deepwork.kernel.errors import InvalidInput
from runner.samples import (
    CLAUDE_INIT,
    CLAUDE_RESULT,
    CONSTRUCTED,
    NOW,
    build_message,
    load_recorded,
    read_all,
    text_block,
    to_line,
    tool_answer,
    tool_block,
)

RECORDED = {stream.name: stream for stream in load_recorded()}
BY_NAME = {stream.name: stream for stream in CONSTRUCTED}


def read(name: str, state: StreamState | None = None) -> StreamState:
    stream = (BY_NAME | RECORDED)[name]
    return read_all(stream.kind, stream.lines, state)


def test_an_unknown_kind_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(InvalidInput) as raised:
        get_adapter("cobol")

    assert ", ".join(KINDS) in str(raised.value.suggestion)


# Recorded


@pytest.mark.parametrize("stream", [name for name in RECORDED if name.endswith(("_task", "_resume"))])
def test_a_recorded_task_ends_well_with_its_tokens(stream: str) -> None:
    state = read(stream)

    assert state.session_id
    assert state.ended is not None
    assert not state.ended.is_error
    assert state.last_message.startswith("Wrote a.txt")
    assert state.input_tokens >= 2000
    assert state.output_tokens >= 60
    assert (state.limit, state.transient, state.open_tools) == (None, None, {})


@pytest.mark.parametrize("stream", [name for name in RECORDED if "_limit" in name and "opencode" not in name])
def test_a_recorded_limit_is_known_from_the_stream(stream: str) -> None:
    state = read(stream)

    assert state.limit is not None
    assert (state.limit.resets_at is not None) == (stream in ("claude_limit_subscription", "codex_limit"))


@pytest.mark.parametrize("stream", [name for name in RECORDED if name.endswith("_overloaded")])
def test_a_recorded_overload_that_passed_leaves_nothing(stream: str) -> None:
    state = read(stream)

    assert state.last_message == "Wrote a.txt after an overload."
    assert state.transient is None


@pytest.mark.parametrize("stream", [name for name in RECORDED if name.endswith("_denied")])
def test_a_recorded_refusal_of_the_key_is_neither_a_limit_nor_passing(stream: str) -> None:
    state = get_adapter(RECORDED[stream].kind).finish(read(stream), 1, "", now=NOW)

    assert (state.limit, state.transient) == (None, None)
    assert state.ended is not None
    assert state.ended.is_error


@pytest.mark.skipif("codex_resume" not in RECORDED, reason="streams of codex were not recorded")
def test_the_recorded_totals_of_a_resumed_thread_count_once() -> None:
    first = read("codex_task")

    state = read("codex_resume", begin_start(first))

    assert state.session_id == first.session_id
    assert (state.input_tokens, state.output_tokens) == (4000, 120)


# Claude Code


def test_claude_counts_each_message_once_and_lets_the_result_correct_it() -> None:
    stream = BY_NAME["constructed_claude_subagent"]

    live = read_all("claude", stream.lines[:-1])
    state = read_all("claude", stream.lines)

    assert (live.input_tokens, live.cached_tokens, live.output_tokens) == (300, 4000, 50)
    assert live.usd_source is CostSource.PRICED
    assert (state.input_tokens, state.cached_tokens, state.output_tokens) == (370, 4000, 505)
    assert (state.usd_micros, state.usd_source) == (250_000, CostSource.REPORTED)


def test_what_a_subagent_says_is_no_message_of_the_agent() -> None:
    stream = BY_NAME["constructed_claude_subagent"]

    assert read_all("claude", stream.lines[:-1]).last_message == "I begin."
    assert read_all("claude", stream.lines).last_message == "All done."


def test_the_reset_of_the_event_is_used_and_not_that_of_the_text() -> None:
    state = read("constructed_claude_limit_of_a_subscription")

    assert state.limit is not None
    assert (state.limit.resets_at, state.limit.scope) == (NOW + 7_777_000, "five_hour")


@pytest.mark.parametrize(
    "info",
    [
        {"status": "allowed"},
        {"status": "allowed_warning", "resetsAt": 5},
        {"status": "rejected", "resetsAt": 5, "overageStatus": "allowed"},
        {"status": "rejected", "resetsAt": 5, "isUsingOverage": True},
        {},
    ],
)
def test_a_limit_that_does_not_stop_the_agent_is_none(info: dict[str, object]) -> None:
    line = to_line(type="rate_limit_event", rate_limit_info=info)

    assert get_adapter("claude").read_line(line, now=NOW) == ()


@pytest.mark.parametrize("is_error", [False, True])
def test_only_a_failure_is_explained_by_its_wording(is_error: bool) -> None:
    text = "You have reached your weekly limit, resets in 5 hours"
    line = to_line(type="result", subtype="success", is_error=is_error, result=text)

    state = get_adapter("claude").finish(read_all("claude", [line]), int(is_error), text, now=NOW)

    assert state.ended is not None
    assert (state.ended.is_error, state.limit is not None) == (is_error, is_error)


@pytest.mark.parametrize(
    "resets_at", [10**400, 2**63, -1, float("inf"), float("nan"), True, "soon", 10**11 - 1]
)
def test_a_reset_that_cannot_be_is_unknown(resets_at: object) -> None:
    info = {"status": "rejected", "resetsAt": resets_at}

    state = read_all("claude", [to_line(type="rate_limit_event", rate_limit_info=info)])

    assert state.limit is not None
    assert state.limit.resets_at is None


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("claude", to_line(type="system", subtype="init", session_id="--dangerously-skip-permissions")),
        ("codex", to_line(type="thread.started", thread_id="--sandbox=danger-full-access")),
        ("gemini", to_line(type="init", session_id="-y")),
        ("opencode", to_line(type="step_start", sessionID="--auto")),
    ],
)
def test_a_session_id_that_would_be_an_option_of_the_program_is_none(kind: str, line: str) -> None:
    assert read_all(kind, [line]).session_id is None


def test_work_on_rate_limits_is_no_limit() -> None:
    text = "I added retries: after a 429 the client waits until the rate limit resets in 5 minutes."
    lines = [build_message("m1", text_block(text)), to_line(type="result", subtype="success", result=text)]

    state = get_adapter("claude").finish(read_all("claude", lines), 0, "429 Too Many Requests", now=NOW)

    assert (state.limit, state.transient) == (None, None)
    assert state.ended == Ended(is_error=False, text=text)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"subtype": "error_max_budget_usd", "is_error": True}, "error_max_budget_usd"),
        ({"subtype": "error_max_turns"}, "error_max_turns"),
        ({"subtype": "success", "is_error": True, "api_error_status": 401}, "api error 401"),
    ],
)
def test_other_failures_of_claude_have_their_reason(event: dict[str, object], reason: str) -> None:
    state = read_all("claude", [to_line(type="result", **event)])

    assert state.ended is not None
    assert (state.ended.is_error, state.ended.reason) == (True, reason)
    assert (state.limit, state.transient) == (None, None)


def test_a_deferred_tool_is_the_reason_of_the_end() -> None:
    line = to_line(type="result", subtype="success", is_error=False, stop_reason="tool_deferred", result="")

    assert read_all("claude", [line]).ended == Ended(is_error=False, reason="tool_deferred")


def test_an_overload_that_outlasts_the_retries_is_passing() -> None:
    line = to_line(
        type="result",
        subtype="success",
        is_error=True,
        api_error_status=529,
        result="API Error: 529 Overloaded",
    )

    assert read_all("claude", [line]).transient == TransientFailure("API Error: 529 Overloaded")


# Long and broken lines


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("claude", tool_answer("t1", "x" * 9_000_000)),
        ("codex", '{"type":"item.completed","item":{"id":"t1","aggregated_output":"' + "x" * 9_000_000),
        ("gemini", '{"type":"tool_result","timestamp":"now","tool_id":"t1","output":"' + "x" * 9_000_000),
    ],
)
def test_a_tool_ends_also_if_its_answer_was_cut(kind: str, line: str) -> None:
    assert get_adapter(kind).read_line(line[:1_000_000], now=NOW) == (ToolEnded("t1"),)


def test_a_line_of_nine_megabytes_is_read_and_its_text_cut() -> None:
    line = build_message("m1", text_block("x" * 9_000_000 + "end"), tool_block("t1", command="y" * 9_000_000))

    state = read_all("claude", [CLAUDE_INIT, line])

    assert state.last_message.endswith("end")
    assert len(state.to_json()) < 40_000


@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"type":' * 50_000, '{"type": "result", "n": ' + "9" * 9_999 + "}"]
)
@pytest.mark.parametrize("kind", ["claude", "codex", "gemini", "opencode"])
def test_json_that_no_parser_likes_is_noise(kind: str, line: str) -> None:
    assert get_adapter(kind).read_line(line, now=NOW) == ()


# Codex, Gemini CLI, opencode


def test_codex_counts_its_totals_by_their_differences() -> None:
    state = read("constructed_codex_two_turns", StreamState(model="gpt-5"))

    assert (state.input_tokens, state.cached_tokens, state.output_tokens) == (800, 700, 90)
    assert state.usd_source is CostSource.PRICED
    assert (state.last_message, state.transient) == ("Two.", None)


def test_gemini_prices_each_model_and_counts_thoughts_as_output() -> None:
    state = read("constructed_gemini_parts_of_a_text")

    assert (state.input_tokens, state.cached_tokens, state.output_tokens) == (610, 300, 102)
    assert (state.usd_source, state.unpriced_tokens) == (CostSource.PRICED, 12)
    assert state.last_message == "Done."


def test_opencode_reports_its_dollars() -> None:
    state = read("constructed_opencode_with_dollars")

    assert (state.input_tokens, state.cached_tokens, state.output_tokens) == (17, 7, 8)
    assert (state.usd_micros, state.usd_source) == (3_000, CostSource.REPORTED)
    assert (state.session_id, state.last_message, state.ended) == ("ses_1", "Ready.", Ended(is_error=False))


@pytest.mark.parametrize(
    ("data", "limit", "is_transient"),
    [
        (
            {"message": "Slow down", "statusCode": 429, "responseHeaders": {"retry-after": "60"}},
            NOW + 60_000,
            False,
        ),
        ({"message": "Rate limit, retry in 5s", "statusCode": 429}, NOW + 5_000, False),
        ({"message": "oops", "statusCode": 503}, None, True),
        ({"message": "Incorrect API key", "statusCode": 401}, None, False),
    ],
)
def test_errors_of_opencode_are_limits_and_failures_by_their_status(
    data: dict[str, object], limit: int | None, is_transient: bool
) -> None:
    state = read_all("opencode", [to_line(type="error", error={"name": "APIError", "data": data})])

    assert (state.limit.resets_at if state.limit else None) == limit
    assert (state.transient is not None) == is_transient
    assert state.ended == Ended(is_error=True, text=str(data["message"]), reason="APIError")


def test_the_log_of_opencode_says_which_limit_it_waits_at() -> None:
    log = (
        'timestamp=2026 level=ERROR message="stream error" error.error="AI_APICallError: Rate limit reached"'
    )

    state = get_adapter("opencode").finish(StreamState(), 143, f"{log}\n{log}", now=NOW)

    assert state.limit == LimitReached(None, "AI_APICallError: Rate limit reached", "rate")


# The end of the process


@pytest.mark.parametrize("kind", ["claude", "codex", "gemini", "opencode"])
def test_a_vendor_that_exits_without_a_result_failed(kind: str) -> None:
    state = get_adapter(kind).finish(StreamState(), 0, "", now=NOW)

    assert state.ended == Ended(is_error=True, reason="no result")


def test_a_result_counts_for_nothing_if_the_exit_code_is_not_0() -> None:
    state = get_adapter("claude").finish(read_all("claude", [CLAUDE_RESULT]), 1, "", now=NOW)

    assert state.ended == Ended(is_error=True, reason="exit code 1")


def test_an_unknown_exit_code_changes_nothing() -> None:
    state = read_all("claude", [CLAUDE_INIT, build_message("m1", text_block("hi"))])

    assert get_adapter("claude").finish(state, None, "usage limit", now=NOW) == state


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        (["Wrote a.txt.", '{"type": "result", "is_error": false, "total_cost_usd": 0.1}'], "Wrote a.txt."),
        (["Wrote a.txt.", '{"type": "turn", "n": 1}', "[1, 2]", "----"], "Wrote a.txt."),
        (['{"type": "result", "result": "Wrote a.txt."}'], "Wrote a.txt."),
        (["Wrote {a, b}.txt.", "{oops"], "{oops"),
        (['{"type": "result", "is_error": false}'], ""),
    ],
)
def test_the_outcome_of_a_command_is_words(lines: list[str], outcome: str) -> None:
    assert read_all("command", lines).last_message == outcome


@pytest.mark.parametrize("more", [{}, {"usage": {"input_tokens": 5}}, {"total_cost_usd": 0.5}])
def test_the_model_that_a_command_names_is_kept(more: dict[str, object]) -> None:
    assert read_all("command", [to_line(type="result", model="my-model", **more)]).model == "my-model"


def test_stderr_explains_an_end_without_a_result() -> None:
    limit = get_adapter("claude").finish(StreamState(), 1, "usage limit reached|1794960000", now=NOW)
    failure = get_adapter("codex").finish(StreamState(), 1, "boom\nread ECONNRESET\n", now=NOW)

    assert limit.limit == LimitReached(1_794_960_000_000, "usage limit reached|1794960000", "usage")
    assert failure.transient == TransientFailure("read ECONNRESET")
    assert failure.ended == Ended(is_error=True, text="read ECONNRESET", reason="exit code 1")


def test_stderr_says_when_a_limit_of_the_stream_ends() -> None:
    line = to_line(type="result", status="error", error={"message": "You have exhausted your daily quota."})

    state = get_adapter("gemini").finish(read_all("gemini", [line]), 1, "Please retry in 3600s.", now=NOW)

    assert state.limit is not None
    assert state.limit.resets_at == NOW + 3_600_000


# Any command


def test_the_last_line_of_a_command_is_its_message() -> None:
    state = get_adapter("command").finish(read("constructed_command"), 0, "", now=NOW)

    assert state.last_message == "All written."
    assert state.ended == Ended(is_error=False)


def test_a_long_line_of_a_command_is_cut_to_two_kilobytes() -> None:
    (signal,) = get_adapter("command").read_line("é" * 5000, now=NOW)

    assert signal == Said("é" * 1024)


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_command_can_say_that_it_failed(exit_code: int) -> None:
    line = json.dumps({"type": "result", "is_error": True, "result": "no tests"})

    state = get_adapter("command").finish(read_all("command", ["x", line]), exit_code, "", now=NOW)

    assert state.ended is not None
    assert (state.ended.is_error, state.ended.text) == (True, "no tests")
    assert state.last_message == "x"


def test_a_command_that_exits_with_another_code_failed() -> None:
    lines = ["done", json.dumps({"type": "result", "is_error": False})]

    state = get_adapter("command").finish(read_all("command", lines), 3, "", now=NOW)

    assert state.ended == Ended(is_error=True, reason="exit code 3")


def test_a_command_can_report_what_it_used() -> None:
    usage = {"input_tokens": 100, "output_tokens": 5}
    line = to_line(type="result", is_error=False, usage=usage, total_cost_usd=0.5)

    state = read_all("command", [line])

    assert (state.tokens, state.usd_micros, state.usd_source) == (105, 500_000, CostSource.REPORTED)
