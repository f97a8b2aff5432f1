"""Metrics and access logs, without secrets."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import DeepworkError, StorageError
from deepwork.kernel.events.hub import EventHub, SerializedEvent
from deepwork.kernel.records import dataclass
from deepwork.views.observability.calls import COUNTERS, REFUSAL_STATUSES, Counters
from deepwork.views.overview.current_work_store import ActivityCounts, ActivityStore
from deepwork.views.overview.states.store import UNKNOWN_PROCESSES, LocalProcesses
from deepwork.views.overview.states.totals import count_by_kind
from deepwork.views.overview.states.view import StateView
from deepwork.work.agents.presence import Presence

_TOKEN_PATTERN = re.compile(r"dw_[0-9a-z]{12}_[A-Za-z0-9_-]{43}")
HIDDEN = "dw_…"


class TokenRedactionFilter(logging.Filter):
    """Replaces named tokens and the owner's token in every line."""

    def __init__(self, owner_token: str) -> None:
        super().__init__()
        self._owner_forms = {owner_token, repr(owner_token)[1:-1]}  # plain, and escaped as in a traceback

    def filter(self, record: logging.LogRecord) -> bool:
        line = record.getMessage()
        hidden = _TOKEN_PATTERN.sub(HIDDEN, line)
        for form in self._owner_forms:
            hidden = hidden.replace(form, HIDDEN)
        if hidden != line:
            record.msg, record.args = hidden, ()
        return True


def redact_tokens_in_logs(owner_token: str) -> None:
    """Add the filter to all log handlers of this process."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(TokenRedactionFilter(owner_token))


FRESH_SECONDS = 5.0
"""How long figures of the store are cached, regardless of how many clients collect them."""


class MetricsEndpoint:
    """Serves the metrics of one process and its store."""

    def __init__(
        self,
        database: Database,
        presence: Presence,
        hub: EventHub,
        counters: Counters = COUNTERS,
        processes: LocalProcesses = UNKNOWN_PROCESSES,
    ) -> None:
        self._database, self._presence, self._hub, self._counters = database, presence, hub, counters
        self._processes = processes
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
        return await anyio.to_thread.run_sync(self._render)

    def _render(self) -> Response:
        # A server that nobody collects metrics from does not import prometheus_client.
        from deepwork.views.observability.prometheus import CONTENT_TYPE, MetricsCollector, render_metrics

        collector = MetricsCollector(
            self._counters.take_snapshot(), self._began, self._get_cached_figures(), self._delivered
        )
        return Response(render_metrics(collector), media_type=CONTENT_TYPE)

    async def _follow_events(self) -> None:
        """Measure the delay of each event from its transaction to here, until the store fails."""
        with suppress(
            DeepworkError
        ):  # `deepwork_store_up` reports it; the next collection starts following again
            async for notice in self._hub.stream():
                if isinstance(notice, SerializedEvent):
                    self._delivered = notice.seq
                    self._counters.record_delivery(max(0.0, time.time() - _parse_stored_at(notice)))

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
                figures = ActivityStore(tx).count_activity(self._presence.get_alive_since(tx))
                return replace(figures, states=count_by_kind(StateView(tx, self._processes)))
        except StorageError:
            return None


@dataclass(frozen=True)
class RefusalCounterMiddleware:
    """Counts the requests that the guard refuses."""

    app: ASGIApp
    counters: Counters = COUNTERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"].endswith("response.start") and message["status"] in REFUSAL_STATUSES:
                self.counters.record_refusal(message["status"])
            await send(message)

        await self.app(scope, receive, counted)


def _parse_stored_at(notice: SerializedEvent) -> float:
    moment: str = json.loads(notice.text)["ts"]
    return datetime.fromisoformat(moment).timestamp()
