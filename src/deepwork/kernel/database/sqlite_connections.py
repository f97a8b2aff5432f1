"""Connections to a SQLite file, which are reused, and transactions on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.store_file import (
    StoreConnection,
    connect,
    is_log_in_place,
    is_log_replaced,
    rescue_log,
)
from deepwork.kernel.database.store_key import hmac_hex
from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.locked_files import read_file_identity

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path
    from types import TracebackType

    from deepwork.kernel.files.lock import FileLock
else:
    try:
        from pysqlite3 import dbapi2 as sqlite3
    except ImportError:  # no wheel for this platform; `deepwork doctor` explains the consequences
        import sqlite3

WRITE_TIMEOUT = 30.0
LARGE_WAL = 64 * 1024 * 1024
CACHED_STATEMENTS = 1000
"""Prepared statements that a connection keeps. Our stores have several hundred; the driver's default is 128,
and preparing one again takes longer than executing it."""

_PRAGMAS = (
    "PRAGMA synchronous = FULL",  # an answer means "on disk"
    "PRAGMA fullfsync = ON",  # needed on macOS for a real flush
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA foreign_keys = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA mmap_size = 0",
    f"PRAGMA journal_size_limit = {LARGE_WAL}",
)


class OpenFile:
    """The idle connections to one file, and its identity: another file may take its place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = str(path)
        self._identity = read_file_identity(self._place)
        self.readers: deque[StoreConnection] = deque()
        self.writers: deque[StoreConnection] = deque()
        self._is_given_up = False

    def is_in_place(self) -> bool:
        """Return whether this file is still at its path, with the log into which its connections write."""
        return self.has_own_path() and is_log_in_place(self._identity)

    def has_own_path(self) -> bool:
        """Return whether this file is still at its path."""
        return self._identity is not None and read_file_identity(self._place) == self._identity

    def can_be_rescued(self) -> bool:
        """Return whether a log that was removed can be saved: nobody has continued without it."""
        return self.has_own_path() and not is_log_replaced(self._identity)

    def rescue_log(self, connection: StoreConnection | None = None) -> bool:
        """Save what a removed log holds; return whether all of it is in the file now.

        Only a connection from before can: a new one would begin another log.
        """
        connection = connection or next(iter((*self.writers, *self.readers)), None)
        return connection is not None and self.can_be_rescued() and rescue_log(connection)

    def take(self, idle: deque[StoreConnection]) -> StoreConnection:
        """Return an idle or new connection, which its user puts back or closes."""
        try:
            return idle.pop()
        except IndexError:
            return self.connect(query_only=idle is self.readers)

    def put_back(self, connection: StoreConnection, idle: deque[StoreConnection]) -> None:
        """Keep a connection for the next transaction."""
        idle.append(connection)
        if self._is_given_up:  # while it was in use; nobody else would close it
            self.close()

    def connect(self, *, query_only: bool) -> StoreConnection:
        """Open a new connection with our settings."""
        connection = connect(
            self._path, check_same_thread=False, timeout=WRITE_TIMEOUT, cached_statements=CACHED_STATEMENTS
        )
        try:
            connection.row_factory = _to_dict
            connection.create_function("hmac_hex", 2, hmac_hex, deterministic=True)
            for pragma in (*_PRAGMAS, f"PRAGMA query_only = {query_only:d}"):
                connection.execute(pragma)
        except BaseException:
            connection.close()
            raise
        return connection

    def give_up(self) -> None:
        """Close all connections: the idle ones now, the others as soon as they are put back."""
        self._is_given_up = True
        self.close()

    def close(self) -> None:
        """Close the idle connections."""
        for idle in (self.readers, self.writers):
            while idle:
                idle.pop().close()


class SQLiteSession:
    """A transaction on a connection of its own. A class, because a generator takes several times as long."""

    __slots__ = ("_connection", "_file", "_get_file", "_idle", "_lock")

    def __init__(self, get_file: Callable[[], OpenFile], lock: FileLock | None = None) -> None:
        """`get_file` raises if the file is not in place; `lock` excludes other writers."""
        self._get_file, self._lock = get_file, lock

    def __enter__(self) -> Any:
        if self._lock is not None:
            self._lock.acquire(WRITE_TIMEOUT)
        try:
            self._file = self._get_file()
            self._idle = self._file.readers if self._lock is None else self._file.writers
            self._connection = self._file.take(self._idle)
            self._execute("BEGIN" if self._lock is None else "BEGIN IMMEDIATE")
        except BaseException:
            self._release()
            raise
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._commit()
            elif not self._roll_back(error):
                return
            self._file.put_back(self._connection, self._idle)
        finally:
            self._release()

    def _commit(self) -> None:
        self._execute("COMMIT")
        if self._lock is None or self._file.is_in_place() or self._file.rescue_log(self._connection):
            return
        self._file.put_back(self._connection, self._idle)  # perhaps the only one that can save the log
        self._get_file()  # raises: the commit is in a file that nobody can open again
        raise StorageError("The store was replaced during this call, which was not stored.")

    def _execute(self, sql: str) -> None:
        try:
            self._connection.execute(sql)
        except BaseException:
            self._connection.close()
            raise

    def _roll_back(self, error: BaseException) -> bool:
        """Undo the changes; closes the connection and returns False if its state is unknown."""
        if isinstance(error, Exception) and not isinstance(error, sqlite3.Error):
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
                return True
        self._connection.close()
        return False

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()


def list_columns(cursor: sqlite3.Cursor) -> list[str]:
    return [column[0] for column in cursor.description]


def _to_dict(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    return dict(zip(list_columns(cursor), values, strict=True))
