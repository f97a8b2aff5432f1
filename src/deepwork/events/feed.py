"""Following the log from any process: every event once, in order, soon after its commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from deepwork.database.transaction import Database
from deepwork.events.log import Event, EventStore

BATCH = 200


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
    ) -> Iterator[Event | ResyncRequired]:
        """Every event after a number, for ever, until `is_over()`."""
        listener = self._database.listen()
        try:
            while not is_over():
                batch = self.read(since, workflow_id=workflow_id)
                if isinstance(batch, ResyncRequired):
                    yield batch
                    since = batch.resume_at
                    continue
                yield from batch.events
                if since == batch.upto:
                    listener.wait(look_every)
                since = batch.upto
        finally:
            listener.close()
