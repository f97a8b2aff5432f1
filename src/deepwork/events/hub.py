"""The feed for many listeners of one process: the log is read once, however many follow it."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from itertools import islice

from deepwork.events.feed import Batch, Feed, ResyncRequired
from deepwork.events.log import Event

log = logging.getLogger("deepwork")

MAX_EVENTS = 1000
MAX_BYTES = 1024 * 1024
RETRY_SECONDS = 0.5


@dataclass(frozen=True)
class Told:
    """An event as it goes over a wire."""

    seq: int
    workflow_id: str | None
    text: str


class Hub:
    """Keeps the newest events in memory; whoever is further behind reads them from the log.

    So a slow listener costs no memory and loses nothing, and a fast one costs no query.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._recent: deque[Told] = deque()
        self._bytes = 0
        self._position = -1
        self._starting = asyncio.Lock()
        self._news = asyncio.Event()
        self._is_over = threading.Event()

    async def stream(
        self, since: int | None = None, workflow_id: str | None = None
    ) -> AsyncIterator[Told | ResyncRequired]:
        """Every event after a number, or from now on, each once and in order, for ever."""
        await self._start()
        cursor = self._position if since is None else since
        while True:
            batch = await self._after(cursor, workflow_id)
            if isinstance(batch, ResyncRequired):
                yield batch
                return
            events, upto = batch
            for told in events:
                yield told
            if upto == cursor:
                await self._news.wait()
            cursor = upto

    def close(self) -> None:
        self._is_over.set()

    async def _after(self, cursor: int, workflow_id: str | None) -> tuple[list[Told], int] | ResyncRequired:
        if cursor == self._position:
            return [], cursor
        if self._recent and self._recent[0].seq - 1 <= cursor < self._position:
            newer = islice(self._recent, cursor + 1 - self._recent[0].seq, None)
            return [told for told in newer if workflow_id in (None, told.workflow_id)], self._position
        batch = await asyncio.to_thread(self._feed.read, cursor, workflow_id=workflow_id)
        return ([_told(event) for event in batch.events], batch.upto) if isinstance(batch, Batch) else batch

    async def _start(self) -> None:
        async with self._starting:
            if self._position < 0:
                self._position = await asyncio.to_thread(self._feed.last)
                loop = asyncio.get_running_loop()
                threading.Thread(target=self._follow, args=(loop,), name="deepwork-hub", daemon=True).start()

    def _follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread of its own: read the log for ever, through failures of the database too."""
        position = self._position
        while not self._is_over.is_set():
            try:
                for event in self._feed.follow(position, is_over=self._is_over.is_set):
                    position = event.seq if isinstance(event, Event) else event.resume_at
                    loop.call_soon_threadsafe(self._publish, event)
            except Exception as error:  # noqa: BLE001 - whatever the database does, the news must go on
                if loop.is_closed():
                    return
                log.warning("The event log cannot be followed: %s", error)
                time.sleep(RETRY_SECONDS)

    def _publish(self, event: Event | ResyncRequired) -> None:
        if isinstance(event, ResyncRequired):
            self._recent.clear()
            self._position, self._bytes = event.resume_at, 0
        else:
            self._remember(_told(event))
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _remember(self, told: Told) -> None:
        self._recent.append(told)
        self._position = told.seq
        self._bytes += len(told.text)
        while len(self._recent) > MAX_EVENTS or (self._bytes > MAX_BYTES and len(self._recent) > 1):
            self._bytes -= len(self._recent.popleft().text)


def _told(event: Event) -> Told:
    text = json.dumps(asdict(event), ensure_ascii=False, separators=(",", ":"))
    return Told(event.seq, event.workflow_id, text)
