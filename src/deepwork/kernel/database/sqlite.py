"""The SQLite engine: many processes share one file, without lost writes or "database is locked" errors.

Writers queue at a lock file, so SQLite never sees two of them at a time. That is faster and fairer than
SQLite's own busy waiting, and avoids its WAL-reset bug between our processes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.kernel.database import fulltext, json_texts, schema
from deepwork.kernel.database.engine import Connection, Cursor, Row, format_colon_placeholder
from deepwork.kernel.database.processes import find_processes_with_open
from deepwork.kernel.database.schema import find_network_file_system
from deepwork.kernel.database.seals import (
    SUFFIXES,
    find_tracking_problem,
    has_plain_table,
    read_identity,
    require_never_sealed,
    require_own_mark,
    write_key,
)
from deepwork.kernel.database.shared_commits import SharedWrite, WriteQueue
from deepwork.kernel.database.store_file import (
    CACHED_STATEMENTS,
    LARGE_WAL,
    WRITE_TIMEOUT,
    OpenFile,
    SQLiteSession,
    connect,
    create_file,
    keep_log,
    list_columns,
)
from deepwork.kernel.database.store_key import StoreKey, create_store_key, get_or_create_user_key
from deepwork.kernel.database.table_store import SQLiteTableStore
from deepwork.kernel.database.tables import VERSION_TABLE
from deepwork.kernel.database.wakeups import SQLiteListener, WakeupChannel
from deepwork.kernel.errors import Code, StorageError, StoreNotAdopted
from deepwork.kernel.files.lock import FileLock
from deepwork.kernel.files.private import (
    find_full_disk,
    find_store_link_problem,
    make_folder,
    move_durably,
    to_storage_error,
)

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        from pysqlite3 import dbapi2 as sqlite3
    except ImportError:  # no wheel for this platform; `deepwork doctor` explains the consequences
        import sqlite3


class SQLite:
    """One database file."""

    placeholder = staticmethod(format_colon_placeholder)
    row_lock = free_rows = ""  # there is only one writer at a time
    full_text = fulltext.SQLITE
    json_texts = json_texts.SQLITE
    tuple_factory = None

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._write_lock = FileLock(self.path.with_name(self.path.name + ".lock"))
        self._queue = WriteQueue(self._open_writing_session, self._write_lock.build_timeout_error)
        self._hints = WakeupChannel(self.path)
        self._file: OpenFile | None = None
        self._key: StoreKey | None = None
        self._refusal: StorageError | None = None
        self.is_prepared = False

    @property
    def name(self) -> str:
        # Only the folder and the file: identifies it without exposing the machine's paths.
        return "/".join(self.path.parts[-2:])

    @property
    def address(self) -> str:
        return str(self.path)

    def prepare(self) -> None:
        for problem in self.find_location_problems():
            raise problem
        self._create_folder()
        with self._write_lock.hold(timeout=WRITE_TIMEOUT):
            if not self.path.exists():
                get_or_create_user_key()  # before the file, which is useless without it
                self._create_file()
            if self._file is not None:  # from a look at the store before it was prepared
                self._file.close()
            self._file = OpenFile(self.path)
            self._open_or_create()
            self.is_prepared = True

    def _create_file(self) -> None:
        try:
            create_file(self.path)
        except OSError as error:
            raise to_storage_error("create", self.path, error) from error

    def get_open_file(self) -> OpenFile:
        """Return the file with its connections; raise StorageError if it was removed or replaced.

        A process can go on writing to a removed file: it would acknowledge what nobody can ever read.
        """
        file = self._file
        if file is None:
            file = self._file = OpenFile(self.path)
        if file.is_in_place():
            return file
        if not file.rescue_log() and file.can_be_rescued():
            raise StorageError(
                f"The log of {self.name} was removed while it was in use. It cannot be saved while a program "
                "reads an older state of the store; until then no call is confirmed.",
                recoverable=True,
                suggestion="End programs that read the store, such as `sqlite3`, and call again; do not stop "
                "this server before.",
            )
        self._file, self.is_prepared = None, False  # the next call prepares what is there then
        file.give_up()
        raise StorageError(
            f"{self.name} or its log was removed or replaced while it was in use; this call was not stored.",
            recoverable=True,
            suggestion="Call again: it uses the store that is there now, or creates one. To keep the store "
            "when you clean the project, use: git clean -e .deepwork",
        )

    def _get_prepared_file(self) -> OpenFile:
        """Return the file; raises if it took the place of ours while this call waited: nobody checked it."""
        file = self.get_open_file()
        if self.is_prepared:
            return file
        raise StorageError(
            f"{self.name} was replaced during this call, which was not stored.",
            recoverable=True,
            suggestion="Call again: it uses the store that is there now.",
        )

    def _open_or_create(self) -> None:
        with self._borrow_writer() as connection:
            self._require_own_file(connection)
            version = read_version(connection)
            if version is not None:  # before anything in the file changes
                self._key = require_own_mark(read_identity(connection), self.name, version)
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()["journal_mode"]
            if mode != "wal":
                raise StorageError(
                    f"{self.name} cannot use write-ahead logging here (it is in mode {mode!r}).",
                    suggestion="Move the project to a local disk, or choose another location with --db.",
                )
            if version is None:
                self._create_schema(connection)
            elif schema.is_behind(version, self.name):
                if version < schema.SEALED_SINCE:
                    require_never_sealed(read_identity(connection), self.name)
                self._back_up(connection, version)
                self._migrate()
            keep_log(connection)

    def _create_schema(self, connection: Any) -> None:
        connection.executescript(f"BEGIN IMMEDIATE; {schema.read_snapshot('sqlite')}")
        self.write_store_key(connection, create_store_key())
        # Hooks import this module, and hardly ever create a store.
        from deepwork.kernel.database.seals import seal_lists  # noqa: PLC0415
        from deepwork.kernel.database.transaction import Transaction  # noqa: PLC0415

        seal_lists(Transaction(connection, self))
        connection.execute("COMMIT")

    def take_over(self) -> None:
        """Migrate the file and mark it, no matter who made it; only for a copy, never for a file in use."""
        with self._write_lock.hold(timeout=WRITE_TIMEOUT), self._borrow_writer() as connection:
            self._require_own_file(connection)
            if schema.is_behind(read_version(connection), self.name):
                self._migrate()
            connection.execute("BEGIN IMMEDIATE")
            self.write_store_key(connection, create_store_key())
            connection.execute("COMMIT")

    def find_adoption_problem(self) -> StoreNotAdopted | None:
        """Return why servers and hooks do not use this file; None if it is this user's, or no store yet."""
        if problem := find_tracking_problem(self.path):
            return problem
        if not self.path.is_file():
            return None
        try:
            with self.reading() as connection:
                if (version := read_version(connection)) is not None:
                    require_own_mark(read_identity(connection), self.name, version)
        except StoreNotAdopted as problem:
            return problem
        except (sqlite3.Error, UnicodeDecodeError):  # opening it reports this
            return None
        return None

    def refuse_writes(self, refusal: StorageError) -> None:
        """Raise this error for every write from now on: the file is a copy that somebody only looks at."""
        self._refusal = refusal

    @property
    def store_key(self) -> StoreKey:
        """The key, as it was when the file was opened."""
        if self._key is None:
            raise StoreNotAdopted(f"{self.name} was not opened as a store of this user.")
        return self._key

    def read_store_key(self, connection: Connection) -> StoreKey:
        self._key = require_own_mark(read_identity(connection), self.name)
        return self._key

    def write_store_key(self, connection: Connection, key: StoreKey) -> None:
        write_key(connection, key)
        self._key = key

    def _require_own_file(self, connection: Any) -> None:
        """Raise StorageError for a file of another program, before anything in it changes."""
        if read_version(connection) is not None:
            return
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 3").fetchall()
        if found:
            names = ", ".join(repr(row["name"][:40]) for row in found)
            raise StorageError(
                f"{self.name} is a database of another program: it has the tables {names}. "
                "Nothing in it was changed.",
                suggestion="Name a new file, or the file of a deepwork store, with --db.",
            )

    def writing(self, *, shares_commit: bool = False) -> AbstractContextManager[Connection]:
        if self._refusal is not None:
            raise self._refusal
        return SharedWrite(self._queue) if shares_commit else self._open_writing_session()

    def _open_writing_session(self) -> SQLiteSession:
        return SQLiteSession(self._get_prepared_file, self._write_lock)

    def reading(self) -> AbstractContextManager[Connection]:
        return SQLiteSession(self.get_open_file)

    @contextmanager
    def reading_anew(self) -> Iterator[Any]:
        with closing(self.get_open_file().connect(query_only=True)) as connection:
            yield connection

    def query(self, connection: Connection, sql: str, values: Mapping[str, Any]) -> Cursor:
        cursor: Any = connection.cursor()
        cursor.row_factory = _get_row_factory(sql)
        return cursor.execute(sql, values)  # type: ignore[no-any-return]

    def now(self, connection: Connection) -> int:  # noqa: ARG002 - one machine, one clock
        return time.time_ns() // 1_000_000

    def notify_in_transaction(self, connection: Connection) -> None:
        """Does nothing: a hint sent before the commit would arrive too early."""

    def notify_after_commit(self) -> None:
        if os.path.exists(self._hints.folder):  # noqa: PTH110 - it never raises; otherwise nobody listens
            self._hints.send()

    def listen(self) -> SQLiteListener:
        return SQLiteListener(self._hints, partial(OpenFile, self.path))

    def to_storage_error(self, error: Exception) -> StorageError | None:
        error = getattr(error, "orig", None) or error  # as SQLAlchemy wraps it during a migration
        if isinstance(error, UnicodeDecodeError):  # invalid text in the file's own schema
            return _build_error("malformed", self.name, self._find_newest_backup())
        if not isinstance(error, sqlite3.Error):
            return None
        reason = getattr(error, "sqlite_errorname", None) or str(error)
        if ("IOERR" in reason or "CANTOPEN" in reason) and find_full_disk(self.path.parent):
            reason = "FULL"  # SQLite says so only of the file itself, not of what it needs beside it
        return _build_error(reason, self.name, self._find_newest_backup())

    def describe(self) -> Iterator[tuple[str, str]]:
        yield "database", str(self.path)
        yield "engine", f"SQLite {sqlite3.sqlite_version}"
        if self.path.exists():
            yield "size", f"{self.path.stat().st_size / 1024:,.0f} KiB"
            with self.reading() as connection:
                yield "schema", read_version(connection) or "none"

    def find_problems(self) -> Iterator[str]:
        if not has_wal_reset_fix(sqlite3.sqlite_version_info):
            yield (
                f"SQLite {sqlite3.sqlite_version} can damage a database that several programs write"
                " concurrently. deepwork's own processes avoid this; do not write to the file with other"
                " programs. `pip install pysqlite3` installs a fixed version."
            )
        if not self.path.exists():
            return
        unsafe = list(self.find_location_problems())
        yield from (f"{problem.message} {problem.suggestion}" for problem in unsafe)
        if unsafe:
            return
        yield from self._find_log_problems()
        try:
            with self.reading() as connection:
                for row in connection.execute("PRAGMA quick_check").fetchall():
                    if row["quick_check"] != "ok":
                        yield f"The file is damaged: {row['quick_check']}."
                if broken := connection.execute("PRAGMA foreign_key_check").fetchall():
                    yield f"{len(broken)} rows refer to rows that do not exist."
                version = read_version(connection)
                schema.is_behind(version, self.name)
                if version is not None:
                    require_own_mark(read_identity(connection), self.name, version)
        except sqlite3.Error as error:
            yield self._describe_unreadable(error)
        except StorageError as error:
            yield f"{error.message} {error.suggestion}"

    def _describe_unreadable(self, error: sqlite3.Error) -> str:
        problem = self.to_storage_error(error)
        if problem is not None and problem.code is Code.STORAGE_FULL:
            return f"{problem.message} {problem.suggestion}"
        backup = self._find_newest_backup() or "none"
        return f"The file cannot be read: {error}. The newest backup is {backup}."

    def _find_log_problems(self) -> Iterator[str]:
        wal = self.path.with_name(f"{self.path.name}-wal")
        for number in find_processes_with_open(wal.with_name(f"{wal.name} (deleted)")) or ():
            yield (
                f"Process {number} writes into a log of {self.name} that was removed: what it stores may be "
                "lost. Stop that process now; it saves what it can when it ends."
            )
        if wal.exists() and wal.stat().st_size > LARGE_WAL:
            yield "The write-ahead log is over 64 MiB: some program keeps a transaction open for too long."

    def open_tables(self, connection: Connection) -> SQLiteTableStore:
        return SQLiteTableStore(connection)

    def exists(self) -> bool:
        if not self.path.is_file() or self.path.stat().st_size == 0:
            return False
        try:
            # Only SQLite may read the file: see `kernel/database/store_file.py`.
            with self.reading() as connection:
                connection.execute("PRAGMA schema_version").fetchone()
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorname", "") == "SQLITE_NOTADB" or "not a database" in str(error):
                raise StorageError(
                    f"{self.name} is not a SQLite file.", suggestion="Name the file of a store or a backup."
                ) from error
        return True

    def list_other_processes(self) -> list[str] | None:
        numbers = find_processes_with_open(self.path)
        return None if numbers is None else [f"pid {number}" for number in numbers]

    def save(self, connection: Connection, path: Path) -> None:
        """Write this snapshot of the data to a new file, which needs no log beside it."""
        create_file(path)
        with closing(connect(path)) as saved:
            connection.backup(saved)  # type: ignore[attr-defined]  # SQLite's own connection can
            saved.execute("PRAGMA journal_mode = DELETE")

    def is_damaged(self) -> bool:
        """Return whether the file is corrupt; raises if it is only busy or the disk is full."""
        try:
            with self.reading() as connection:
                return bool(SQLiteTableStore(connection).find_damage())
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            return True

    def set_aside(self, name: str, replacement: Path | None = None) -> Path:
        """Rename the file and its log unchanged; a replacement takes its place, or a new store can."""
        self.close()
        with self._write_lock.hold(timeout=WRITE_TIMEOUT):
            for suffix in reversed(SUFFIXES):
                if (file := self.path.with_name(self.path.name + suffix)).exists():
                    move_durably(file, file.with_name(name + suffix))
                    file.with_name(name + suffix).chmod(0o600)  # a clone can bring it along readable by all
            if replacement is not None:
                move_durably(replacement, self.path)
        return self.path.with_name(name)

    def close(self) -> None:
        # The last connection to close checkpoints the log into the file, which is a write.
        if self._file is not None and (self._file.readers or self._file.writers):
            with suppress(StorageError), self._write_lock.hold(timeout=5):
                if not self._file.is_in_place():
                    self._file.rescue_log()
                self._file.close()
        self._write_lock.close()

    @contextmanager
    def _borrow_writer(self) -> Iterator[Any]:
        """Yield a writing connection without a transaction; closes it after an error."""
        file = self.get_open_file()
        connection = file.take(file.writers)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        file.put_back(connection, file.writers)

    def _create_folder(self) -> None:
        try:
            make_folder(self.path.parent)
        except OSError as error:
            raise StorageError(
                f"The folder of {self.name} cannot be created: {error.strerror}.",
                suggestion="Make the project writable for this user, or choose another location with --db.",
            ) from error

    def find_location_problems(self) -> Iterator[StorageError]:
        """Yield the reasons why the file must not be at its location."""
        if problem := find_store_link_problem(self.path):
            yield problem
            return
        if self.path.exists() and not self.path.is_file():
            yield StorageError(
                f"{self.name} is not a regular file.", suggestion="Name an existing or new file with --db."
            )
            return
        if problem := find_tracking_problem(self.path):
            yield problem
        if kind := find_network_file_system(self.path):
            yield StorageError(
                f"{self.name} would be on a network file system ({kind}), where SQLite can lose data.",
                suggestion="Name a local file with --db, or use PostgreSQL (DEEPWORK_DATABASE_URL).",
            )
        if self.path.exists() and self.path.stat().st_nlink > 1:
            yield StorageError(
                f"{self.name} has a second name (a hard link), under which its log would not be found.",
                suggestion="Remove the other link, or copy the file.",
            )

    def _migrate(self) -> None:
        connection = connect(self.path, timeout=WRITE_TIMEOUT)
        try:
            schema.migrate("sqlite+pysqlite://", connection, sqlite3)
        finally:
            connection.close()

    def _back_up(self, connection: Any, version: str) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
        target = self.path.with_name(f"{self.path.name}.{version}.{stamp}.backup")
        # Under another name until it is complete, so that every `.backup` file can be trusted.
        partial = target.with_suffix(".partial")
        connection.execute("VACUUM INTO :target", {"target": str(partial)})
        partial.chmod(0o600)
        move_durably(partial, target)

    def _find_newest_backup(self) -> str | None:
        backups = self.path.parent.glob(f"{self.path.name}.*.backup")
        try:
            newest = max(backups, key=lambda path: path.stat().st_mtime, default=None)
        except OSError:  # this looks because of an error, which may well prevent looking
            return None
        return newest.name if newest else None


def read_version(connection: Any) -> str | None:
    """Return the schema version of the file; None for a new one."""
    if not has_plain_table(connection, VERSION_TABLE):
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if row is None else str(row["version_num"])


def has_wal_reset_fix(version: tuple[int, ...]) -> bool:
    """Return whether this SQLite has the fix for the bug by which two writers may corrupt the file."""
    backported = {(3, 50): (3, 50, 7), (3, 44): (3, 44, 6)}
    return version >= backported.get((version[0], version[1]), (3, 51, 3))


def _build_error(reason: str, name: str, backup: str | None) -> StorageError:
    if "FULL" in reason or "full" in reason:
        return StorageError(
            f"The disk is full: {name} cannot grow.",
            code=Code.STORAGE_FULL,
            recoverable=True,
            suggestion="Free some space, then call again.",
        )
    if "CORRUPT" in reason or "NOTADB" in reason or "malformed" in reason or "not a database" in reason:
        return StorageError(
            f"{name} is damaged; nothing was changed.",
            suggestion="Stop all servers and run `deepwork doctor`, then restore the newest backup: "
            + (backup or "none was found."),
        )
    if "BUSY" in reason or "LOCKED" in reason or "locked" in reason:
        return StorageError(
            f"{name} is locked by another program.", recoverable=True, suggestion="Call again in a moment."
        )
    if "READONLY" in reason or "CANTOPEN" in reason or "PERM" in reason:
        return StorageError(
            f"{name} cannot be opened for writing.",
            suggestion="Make the folder and the file writable for this user, or choose another with --db.",
        )
    return StorageError(f"{name} failed ({reason}); nothing was changed.")


@lru_cache(maxsize=CACHED_STATEMENTS)
def _get_row_factory(sql: str) -> Callable[[sqlite3.Cursor, tuple[Any, ...]], Row]:  # noqa: ARG001 - the cache's key
    """Return a function that makes dictionaries of one statement's rows, and reads its columns only once."""
    columns: list[str] = []

    def to_dict(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
        nonlocal columns
        if len(columns) != len(values):  # first use, or a migration added a column
            columns = list_columns(cursor)
        return dict(zip(columns, values, strict=True))

    return to_dict
