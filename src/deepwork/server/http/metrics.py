"""`/metrics`: metrics of this process and the store, for Prometheus."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepwork import __version__
from deepwork.agents.presence import Presence
from deepwork.database.transaction import Database
from deepwork.errors import DeepworkError, StorageError
from deepwork.events.hub import EventHub, SerializedEvent
from deepwork.observability.counters import COUNTERS, Counters
from deepwork.observability.prometheus import CONTENT_TYPE, Metric, create_single_metric, render_metrics
from deepwork.overview.activity_store import ActivityCounts, ActivityStore

FRESH_SECONDS = 5.0
"""How long figures of the store are cached, regardless of how many clients collect them."""
REFUSALS = frozenset({401, 403, 413, 421, 429, 503})
"""Statuses with which the guard refuses requests."""


class MetricsEndpoint:
    """Serves the metrics of one process and its store."""

    def __init__(
        self, database: Database, presence: Presence, hub: EventHub, counters: Counters = COUNTERS
    ) -> None:
        self._database, self._presence, self._hub, self._counters = database, presence, hub, counters
        self._began = time.time()
        self._lock = threading.Lock()
        self._queried_at = float("-inf")
        self._figures: ActivityCounts | None = None
        self._follower: asyncio.Task[None] | None = None
        self._delivered = 0

    def build_routes(self) -> list[BaseRoute]:
        return [Route("/metrics", self._serve, methods=["GET"])]

    async def _serve(self, _: Request) -> Response:
        # Follow events only after the first collection, so that others do not pay for it.
        if self._follower is None or self._follower.done():
            self._follower = asyncio.create_task(self._follow_events())
        text = await anyio.to_thread.run_sync(lambda: render_metrics(self._collect()))
        return Response(text, media_type=CONTENT_TYPE)

    async def _follow_events(self) -> None:
        """Measure the delay of each event from its transaction to here, until the store fails."""
        with suppress(
            DeepworkError
        ):  # `deepwork_store_up` reports it; the next collection starts following again
            async for notice in self._hub.stream():
                if isinstance(notice, SerializedEvent):
                    self._delivered = notice.seq
                    self._counters.record_delivery(max(0.0, time.time() - _parse_stored_at(notice)))

    def _collect(self) -> Iterator[Metric]:
        yield Metric("deepwork_info", "gauge", "The version of deepwork.", [({"version": __version__}, 1)])
        yield from _collect_calls(self._counters)
        yield from _collect_process(self._began)
        yield from self._collect_store()

    def _collect_store(self) -> Iterator[Metric]:
        now = self._get_cached_figures()
        yield create_single_metric(
            "deepwork_store_up", "gauge", "1 if the store answers, 0 if not.", int(now is not None)
        )
        if now is None:
            return
        yield create_single_metric(
            "deepwork_open_claims", "gauge", "Tasks that agents hold.", now.open_claims
        )
        yield create_single_metric(
            "deepwork_live_agents", "gauge", "Agents that are not silent.", now.live_agents
        )
        yield create_single_metric(
            "deepwork_job_sessions_active", "gauge", "Active job sessions.", now.active_sessions
        )
        yield create_single_metric(
            "deepwork_event_last_seq", "gauge", "Number of the newest event in the log.", now.last_event
        )
        if self._delivered:
            yield create_single_metric(
                "deepwork_event_delivered_seq",
                "gauge",
                "Number of the newest event that reached this process.",
                self._delivered,
            )

    def _get_cached_figures(self) -> ActivityCounts | None:
        """Return figures at most a few seconds old; None while the store is unavailable."""
        with self._lock:
            if time.monotonic() - self._queried_at >= FRESH_SECONDS:
                self._figures = self._query_figures()
                self._queried_at = time.monotonic()
            return self._figures

    def _query_figures(self) -> ActivityCounts | None:
        try:
            with self._database.reading() as tx:
                return ActivityStore(tx).count_activity(self._presence.get_alive_since(tx))
        except StorageError:
            return None


@dataclass(frozen=True)
class RefusalCounterMiddleware:
    """Counts the requests that the guard refuses."""

    app: ASGIApp
    counters: Counters = COUNTERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"].endswith("response.start") and message["status"] in REFUSALS:
                self.counters.record_refusal(message["status"])
            await send(message)

        await self.app(scope, receive, counted)


def _collect_calls(counters: Counters) -> Iterator[Metric]:
    seen = counters.take_snapshot()
    calls = [({"tool": tool}, sum(spread.counts)) for tool, spread in sorted(seen.durations.items())]
    errors = [({"tool": tool, "code": code}, count) for (tool, code), count in sorted(seen.errors.items())]
    yield Metric("deepwork_tool_calls_total", "counter", "Finished tool calls.", list(calls))
    yield Metric("deepwork_tool_errors_total", "counter", "Tool calls that ended in an error.", list(errors))
    yield Metric(
        "deepwork_tool_duration_seconds",
        "histogram",
        "Duration of a tool call.",
        [({"tool": tool}, spread) for tool, spread in sorted(seen.durations.items())],
    )
    yield Metric(
        "deepwork_http_refused_requests_total",
        "counter",
        "Refused requests, by status.",
        [({"status": str(status)}, seen.refusals.get(status, 0)) for status in sorted(REFUSALS)],
    )
    yield Metric(
        "deepwork_event_delivery_seconds",
        "histogram",
        "Time from an event's transaction until it reached this process.",
        [({}, seen.deliveries)],
    )


def _collect_process(began: float) -> Iterator[Metric]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield create_single_metric(
        "process_start_time_seconds", "gauge", "Start of the process, in Unix time.", began
    )
    yield create_single_metric(
        "deepwork_uptime_seconds", "gauge", "Time since the process started.", time.time() - began
    )
    yield create_single_metric(
        "process_cpu_seconds_total", "counter", "CPU time used by the process.", used.ru_utime + used.ru_stime
    )
    # Linux counts in KiB, macOS in bytes.
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    yield create_single_metric("deepwork_memory_peak_bytes", "gauge", "Peak memory of the process.", peak)
    if (resident := _read_resident_memory()) is not None:
        yield create_single_metric(
            "process_resident_memory_bytes", "gauge", "Resident memory of the process.", resident
        )


def _read_resident_memory() -> int | None:
    """Read the resident memory from /proc; None on systems without it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _parse_stored_at(notice: SerializedEvent) -> float:
    moment: str = json.loads(notice.text)["ts"]
    return datetime.fromisoformat(moment).timestamp()
