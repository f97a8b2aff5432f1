"""Following the log from any process: every event once, in order, soon after its commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from deepwork.database.transaction import Database
from deepwork.errors import StorageError
from deepwork.events.log import Event, EventStore

BATCH = 200
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0


@dataclass(frozen=True)
class Batch:
    """Some events, and the number up to which nothing is missing from them."""

    events: list[Event]
    upto: int


@dataclass(frozen=True)
class ResyncRequired:
    """Events after `since` are no longer kept: read the state anew, then follow from `resume_at`."""

    since: int
    resume_at: int


class Feed:
    """The event log, as something to follow."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(
        self, since: int, *, workflow_id: str | None = None, limit: int = BATCH
    ) -> Batch | ResyncRequired:
        """The events after a number, as far as they are there."""
        with self._database.reading() as tx:
            store = EventStore(tx)
            last = store.last()
            if not store.oldest() - 1 <= since <= last:
                return ResyncRequired(since, last)
            events = store.after(since, limit, workflow_id)
            return Batch(events, events[-1].seq if len(events) == limit else last)

    def last(self) -> int:
        """The newest number: where to start for what is yet to come."""
        with self._database.reading() as tx:
            return EventStore(tx).last()

    def stored(self, since: int, *, workflow_id: str | None = None) -> Iterator[Event | ResyncRequired]:
        """Every event after a number that is there now."""
        end = self.last()
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
        is_over: Callable[[], bool] = lambda: False,
        look_every: float = 1.0,
        notice: Callable[[str], None] | None = None,
    ) -> Iterator[Event | ResyncRequired]:
        """Every event after a number, for ever, until `is_over()`.

        An outage of the database ends it with an error; with `notice`, which is told of it, it is waited out.
        """
        pauses = Pauses()
        while not is_over():
            try:
                for told in self._followed(since, workflow_id, is_over, look_every):
                    if notice and pauses.is_outage:
                        notice(f"The database is back; going on after event {since}.")
                        pauses = Pauses()
                    if told is None:
                        continue
                    yield told
                    since = told.seq if isinstance(told, Event) else told.resume_at
            except StorageError as error:
                if notice is None or not error.recoverable:
                    raise
                if not pauses.is_outage:
                    notice(f"{error.message} Trying again until it answers.")
                pauses.wait(is_over)

    def _followed(
        self, since: int, workflow_id: str | None, is_over: Callable[[], bool], look_every: float
    ) -> Iterator[Event | ResyncRequired | None]:
        """The events as long as the database is there, and a None after each look at it."""
        with closing(self._database.listen()) as listener:
            while not is_over():
                batch = self.read(since, workflow_id=workflow_id)
                if isinstance(batch, ResyncRequired):
                    yield batch
                    since = batch.resume_at
                    continue
                yield from batch.events
                yield None
                if since == batch.upto:
                    listener.wait(look_every)
                since = batch.upto


class Pauses:
    """Ever longer waits between the attempts to reach a database that is away."""

    def __init__(self) -> None:
        self._next = 0.0

    @property
    def is_outage(self) -> bool:
        return self._next > 0

    def wait(self, is_over: Callable[[], bool]) -> None:
        self._next = min(LONGEST_PAUSE, 2 * self._next or FIRST_PAUSE)
        end = time.monotonic() + self._next
        while not is_over() and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, FIRST_PAUSE))
