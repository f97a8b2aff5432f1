"""Shares one event feed among all listeners of a process, so the log is read only once."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import asdict
from itertools import islice

from deepwork.kernel.errors import DeepworkError, StorageError
from deepwork.kernel.events.feed import EventBatch, EventFeed, ResyncRequired
from deepwork.kernel.events.log import Event
from deepwork.kernel.events.store_watch import StoreWatch
from deepwork.kernel.records import dataclass

log = logging.getLogger("deepwork")

MAX_EVENTS = 1000
MAX_BYTES = 1024 * 1024
RETRY_SECONDS = 0.5


@dataclass(frozen=True)
class SerializedEvent:
    """An event as JSON, ready to send."""

    seq: int
    workflow_id: str | None
    text: str


class EventHub:
    """Keeps the newest events in memory; listeners that lag further behind read from the log.

    A slow listener therefore needs no memory and loses nothing, and a fast one needs no query.
    """

    def __init__(self, feed: EventFeed, watch: StoreWatch | None = None) -> None:
        self._feed = feed
        self._watch = watch
        self._outage: DeepworkError | None = None
        self._recent: deque[SerializedEvent] = deque()
        self._bytes = 0
        self._position = -1
        self._starting = asyncio.Lock()
        self._updated = asyncio.Event()
        self._stopping = threading.Event()

    async def stream(
        self, since: int | None = None, workflow_id: str | None = None
    ) -> AsyncIterator[SerializedEvent | ResyncRequired]:
        """Yield every event after a number, or from now on, once and in order, without end."""
        await self._start()
        cursor = self._position if since is None else since
        while True:
            if self.problem is not None:
                raise self.problem
            batch = await self._read_after(cursor, workflow_id)
            if isinstance(batch, ResyncRequired):
                yield batch
                return
            events, upto = batch
            for event in events:
                yield event
            if upto == cursor:
                await self._updated.wait()
            cursor = upto

    @property
    def problem(self) -> DeepworkError | None:
        """Why the events that listeners get may be incomplete; None if all is well."""
        return self._outage or (self._watch.problem if self._watch else None)

    async def require_readable(self) -> None:
        """Raise the problem if there is one; looks again after an outage."""
        if self._outage is not None:
            await asyncio.to_thread(self._feed.get_last_seq)
            self._outage = None
        if self.problem is not None:
            raise self.problem

    def wake_listeners(self) -> None:
        """Let every listener look again: for new events, or for a problem."""
        updated, self._updated = self._updated, asyncio.Event()
        updated.set()

    def close(self) -> None:
        self._stopping.set()

    async def _read_after(
        self, cursor: int, workflow_id: str | None
    ) -> tuple[list[SerializedEvent], int] | ResyncRequired:
        if cursor == self._position:
            return [], cursor
        if self._recent and self._recent[0].seq - 1 <= cursor < self._position:
            newer = islice(self._recent, cursor + 1 - self._recent[0].seq, None)
            return [event for event in newer if workflow_id in (None, event.workflow_id)], self._position
        batch = await asyncio.to_thread(self._feed.read, cursor, workflow_id=workflow_id)
        return (
            ([_serialize(event) for event in batch.events], batch.upto)
            if isinstance(batch, EventBatch)
            else batch
        )

    async def _start(self) -> None:
        async with self._starting:
            if self._position < 0:
                self._position = await asyncio.to_thread(self._feed.get_last_seq)
                loop = asyncio.get_running_loop()
                threading.Thread(
                    target=self._follow_log, args=(loop,), name="deepwork-hub", daemon=True
                ).start()

    def _follow_log(self, loop: asyncio.AbstractEventLoop) -> None:
        """Follow the log in a thread, and retry after database errors."""
        position = self._position
        while not self._stopping.is_set():
            try:
                if self._outage is not None:
                    self._feed.get_last_seq()
                    self._outage = None
                for event in self._feed.follow(position, should_stop=self._stopping.is_set):
                    position = event.seq if isinstance(event, Event) else event.resume_at
                    loop.call_soon_threadsafe(self._publish, event)
            except Exception as error:  # noqa: BLE001 - the thread must survive any error
                if loop.is_closed():
                    return
                log.warning("Cannot follow the event log: %s", error)
                # Listeners end, and connect again: until then they must not seem to be up to date.
                self._outage = error if isinstance(error, DeepworkError) else StorageError(str(error))
                loop.call_soon_threadsafe(self.wake_listeners)
                time.sleep(RETRY_SECONDS)

    def _publish(self, event: Event | ResyncRequired) -> None:
        if isinstance(event, ResyncRequired):
            self._recent.clear()
            self._position, self._bytes = event.resume_at, 0
        else:
            self._cache_event(_serialize(event))
        self.wake_listeners()

    def _cache_event(self, event: SerializedEvent) -> None:
        self._recent.append(event)
        self._position = event.seq
        self._bytes += len(event.text)
        while len(self._recent) > MAX_EVENTS or (self._bytes > MAX_BYTES and len(self._recent) > 1):
            self._bytes -= len(self._recent.popleft().text)


def _serialize(event: Event) -> SerializedEvent:
    text = json.dumps(asdict(event), ensure_ascii=False, separators=(",", ":"))
    return SerializedEvent(event.seq, event.workflow_id, text)
