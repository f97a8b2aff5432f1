"""Reads and follows the event log from any process: every event once and in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import StorageError
from deepwork.kernel.events.log import Event, EventStore
from deepwork.kernel.records import dataclass

BATCH_SIZE = 200
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0


@dataclass(frozen=True)
class EventBatch:
    """Some events; `upto` is the last event number they cover."""

    events: list[Event]
    upto: int


@dataclass(frozen=True)
class ResyncRequired:
    """Events after `since` were deleted: the client must reload its state and follow from `resume_at`."""

    since: int
    resume_at: int


class EventFeed:
    """Reads the event log after a number, once or continuously."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(
        self, since: int, *, workflow_id: str | None = None, limit: int = BATCH_SIZE
    ) -> EventBatch | ResyncRequired:
        """Read the next stored events after a number."""
        with self._database.reading() as tx:
            store = EventStore(tx)
            last = store.get_last_seq()
            if not store.get_oldest_seq() - 1 <= since <= last:
                return ResyncRequired(since, last)
            events = store.list_after(since, limit, workflow_id)
            return EventBatch(events, events[-1].seq if len(events) == limit else last)

    def get_last_seq(self) -> int:
        """Return the newest event number; follow from here to get only new events."""
        with self._database.reading() as tx:
            return EventStore(tx).get_last_seq()

    def iterate_stored(
        self, since: int, *, workflow_id: str | None = None
    ) -> Iterator[Event | ResyncRequired]:
        """Yield every event after a number that is stored now."""
        end = self.get_last_seq()
        while since != end:
            batch = self.read(since, workflow_id=workflow_id)
            if isinstance(batch, ResyncRequired):
                yield batch
                return
            yield from (event for event in batch.events if event.seq <= end)
            since = min(batch.upto, end)

    def follow(
        self,
        since: int,
        *,
        workflow_id: str | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        poll_seconds: float = 1.0,
        notice: Callable[[str], None] | None = None,
    ) -> Iterator[Event | ResyncRequired]:
        """Yield every event after a number, and new ones as they arrive, until `should_stop()`.

        If the database becomes unavailable it raises; with `notice` it passes a message to it and retries.
        """
        backoff = Backoff()
        while not should_stop():
            try:
                for item in self._follow_until_outage(since, workflow_id, should_stop, poll_seconds):
                    if notice and backoff.is_outage:
                        notice(f"The database is available again; continuing after event {since}.")
                        backoff = Backoff()
                    if item is None:
                        continue
                    yield item
                    since = item.seq if isinstance(item, Event) else item.resume_at
            except StorageError as error:
                if notice is None or not error.recoverable:
                    raise
                if not backoff.is_outage:
                    notice(f"{error.message} Retrying until it responds.")
                backoff.wait(should_stop)

    def _follow_until_outage(
        self, since: int, workflow_id: str | None, should_stop: Callable[[], bool], poll_seconds: float
    ) -> Iterator[Event | ResyncRequired | None]:
        """Yield events until the database fails, and None after each read to show that it answered."""
        with closing(self._database.listen()) as listener:
            while not should_stop():
                batch = self.read(since, workflow_id=workflow_id)
                if isinstance(batch, ResyncRequired):
                    yield batch
                    since = batch.resume_at
                    continue
                yield from batch.events
                yield None
                if since == batch.upto:
                    listener.wait(poll_seconds)
                since = batch.upto


class Backoff:
    """Growing pauses between attempts to reach the database."""

    def __init__(self) -> None:
        self._next = 0.0

    @property
    def is_outage(self) -> bool:
        return self._next > 0

    def wait(self, should_stop: Callable[[], bool]) -> None:
        self._next = min(LONGEST_PAUSE, 2 * self._next or FIRST_PAUSE)
        end = time.monotonic() + self._next
        while not should_stop() and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, FIRST_PAUSE))
