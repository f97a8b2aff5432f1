"""The only module that opens a SQLite store: its file, connections, and locks that keep its log in place.

SQLite's locks belong to the process: when any descriptor of the file is closed, all of them are gone.
Another program that reads the store is then the last one to close it, as far as it can see, and deletes
the log into which this process goes on writing. Therefore nothing else opens these files
(`kernel/files/lock.py`), and each process holds two locks in addition that do not depend on that: locks of
an open file description stay until that description is closed, whatever happens to other descriptors.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.seals import SUFFIXES
from deepwork.kernel.database.store_key import hmac_hex
from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.lock import FileIdentity, locked_files, read_file_identity
from deepwork.kernel.files.private import to_storage_error

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        from pysqlite3 import dbapi2 as sqlite3
    except ImportError:  # no wheel for this platform; `deepwork doctor` explains the consequences
        import sqlite3

_LogIdentity = tuple[FileIdentity | None, FileIdentity | None]
_LOG, _SHARED_MEMORY = SUFFIXES[1:3]
_KEPT_RANGES = (("", 0x40000002, 510), (_SHARED_MEMORY, 128, 1))
"""The locks that everybody who uses a file shares, as SQLite's file format places them. While one is held, no
other program removes the log (the first), or clears the shared memory (the second)."""
_SET_LOCK: int | None = getattr(fcntl, "F_OFD_SETLK", None)
_GET_LOCK: int = getattr(fcntl, "F_OFD_GETLK", 0)
_WAL_FORMAT = b"\x02\x02"
_FORMAT_OFFSET = 18
_PAUSES_SECONDS = (0.0, 0.01, 0.05, 0.2, 0.5)
"""When to look whether a log is missing: it is for a moment while somebody opens or closes the store."""


class StoreConnection(sqlite3.Connection):
    """A connection that tells its hold when it is closed."""

    hold: _Hold | None = None

    def close(self) -> None:
        hold, self.hold = self.hold, None
        if hold is not None:
            hold.close_connection(self, super().close)
        else:
            super().close()


class _Hold:
    """What this process keeps of one file while it has connections to it."""

    def __init__(self, path: str, identity: FileIdentity) -> None:
        self._path, self._identity = path, identity
        self._process = os.getpid()
        self.connections: WeakSet[StoreConnection] = WeakSet()  # weak: some are never closed
        self.log: _LogIdentity | None = None
        self._descriptors: dict[str, int] = {}
        self._marked = {identity}
        locked_files.add(identity)

    def keep_log(self) -> None:
        """Keep the log in place until the last connection is closed; called when SQLite has opened it."""
        with _guard:
            if self.log is not None:
                return
            for suffix, start, length in _KEPT_RANGES:
                self._lock(self._path + suffix, start, length)
            self.log = _read_log_identity(self._path)
            self._marked.update(identity for identity in self.log if identity)
            locked_files.update(self._marked)

    def _lock(self, path: str, start: int, length: int) -> None:
        """Share a lock, as SQLite does; a system without such locks relies on SQLite's own."""
        if _SET_LOCK is None or path in self._descriptors or read_file_identity(path) is None:
            return
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:  # such as too many open files
            raise to_storage_error("open", Path(path), error) from error
        self._descriptors[path] = descriptor
        with suppress(OSError):  # a file system without such locks
            fcntl.fcntl(descriptor, _SET_LOCK, _build_lock(fcntl.F_RDLCK, start, length))

    def is_log_in_place(self) -> bool:
        return self.log is None or _read_log_identity(self._path) == self.log

    def is_log_replaced(self) -> bool:
        """Return whether others have continued with files that this process does not have."""
        log, memory = _read_log_identity(self._path)
        own_log, own_memory = self.log or (log, memory)
        if memory not in (None, own_memory):
            return True
        # Who only read the store left an empty log.
        return log not in (None, own_log) and not _is_empty(self._path + _LOG)

    def close_connection(self, connection: StoreConnection, close: Callable[[], None]) -> None:
        """Close a connection. The last one writes the log into the file and removes it, unless it is lost."""
        with _guard:
            self.connections.discard(connection)
            if self.connections:
                close()
                return
            try:
                if self.is_log_in_place():
                    self._unlock()
                close()
            finally:
                self.forget()

    def _unlock(self) -> None:
        if self._process != os.getpid():  # a forked child shares the locks of its parent
            return
        for descriptor in self._descriptors.values():
            with suppress(OSError):
                fcntl.fcntl(descriptor, _SET_LOCK or 0, _build_lock(fcntl.F_UNLCK, 0, 0))

    def forget(self) -> None:
        """Close the descriptors, which drops all locks: only now, as there is no connection any more."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])
        locked_files.difference_update(self._marked)
        if _holds.get(self._identity) is self:
            del _holds[self._identity]


def _read_log_identity(path: str) -> _LogIdentity:
    """Read which log and which shared memory are beside the file: everybody must use the same ones."""
    return read_file_identity(path + _LOG), read_file_identity(path + _SHARED_MEMORY)


def _is_empty(path: str) -> bool:
    try:
        return os.lstat(path).st_size == 0
    except OSError:
        return True


def _renew_guard() -> None:
    """Give a forked child a guard of its own: a thread of its parent may hold the inherited one."""
    global _guard  # noqa: PLW0603
    _guard = threading.RLock()


_guard = threading.RLock()
_holds: dict[FileIdentity, _Hold] = {}
os.register_at_fork(after_in_child=_renew_guard)


def connect(path: Path, **options: Any) -> StoreConnection:
    """Open a connection to an existing file, and keep its log in place if it has one."""
    connection = _connect_to_log(path, options)
    try:
        if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
            keep_log(connection)
    except sqlite3.Error:  # damaged, busy, or no database: the next statement says so
        pass
    except BaseException:
        connection.close()
        raise
    return connection


def keep_log(connection: StoreConnection) -> None:
    """Keep the log of this connection's file in place; for a file that was not in WAL mode before."""
    connection.execute("PRAGMA schema_version").fetchone()  # opens the log
    if connection.hold is not None:
        connection.hold.keep_log()


def _connect_to_log(path: Path, options: dict[str, Any]) -> StoreConnection:
    for pause in _PAUSES_SECONDS:
        time.sleep(pause)
        with _guard:
            if not _is_log_missing(os.path.realpath(path)):
                return _connect(path, options)
    raise StorageError(
        f"The log of {path.name} was removed while another process uses it, which can still save it.",
        recoverable=True,
        suggestion="Call or stop that server, which saves it (`deepwork doctor` names it), then call again.",
    )


def _is_log_missing(path: str) -> bool:
    """Return whether another process has the file open, but its log is gone: a new one would replace it.

    Opens the file itself, which is allowed as long as this process has no connection to it.
    """
    if _SET_LOCK is None or os.path.lexists(path + _LOG) or _find_hold(read_file_identity(path)):
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # connecting says so
        return False
    try:
        if os.pread(descriptor, len(_WAL_FORMAT), _FORMAT_OFFSET) != _WAL_FORMAT:
            return False
        wanted = _build_lock(fcntl.F_WRLCK, *_KEPT_RANGES[0][1:])
        found: bytes = fcntl.fcntl(descriptor, _GET_LOCK, wanted)
    except OSError:  # a file system without such locks
        return False
    finally:
        os.close(descriptor)
    return not found.startswith(struct.pack("h", fcntl.F_UNLCK))


def _connect(path: Path, options: dict[str, Any]) -> StoreConnection:
    uri = f"{path.absolute().as_uri()}?mode=rw"  # never creates a file
    place = os.path.realpath(path)  # SQLite follows links, too; the log is beside the file itself
    identity = read_file_identity(place)
    if (hold := _find_hold(identity)) and not hold.connections:  # the last one was never closed
        hold.forget()
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
        hold.connections.add(connection)
        connection.hold = hold
    return connection


def is_log_in_place(identity: FileIdentity | None) -> bool:
    """Return whether the log of this file is the one into which this process writes."""
    hold = _find_hold(identity)
    return hold is None or hold.is_log_in_place()


def is_log_replaced(identity: FileIdentity | None) -> bool:
    """Return whether others have continued with another log: then the two histories cannot be joined."""
    hold = _find_hold(identity)
    return hold is not None and hold.is_log_replaced()


def _find_hold(identity: FileIdentity | None) -> _Hold | None:
    return None if identity is None else _holds.get(identity)


def rescue_log(connection: sqlite3.Connection) -> bool:
    """Write a log that was removed into the database; return whether all of it is there.

    The log is still open here. Nothing can be written over what somebody reads, so this waits for readers, as
    long as the connection waits for locks.
    """
    try:
        result = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
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


_QUIET_NS = 3_000_000_000
"""How long a folder has not changed before its time stamp is trusted: no later change can have the same one,
as the stamps of no file system are coarser than two seconds."""
_FolderStamp = tuple[int, int, int, int]


def _read_folder_stamp(folder: str) -> _FolderStamp | None:
    """Read which folder is at this path, and when something was last added to, removed or renamed in it.

    Some file systems, such as exFAT in older kernels, change only the time of modification then.
    """
    try:
        status = os.stat(folder)  # noqa: PTH116 - several times as fast
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns, status.st_mtime_ns


class OpenFile:
    """The idle connections to one file, and its identity: another file may take its place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = str(path)
        self._identity = read_file_identity(self._place)
        self._folder = os.path.dirname(self._place)  # noqa: PTH120 - for `os.stat`, at every call
        self._quiet_folder: _FolderStamp | None = None
        """How the folder was when everything in it was in place, if it had not changed for a while."""
        self.readers: deque[StoreConnection] = deque()
        self.writers: deque[StoreConnection] = deque()
        self._is_given_up = False

    def is_in_place(self) -> bool:
        """Return whether this file is still at its path, with the log into which its connections write.

        Every call asks this. Nothing was removed or replaced in a folder that itself is unchanged.
        """
        stamp = _read_folder_stamp(self._folder)
        if stamp is not None and stamp == self._quiet_folder:
            return True
        now = time.time_ns()  # before the full look, which may take any time
        is_in_place = self.has_own_path() and is_log_in_place(self._identity)
        is_quiet = stamp is not None and 0 < max(stamp[2:]) < now - _QUIET_NS
        self._quiet_folder = stamp if is_in_place and is_quiet and not self._is_link() else None
        return is_in_place

    def _is_link(self) -> bool:
        """Return whether the file, and so its log, is in another folder."""
        return os.path.islink(self._place)  # noqa: PTH114 - as above

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
