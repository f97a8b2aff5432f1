"""`/metrics`: figures of this process and of the store, for Prometheus to collect."""

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
from deepwork.events.hub import Hub, Told
from deepwork.observability.counters import COUNTERS, Counters
from deepwork.observability.exposition import CONTENT_TYPE, Metric, exposition, single
from deepwork.observability.store import FigureStore, UnderWay

FRESH_SECONDS = 5.0
"""For so long the store is not asked again, however many collect."""
REFUSALS = frozenset({401, 403, 413, 421, 429, 503})
"""What the guard answers to whoever may not pass, or asks for too much."""


class Metrics:
    """The figures of one process, over its store."""

    def __init__(
        self, database: Database, presence: Presence, hub: Hub, counters: Counters = COUNTERS
    ) -> None:
        self._database, self._presence, self._hub, self._counters = database, presence, hub, counters
        self._began = time.time()
        self._asking = threading.Lock()
        self._asked_at = float("-inf")
        self._under_way: UnderWay | None = None
        self._following: asyncio.Task[None] | None = None
        self._delivered = 0

    def routes(self) -> list[BaseRoute]:
        return [Route("/metrics", self._answer, methods=["GET"])]

    async def _answer(self, _: Request) -> Response:
        # Events are followed only where somebody collects: whoever does not, pays nothing.
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._follow())
        text = await anyio.to_thread.run_sync(lambda: exposition(self._metrics()))
        return Response(text, media_type=CONTENT_TYPE)

    async def _follow(self) -> None:
        """Note how long each event took from its transaction to here, until the store is away."""
        with suppress(DeepworkError):  # `deepwork_store_up` tells; the next one to collect begins anew
            async for told in self._hub.stream():
                if isinstance(told, Told):
                    self._delivered = told.seq
                    self._counters.delivered(max(0.0, time.time() - _stored_at(told)))

    def _metrics(self) -> Iterator[Metric]:
        yield Metric("deepwork_info", "gauge", "The version of deepwork.", [({"version": __version__}, 1)])
        yield from _calls(self._counters)
        yield from _process(self._began)
        yield from self._store()

    def _store(self) -> Iterator[Metric]:
        now = self._asked()
        yield single("deepwork_store_up", "gauge", "1 if the store answers, 0 if not.", int(now is not None))
        if now is None:
            return
        yield single("deepwork_open_claims", "gauge", "Tasks that agents hold.", now.open_claims)
        yield single("deepwork_live_agents", "gauge", "Agents that gave a sign of life.", now.live_agents)
        yield single("deepwork_job_sessions_active", "gauge", "Job sessions under way.", now.active_sessions)
        yield single("deepwork_event_last_seq", "gauge", "The newest event in the log.", now.last_event)
        if self._delivered:
            yield single(
                "deepwork_event_delivered_seq",
                "gauge",
                "The newest event that reached this process.",
                self._delivered,
            )

    def _asked(self) -> UnderWay | None:
        """What is under way, as of the last few seconds; None while the store is away."""
        with self._asking:
            if time.monotonic() - self._asked_at >= FRESH_SECONDS:
                self._under_way = self._ask()
                self._asked_at = time.monotonic()
            return self._under_way

    def _ask(self) -> UnderWay | None:
        try:
            with self._database.reading() as tx:
                return FigureStore(tx).under_way(self._presence.alive_since(tx))
        except StorageError:
            return None


@dataclass(frozen=True)
class CountRefusals:
    """Around the guard: counts whom it turns away."""

    app: ASGIApp
    counters: Counters = COUNTERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"].endswith("response.start") and message["status"] in REFUSALS:
                self.counters.refused(message["status"])
            await send(message)

        await self.app(scope, receive, counted)


def _calls(counters: Counters) -> Iterator[Metric]:
    seen = counters.seen()
    calls = [({"tool": tool}, sum(spread.counts)) for tool, spread in sorted(seen.durations.items())]
    errors = [({"tool": tool, "code": code}, count) for (tool, code), count in sorted(seen.errors.items())]
    yield Metric("deepwork_tool_calls_total", "counter", "Calls of a tool that ended.", list(calls))
    yield Metric("deepwork_tool_errors_total", "counter", "Those that ended in an error.", list(errors))
    yield Metric(
        "deepwork_tool_duration_seconds",
        "histogram",
        "How long a call of a tool took.",
        [({"tool": tool}, spread) for tool, spread in sorted(seen.durations.items())],
    )
    yield Metric(
        "deepwork_http_refused_requests_total",
        "counter",
        "Requests that were refused, by status.",
        [({"status": str(status)}, seen.refusals.get(status, 0)) for status in sorted(REFUSALS)],
    )
    yield Metric(
        "deepwork_event_delivery_seconds",
        "histogram",
        "How long an event took from its transaction to this process.",
        [({}, seen.deliveries)],
    )


def _process(began: float) -> Iterator[Metric]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield single("process_start_time_seconds", "gauge", "When it began, in Unix time.", began)
    yield single("deepwork_uptime_seconds", "gauge", "How long it has run.", time.time() - began)
    yield single(
        "process_cpu_seconds_total", "counter", "Processor time it took.", used.ru_utime + used.ru_stime
    )
    # Linux counts in KiB, macOS in bytes.
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    yield single("deepwork_memory_peak_bytes", "gauge", "The most memory it ever held.", peak)
    if (resident := _resident()) is not None:
        yield single("process_resident_memory_bytes", "gauge", "Memory that it holds.", resident)


def _resident() -> int | None:
    """Where the system tells it to a file, as Linux does."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _stored_at(told: Told) -> float:
    moment: str = json.loads(told.text)["ts"]
    return datetime.fromisoformat(moment).timestamp()
