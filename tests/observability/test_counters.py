"""Counters of calls, and metrics in Prometheus' format."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from application import call_tool
from deepwork.kernel.call import CANCELLED, Call
from deepwork.kernel.errors import Code, InvalidInput
from deepwork.views.observability import calls
from deepwork.views.observability.calls import BOUNDS, CallRecorder, Counters, Histogram, get_error_code
from deepwork.views.observability.prometheus import MetricsCollector, render_metrics
from deepwork.views.overview.current_work_store import ActivityCounts
from effort import measure_effort
from observability.prometheus_reader import get_value, parse_metrics

ODD = 'a "quoted" \\ back\nslash'


def test_a_duration_falls_under_the_first_bound_that_it_does_not_exceed():
    spread = Histogram()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] * 1.01, BOUNDS[-1] + 1):
        spread.add(seconds)

    assert (spread.counts[0], spread.counts[1], spread.counts[-1]) == (2, 1, 1)
    assert spread.total == pytest.approx(BOUNDS[0] * 2.01 + BOUNDS[-1] + 1)


def test_calls_from_many_threads_are_all_counted():
    counters = Counters()

    def call() -> None:
        for number in range(2000):
            counters.record_call("t", 0.01, "X" if number % 2 else None)

    with ThreadPoolExecutor(8) as threads:
        for _ in range(8):
            threads.submit(call)

    seen = counters.take_snapshot()
    assert sum(seen.durations["t"].counts) == 16_000
    assert seen.errors == {("t", "X"): 8_000}


def test_a_snapshot_does_not_change_afterwards():
    counters = Counters()
    counters.record_call("t", 1)
    seen = counters.take_snapshot()

    counters.record_call("t", 1, "X")
    counters.record_delivery(1)
    counters.record_refusal(401)

    assert (sum(seen.durations["t"].counts), seen.errors, seen.refusals) == (1, {}, {})
    assert sum(seen.deliveries.counts) == 0


def test_metrics_are_parsed_back_unchanged():
    counters = Counters()
    counters.record_call(ODD, 0.003)
    activity = ActivityCounts(open_claims=3, live_agents=2, active_sessions=1, last_event=12345678901)

    found = parse_metrics(
        render_metrics(MetricsCollector(counters.take_snapshot(), 5.5, activity, 0)).decode()
    )

    assert get_value(found, "deepwork_store_up") == 1
    assert get_value(found, "deepwork_event_last_seq") == 12345678901
    assert get_value(found, "process_start_time_seconds") == 5.5
    assert get_value(found, "deepwork_tool_calls_total", tool=ODD) == 1
    assert get_value(found, "deepwork_tool_duration_seconds", "_count", tool=ODD) == 1
    assert get_value(found, "deepwork_tool_duration_seconds", "_bucket", tool=ODD, le="0.0025") == 0
    assert get_value(found, "deepwork_tool_duration_seconds", "_bucket", tool=ODD, le="0.005") == 1
    assert get_value(found, "deepwork_event_delivery_seconds", "_count") == 0
    assert found["deepwork_tool_errors_total"].samples == {}
    assert "deepwork_event_delivered_seq" not in found
    assert not [name for name in found if "created" in name]


@pytest.mark.parametrize(
    "wrong",
    [
        "# TYPE a gauge\na 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1",
        "# HELP a A.\n# TYPE a number\na 1\n",
        "# HELP a A.\n# TYPE a gauge\nb 1\n",
        "# HELP a A.\n# TYPE a gauge\na one\n",
        '# HELP a A.\n# TYPE a gauge\na{b="1",b="2"} 1\n',
        '# HELP a A.\n# TYPE a gauge\na{b="1} 1\n',
        "# HELP a A.\n# TYPE a gauge\na 1\na 2\n",
        "# HELP a A.\n# TYPE a counter\na 1\n",
        '# HELP a A.\n# TYPE a histogram\na_bucket{le="1"} 1\na_sum 1\na_count 1\n',
        '# HELP a A.\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n',
    ],
)
def test_invalid_metrics_are_refused_by_the_parser(wrong: str):
    with pytest.raises((AssertionError, KeyError, ValueError)):
        parse_metrics(wrong)


def test_every_call_is_counted_with_its_outcome(app, monkeypatch: pytest.MonkeyPatch):
    counters = Counters()
    monkeypatch.setattr(calls, "COUNTERS", counters)

    call_tool(app, "agent_register", name="Ada", runtime="codex")
    call_tool(app, "agent_list")
    for wrong in ({"id": "ag_no"}, {"id": 3}):
        with pytest.raises(Exception, match=r"id|ag_no"):
            call_tool(app, "agent_get", **wrong)

    seen = counters.take_snapshot()
    assert {tool: sum(spread.counts) for tool, spread in seen.durations.items()} == {
        "agent_register": 1, "agent_list": 1, "agent_get": 2,
    }  # fmt: skip
    assert seen.errors == {("agent_get", "AGENT_NOT_FOUND"): 1, ("agent_get", "INVALID_INPUT"): 1}


def test_each_outcome_of_a_call_has_one_code():
    assert get_error_code(InvalidInput("no")) == Code.INVALID_INPUT
    assert get_error_code(KeyError("a fault")) == Code.INTERNAL_ERROR
    assert get_error_code(KeyboardInterrupt()) == CANCELLED


def test_recording_a_call_costs_almost_nothing():
    call = Call("local", "agent_list")

    def watch() -> None:
        for _ in range(10_000):
            with CallRecorder("agent_list", call):
                pass

    # 20 microseconds each would be 40 to 100 of these units.
    assert measure_effort(watch, enough=10) < 25
