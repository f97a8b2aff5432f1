"""Fast access to a store that already exists: for hooks, which run at every step of an agent.

It creates no folder or file, changes no schema, waits only briefly for locks, and imports only the modules
that a few statements need.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from deepwork.kernel.database import schema
from deepwork.kernel.database.engine import format_colon_placeholder
from deepwork.kernel.database.fulltext import SQLITE
from deepwork.kernel.database.seals import find_tracking_problem, read_identity, require_own_mark
from deepwork.kernel.database.store_file import connect
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.lock import FileLock
from deepwork.kernel.files.private import find_store_link_problem

if TYPE_CHECKING:
    import psycopg

    from deepwork.kernel.database.engine import Connection, Cursor, Engine

_CLOSE_LOCK_TIMEOUT_SECONDS = 0.05
Kind = TypeVar("Kind")
_CONNECT_TIMEOUT_SECONDS = 2  # the driver's minimum
_SCHEMA_VERSION_SQL = "SELECT version_num FROM alembic_version"


class ExistingStore(Protocol):
    """A store that can be read, and in which a few rows can be changed without events."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """Open a read-only transaction with one consistent snapshot of the data."""

    def writing(self, patience: float) -> AbstractContextManager[Transaction]:
        """Open a transaction without events: changes that need events belong in a tool.

        Raises StorageError if others hold the locks for more than `patience` seconds.
        """


@contextmanager
def open_existing_store(location: str, patience: float) -> Iterator[ExistingStore | None]:
    """Open the store at this location; yields None if there is none, raises if its schema is not current.

    `patience` is how many seconds to wait for locks.
    """
    if "://" in location:
        with _open_postgres(location, patience) as store:
            yield store
        return
    path = Path(location)
    if problem := find_store_link_problem(path) or find_tracking_problem(path, asks_git=False):
        raise problem
    if not path.is_file() or not path.stat().st_size:
        yield None
        return
    with _ExistingSQLite(path, patience).open() as store:
        yield store


def read_existing_store(location: str, patience: float, read: Callable[[Transaction], Kind]) -> Kind | None:
    """Read from the store at this location; None if there is none, raises if its schema is not current."""
    with open_existing_store(location, patience) as store:
        if store is None:
            return None
        with store.reading() as tx:
            return read(tx)


class _ExistingSQLite:
    """A SQLite file, with the same lock around every write as in `kernel/database/sqlite.py`."""

    placeholder = staticmethod(format_colon_placeholder)
    row_lock = free_rows = ""
    full_text = SQLITE

    def __init__(self, path: Path, patience: float) -> None:
        self._path = path
        self._lock = FileLock(path.with_name(path.name + ".lock"))
        self._connection = connect(path, timeout=patience)

    @contextmanager
    def open(self) -> Iterator[_ExistingSQLite]:
        try:
            self._connection.row_factory = _to_dict
            self._connection.execute("PRAGMA trusted_schema = OFF")
            # No flush: losing a lease renewal in a power failure is harmless, as the agent died too.
            self._connection.execute("PRAGMA synchronous = NORMAL")
            name = "/".join(self._path.parts[-2:])
            require_own_mark(read_identity(self._connection), name)
            _require_current(self._connection, name)
            yield self
        finally:
            # The last connection to close checkpoints the log, which needs the lock. If the lock is not free
            # soon, the connection stays open until the process exits, as if it had been killed.
            with suppress(StorageError), self._lock.hold(timeout=_CLOSE_LOCK_TIMEOUT_SECONDS):
                self._connection.close()
            self._lock.close()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._open_transaction("BEGIN") as tx:
            yield tx

    @contextmanager
    def writing(self, patience: float) -> Iterator[Transaction]:
        with self._lock.hold(timeout=patience), self._open_transaction("BEGIN IMMEDIATE") as tx:
            yield tx

    @contextmanager
    def _open_transaction(self, begin: str) -> Iterator[Transaction]:
        self._connection.execute(begin)
        try:
            yield Transaction(cast("Connection", self._connection), cast("Engine", self))
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def query(self, connection: Connection, sql: str, values: Mapping[str, Any]) -> Cursor:
        return connection.execute(sql, values)

    def now(self, _: Connection) -> int:
        return time.time_ns() // 1_000_000


class _ExistingPostgreSQL:
    """A single PostgreSQL connection, without a pool and without migrations."""

    def __init__(self, connection: Connection, engine: Engine) -> None:
        self._connection = connection
        self._engine = engine

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._open_transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as tx:
            yield tx

    @contextmanager
    def writing(self, patience: float) -> Iterator[Transaction]:
        with self._open_transaction(f"BEGIN; SET LOCAL lock_timeout = {_to_milliseconds(patience)}") as tx:
            yield tx

    @contextmanager
    def _open_transaction(self, begin: str) -> Iterator[Transaction]:
        with _translate_errors(self._engine):
            self._connection.execute(begin)
            try:
                yield Transaction(self._connection, self._engine)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")


@contextmanager
def _open_postgres(url: str, patience: float) -> Iterator[ExistingStore | None]:
    from deepwork.kernel.database.opening import open_engine  # noqa: PLC0415 - the driver is not for files

    engine = open_engine(url)
    with _translate_errors(engine):
        connection = _connect(url, patience)
    with connection:
        with _translate_errors(engine):
            row = connection.execute("SELECT to_regclass('alembic_version') AS it").fetchone()
            is_made = bool(row and row["it"])
            if is_made:
                _require_current(connection, engine.name)
        yield _ExistingPostgreSQL(cast("Connection", connection), engine) if is_made else None


def _connect(url: str, patience: float) -> psycopg.Connection[dict[str, Any]]:
    import psycopg  # noqa: PLC0415
    from psycopg.rows import dict_row  # noqa: PLC0415

    from deepwork.kernel.database.postgres import build_parameters  # noqa: PLC0415

    waiting, given = _to_milliseconds(patience), build_parameters(url)
    own: dict[str, Any] = {
        "connect_timeout": _CONNECT_TIMEOUT_SECONDS,
        "application_name": "deepwork hook",  # not counted among the processes that use the store
        "options": f"-c lock_timeout={waiting} -c statement_timeout={waiting} {given.get('options') or ''}",
    }
    return psycopg.connect(**given | own, autocommit=True, row_factory=dict_row)


@contextmanager
def _translate_errors(engine: Engine) -> Iterator[None]:
    """Convert errors of the driver to StorageError, with suggestions."""
    try:
        yield
    except Exception as error:
        if explained := engine.to_storage_error(error):
            raise explained from error
        raise


def _to_milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))  # 0 would disable the limit


def _require_current(connection: Any, name: str) -> None:
    row = connection.execute(_SCHEMA_VERSION_SQL).fetchone()
    if schema.is_behind(str(row["version_num"]) if row else None, name):
        raise StorageError(
            f"{name} has an older schema than this version of deepwork.",
            suggestion="Start a server, or run `deepwork status`, to migrate it.",
        )


def _to_dict(cursor: Any, values: tuple[Any, ...]) -> dict[str, Any]:
    return {column[0]: value for column, value in zip(cursor.description, values, strict=True)}
