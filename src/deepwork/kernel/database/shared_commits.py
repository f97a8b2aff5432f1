"""Writers of one process that wait for each other share one transaction, and so one flush to disk.

Whoever has made a change gives the open transaction to the next writer that waits, and the last one commits
for all. Each change is a savepoint: it sees those before it, and if it fails, the others stay. Nobody returns
before the commit, not even with an error of its own, and a commit that fails is the error of every writer.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from deepwork.kernel.database.store_file import WRITE_TIMEOUT, SQLiteSession
from deepwork.kernel.errors import StorageError

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        from pysqlite3 import dbapi2 as sqlite3
    except ImportError:  # no wheel for this platform; `deepwork doctor` explains the consequences
        import sqlite3

MOST_CHANGES = 32
LONGEST_SECONDS = 0.02
"""How long changes are added: the first one waits for the commit, and so do other processes."""


class _SharedTransaction:
    """An open transaction, and the writers that wait for its commit."""

    __slots__ = ("added", "began", "connection", "error", "session", "waiting")

    def __init__(self, session: SQLiteSession) -> None:
        self.session = session
        self.connection = session.__enter__()
        self.began = time.monotonic()
        self.added = 1
        self.waiting: list[threading.Lock] = []
        self.error: Exception | None = None

    @property
    def takes_more(self) -> bool:
        return self.added < MOST_CHANGES and time.monotonic() - self.began < LONGEST_SECONDS

    def settle(self, error: Exception | None) -> None:
        """Let those who wait return, or raise the error."""
        self.error = error
        for gate in self.waiting:
            gate.release()


class WriteQueue:
    """The writers of one process that share commits, one at a time and in the order in which they came."""

    def __init__(
        self, open_session: Callable[[], SQLiteSession], build_timeout_error: Callable[[float], Exception]
    ) -> None:
        self._open_session, self._build_timeout_error = open_session, build_timeout_error
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._queue: deque[threading.Lock] = deque()
        self._is_taken = False
        self._open: _SharedTransaction | None = None

    def wait_for_turn(self, gate: threading.Lock) -> None:
        """Wait until no other writer changes anything; `gate` is held, and released when that is so."""
        if self._process != os.getpid():  # a forked child has none of the threads that wait
            self._reset()
        with self._guard:
            if not self._is_taken:
                self._is_taken = True
                return
            self._queue.append(gate)
        try:
            if gate.acquire(timeout=WRITE_TIMEOUT):
                return
        except BaseException:
            if not self._leave_queue(gate):
                self.end_turn()
            raise
        if self._leave_queue(gate):
            raise self._build_timeout_error(WRITE_TIMEOUT)
        gate.acquire()

    def _leave_queue(self, gate: threading.Lock) -> bool:
        """Stop waiting; False if the turn has come meanwhile."""
        with self._guard:
            if gate not in self._queue:
                return False
            self._queue.remove(gate)
            return True

    def begin_change(self) -> tuple[_SharedTransaction, bool]:
        """Begin or join a transaction; return it, and whether this change began it."""
        shared = self._open
        if shared is None:
            shared = self._open = _SharedTransaction(self._open_session())
            return shared, True
        try:
            shared.connection.execute("SAVEPOINT change")
        except BaseException as error:
            self._lose(shared, error)
            raise
        shared.added += 1
        return shared, False

    def end_change(self, shared: _SharedTransaction, *, is_first: bool) -> None:
        """Keep a change; the commit follows."""
        if is_first:
            return
        try:
            shared.connection.execute("RELEASE change")
        except BaseException as error:
            self._lose(shared, error)
            raise

    def undo_change(self, shared: _SharedTransaction, error: BaseException, *, is_first: bool) -> None:
        """Undo a change; SQLite itself has undone all of them if the disk is full or fails."""
        if is_first:  # nobody else has changed anything yet
            self._open = None
            shared.session.__exit__(type(error), error, error.__traceback__)
            return
        try:
            shared.connection.execute("ROLLBACK TO change")
            shared.connection.execute("RELEASE change")
        except BaseException as failure:
            self._lose(shared, error if isinstance(error, sqlite3.Error) else failure)
            if not isinstance(failure, sqlite3.Error):
                raise

    def _lose(self, shared: _SharedTransaction, error: BaseException) -> None:
        """End a transaction that cannot be continued: no change of it was stored."""
        self._open = None
        reason = error if isinstance(error, Exception) else sqlite3.OperationalError("interrupted")
        try:
            shared.session.__exit__(sqlite3.Error, sqlite3.Error(), None)  # closes the connection
        finally:
            shared.settle(reason)

    def end_turn(self, gate: threading.Lock | None = None) -> None:
        """Give the turn to the next writer, or commit first; with a gate, return after the commit.

        Raises what the commit raised to whoever has a gate.
        """
        shared = self._open
        if shared is None:
            self._pass_turn()
            return
        if gate is not None:
            shared.waiting.append(gate)
        if shared.takes_more and self._pass_turn(is_shared=True):
            if gate is not None:
                gate.acquire()
        else:
            self._commit(shared)
        if gate is not None and shared.error is not None:
            raise shared.error

    def _commit(self, shared: _SharedTransaction) -> None:
        self._open = None
        is_decided = False
        error: Exception | None = None
        try:
            shared.session.__exit__(None, None, None)
            is_decided = True
        except Exception as failure:  # noqa: BLE001 - everybody who waits raises it
            error, is_decided = failure, True
        finally:
            shared.settle(error if is_decided else _build_interrupted_error())
            self._pass_turn()

    def _pass_turn(self, *, is_shared: bool = False) -> bool:
        """Let the next writer begin; False if none waits: a shared transaction stays with this one."""
        with self._guard:
            if self._queue:
                self._queue.popleft().release()
                return True
            self._is_taken = is_shared
            return False


def _build_interrupted_error() -> StorageError:
    return StorageError(
        "The commit was interrupted; the change may or may not have been saved.",
        recoverable=True,
        suggestion="Repeat the call with the same idempotency key: it takes effect only once. "
        "If it had no key, first check whether it took effect.",
    )


class SharedWrite:
    """A change for a `with` block, whose end returns after the commit."""

    __slots__ = ("_gate", "_is_first", "_queue", "_shared")

    def __init__(self, queue: WriteQueue) -> None:
        self._queue = queue

    def __enter__(self) -> Any:
        self._gate = threading.Lock()
        self._gate.acquire()
        self._queue.wait_for_turn(self._gate)
        try:
            self._shared, self._is_first = self._queue.begin_change()
        except BaseException:
            self._queue.end_turn()
            raise
        return self._shared.connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._queue.end_change(self._shared, is_first=self._is_first)
            else:
                self._queue.undo_change(self._shared, error, is_first=self._is_first)
        except BaseException:
            self._queue.end_turn()
            raise
        # Who failed waits, too: what it was refused for may be a change that is not stored yet.
        self._queue.end_turn(self._gate if error is None or isinstance(error, Exception) else None)
