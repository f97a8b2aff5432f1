"""Notices that a server can no longer read back what it wrote."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import DeepworkError, StorageError
from deepwork.kernel.events.log import EventStore

log = logging.getLogger("deepwork")

CHECK_SECONDS = 60.0
RETRY_SECONDS = 2.0


class StoreWatch:
    """Compares the events that this server has seen with those that a new connection finds in the store.

    Whatever comes between a server and its store, such as a file that was replaced or a log that was removed,
    its own connections may not notice. A connection that is opened now sees what everybody else sees.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._newest: dict[str, int] = {}
        """By store: one that was removed and created again is another, and begins with its first event."""
        self._stopping = threading.Event()
        self.problem: StorageError | None = None

    def check(self) -> StorageError | None:
        """Compare now; return and remember the problem, None if there is none."""
        before = self.problem
        try:
            self.problem = self._find_loss()
        except DeepworkError as error:
            self.problem = StorageError(error.message, recoverable=True, suggestion=error.suggestion)
        except Exception as error:  # noqa: BLE001 - whatever prevents reading is the answer
            self.problem = StorageError(f"The store cannot be read: {error}.", recoverable=True)
        if self.problem is not None and before is None:
            log.error("%s %s", self.problem.message, self.problem.suggestion)
        return self.problem

    def start(self, on_check: Callable[[], object]) -> None:
        """Check once a minute in a thread, more often while there is a problem."""
        threading.Thread(target=self._run, args=(on_check,), name="deepwork-watch", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _run(self, on_check: Callable[[], object]) -> None:
        while not self._stopping.wait(CHECK_SECONDS if self.problem is None else RETRY_SECONDS):
            if self._database.is_prepared or self.problem:  # before that there is nothing to lose
                self.check()
                on_check()

    def _find_loss(self) -> StorageError | None:
        with self._database.reading() as tx:
            store = tx.read_store_key().store_id
            newest = max(self._newest.get(store, 0), EventStore(tx).get_last_seq())
        if self._newest and store not in self._newest:
            log.warning("%s is another store than before, which was removed.", self._database.engine.name)
        self._newest = {store: newest}
        with self._database.reading_anew() as tx:
            stored = EventStore(tx).get_last_seq()
        if stored >= newest:
            return None
        return StorageError(
            f"{self._database.engine.name} has events up to {stored}, but this server saw event "
            f"{newest}: what was stored after that is gone.",
            suggestion="Stop the server, find out who replaced the store, then start it again.",
        )
