"""The only module that opens the files of a SQLite store: the database, its log and its shared memory.

SQLite's locks belong to the process: when any descriptor of the file is closed, all of them are gone. Another
program that reads the store is then the last one to close it, as far as it can see, and deletes the log into
which this process goes on writing. Therefore nothing else opens these files (`files/locked_files.py`), and
each process holds two locks in addition that do not depend on that: locks of an open file description stay
until that description is closed, whatever happens to other descriptors.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.database.adoption import SUFFIXES
from deepwork.errors import StorageError
from deepwork.files.locked_files import FileIdentity, locked_files, read_file_identity

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        from pysqlite3 import dbapi2 as sqlite3
    except ImportError:  # no wheel for this platform; `deepwork doctor` explains the consequences
        import sqlite3

_LOG, _SHARED_MEMORY = SUFFIXES[1:3]
_KEPT_RANGES = (("", 0x40000002, 510), (_SHARED_MEMORY, 128, 1))
"""The locks that everybody who uses a file shares, as SQLite's file format places them. While one is held, no
other program removes the log (the first), or clears the shared memory (the second)."""
_SET_LOCK: int | None = getattr(fcntl, "F_OFD_SETLK", None)


class StoreConnection(sqlite3.Connection):
    """A connection that tells its hold when it is closed."""

    hold: _Hold | None = None

    def close(self) -> None:
        hold, self.hold = self.hold, None
        if hold is not None:
            hold.close_connection(super().close)


class _Hold:
    """What this process keeps of one file while it has connections to it."""

    def __init__(self, path: str, identity: FileIdentity) -> None:
        self._path, self._identity = path, identity
        self.connections = 0
        self.log: FileIdentity | None = None
        self._descriptors: list[int] = []
        self._marked = {identity}
        locked_files.add(identity)

    def keep_log(self) -> None:
        """Keep the log in place until the last connection is closed; called when SQLite has opened it."""
        with _guard:
            if self.log is not None:
                return
            self.log = read_file_identity(self._path + _LOG)
            for suffix, start, length in _KEPT_RANGES:
                self._lock(self._path + suffix, start, length)
            for suffix in (_LOG, _SHARED_MEMORY):
                if identity := read_file_identity(self._path + suffix):
                    self._marked.add(identity)
            locked_files.update(self._marked)

    def _lock(self, path: str, start: int, length: int) -> None:
        """Share a lock, as SQLite does; a system without such locks relies on SQLite's own."""
        if _SET_LOCK is None or read_file_identity(path) is None:
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._descriptors.append(descriptor)
        with suppress(OSError):  # a file system without such locks
            fcntl.fcntl(descriptor, _SET_LOCK, _build_lock(fcntl.F_RDLCK, start, length))

    def is_log_in_place(self) -> bool:
        return self.log is None or read_file_identity(self._path + _LOG) == self.log

    def close_connection(self, close: Any) -> None:
        """Close a connection. The last one writes the log into the file and removes it, unless it is lost."""
        with _guard:
            self.connections -= 1
            if self.connections:
                close()
                return
            try:
                if self.is_log_in_place():
                    self._unlock()
                close()
            finally:
                self._forget()

    def _unlock(self) -> None:
        for descriptor in self._descriptors:
            with suppress(OSError):
                fcntl.fcntl(descriptor, _SET_LOCK or 0, _build_lock(fcntl.F_UNLCK, 0, 0))

    def _forget(self) -> None:
        """Close the descriptors, which drops all locks: only now, as there is no connection any more."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        locked_files.difference_update(self._marked)
        _holds.pop(self._identity, None)


_guard = threading.RLock()
_holds: dict[FileIdentity, _Hold] = {}


def connect(path: Path, **options: Any) -> StoreConnection:
    """Open a connection to an existing file, and keep its log in place if it has one."""
    with _guard:
        connection = _connect(path, options)
    try:
        if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
            keep_log(connection)
    except sqlite3.Error:  # damaged, busy, or no database: the next statement says so
        pass
    return connection


def keep_log(connection: StoreConnection) -> None:
    """Keep the log of this connection's file in place; for a file that was not in WAL mode before."""
    connection.execute("PRAGMA schema_version").fetchone()  # opens the log
    if connection.hold is not None:
        connection.hold.keep_log()


def _connect(path: Path, options: dict[str, Any]) -> StoreConnection:
    uri = f"{path.absolute().as_uri()}?mode=rw"  # never creates a file
    place = os.path.realpath(path)  # SQLite follows links, too; the log is beside the file itself
    identity = read_file_identity(place)
    if not is_log_in_place(identity):
        raise StorageError(
            f"The log of {path.name} was removed while it was in use, and is not closed everywhere yet.",
            recoverable=True,
            suggestion="Call again in a moment.",
        )
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, factory=StoreConnection, **options)
    if identity is not None:
        hold = _holds.get(identity)
        if hold is None:
            hold = _holds[identity] = _Hold(place, identity)
        hold.connections += 1
        connection.hold = hold
    return connection


def is_log_in_place(identity: FileIdentity | None) -> bool:
    """Return whether the log of this file is the one into which this process writes."""
    hold = _holds.get(identity) if identity is not None else None
    return hold is None or hold.is_log_in_place()


def rescue_log(connection: sqlite3.Connection, path: Path) -> bool:
    """Write a log that was removed into the database; return whether all of it is there.

    A removed log is still open here. If another one is in its place, others have continued without it, and
    the two histories cannot be joined.
    """
    if os.path.lexists(f"{path}{_LOG}"):
        return False
    try:
        result = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except sqlite3.Error:
        return False
    return bool(result["busy"] == 0 and result["log"] == result["checkpointed"])


def create_file(path: Path) -> None:
    """Create an empty file for a new store; a log that a removed store left is not applied to it."""
    for suffix in SUFFIXES[1:]:
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _build_lock(kind: int, start: int, length: int) -> bytes:
    """Build the `struct flock` of Linux."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)
