"""Renders metrics in Prometheus' text format.

`prometheus_client` only renders. Its own counters take four times as long per call as `Counters`, and every
process counts calls, so it would also delay the start of servers and commands that serve no metrics.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from deepwork import __version__
from deepwork.delivery.landing.models import LandingStatus
from deepwork.delivery.runner.models import FINAL_STAGES, AttemptStage
from deepwork.views.observability.calls import BOUNDS, REFUSAL_STATUSES, CounterSnapshot, Histogram
from deepwork.views.overview.current_work_store import ActivityCounts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OPEN_STAGES = [stage.value for stage in AttemptStage if stage not in FINAL_STAGES]
_OPEN_LANDINGS = [status.value for status in LandingStatus if not status.is_final]
_BUCKETS = [*map(str, BOUNDS), "+Inf"]


class MetricsCollector(Collector):
    """The metrics of one moment: of the process, and of the store if it answers."""

    def __init__(
        self, counts: CounterSnapshot, began: float, activity: ActivityCounts | None, delivered_seq: int
    ) -> None:
        self._counts, self._began, self._activity = counts, began, activity
        self._delivered_seq = delivered_seq

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("deepwork_info", "The version of deepwork.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info
        yield from _collect_calls(self._counts)
        yield from _collect_process(self._began)
        yield from _collect_store(self._activity)
        if self._activity and self._delivered_seq:
            yield GaugeMetricFamily(
                "deepwork_event_delivered_seq",
                "Number of the newest event that reached this process.",
                self._delivered_seq,
            )


def render_metrics(collector: Collector) -> bytes:
    """Render all metrics, each with its HELP and TYPE lines."""
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry)


def _collect_calls(counts: CounterSnapshot) -> Iterator[Metric]:
    calls = CounterMetricFamily("deepwork_tool_calls", "Finished tool calls.", labels=["tool"])
    durations = HistogramMetricFamily(
        "deepwork_tool_duration_seconds", "Duration of a tool call.", labels=["tool"]
    )
    for tool, histogram in sorted(counts.durations.items()):
        calls.add_metric([tool], sum(histogram.counts))
        durations.add_metric([tool], _list_buckets(histogram), histogram.total)
    errors = CounterMetricFamily(
        "deepwork_tool_errors", "Tool calls that ended in an error.", labels=["tool", "code"]
    )
    for (tool, code), count in sorted(counts.errors.items()):
        errors.add_metric([tool, code], count)
    refusals = CounterMetricFamily(
        "deepwork_http_refused_requests", "Refused requests, by status.", labels=["status"]
    )
    for status in sorted(REFUSAL_STATUSES):
        refusals.add_metric([str(status)], counts.refusals.get(status, 0))
    deliveries = HistogramMetricFamily(
        "deepwork_event_delivery_seconds",
        "Time from an event's transaction until it reached this process.",
        _list_buckets(counts.deliveries),
        counts.deliveries.total,
    )
    yield from (calls, errors, durations, refusals, deliveries)


def _list_buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """List the bounds, each with the number of durations that do not exceed it."""
    return list(zip(_BUCKETS, accumulate(histogram.counts), strict=True))


def _collect_process(began: float) -> Iterator[Metric]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Linux counts in KiB, macOS in bytes.
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    cpu_seconds = used.ru_utime + used.ru_stime
    yield GaugeMetricFamily("process_start_time_seconds", "Start of the process, in Unix time.", began)
    yield GaugeMetricFamily(
        "deepwork_uptime_seconds", "Time since the process started.", max(0.0, time.time() - began)
    )
    yield CounterMetricFamily("process_cpu_seconds", "CPU time used by the process.", cpu_seconds)
    yield GaugeMetricFamily("deepwork_memory_peak_bytes", "Peak memory of the process.", peak)
    if (resident := _read_resident_memory()) is not None:
        yield GaugeMetricFamily("process_resident_memory_bytes", "Resident memory of the process.", resident)


def _read_resident_memory() -> int | None:
    """Read the resident memory from /proc; None on systems without it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _collect_store(activity: ActivityCounts | None) -> Iterator[Metric]:
    yield GaugeMetricFamily("deepwork_store_up", "1 if the store answers, 0 if not.", activity is not None)
    if activity is None:
        return
    yield GaugeMetricFamily("deepwork_open_claims", "Tasks that agents hold.", activity.open_claims)
    yield GaugeMetricFamily("deepwork_live_agents", "Agents that are not silent.", activity.live_agents)
    yield GaugeMetricFamily("deepwork_job_sessions_active", "Active job sessions.", activity.active_sessions)
    yield GaugeMetricFamily("deepwork_runs_open", "Runs of agents that have not ended.", activity.open_runs)
    attempts = GaugeMetricFamily(
        "deepwork_attempts_open", "Attempts of agents that have not ended.", labels=["stage"]
    )
    for stage in _OPEN_STAGES:
        attempts.add_metric([stage], activity.attempts.get(stage, 0))
    yield attempts
    landings = GaugeMetricFamily("deepwork_landings_open", "Landings that have not ended.", labels=["status"])
    for status in _OPEN_LANDINGS:
        landings.add_metric([status], activity.landings.get(status, 0))
    yield landings
    states = GaugeMetricFamily(
        "deepwork_open",
        "What has not ended, by kind and state; tasks are those of open plans.",
        labels=["kind", "state"],
    )
    for kind, counts in activity.states.items():
        for state, count in counts.items():
            states.add_metric([kind, state], count)
    yield states
    yield GaugeMetricFamily(
        "deepwork_event_last_seq", "Number of the newest event in the log.", activity.last_event
    )
