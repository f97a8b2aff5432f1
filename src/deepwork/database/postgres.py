"""PostgreSQL: the same store for several machines."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import conninfo, errors
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from deepwork.database import fulltext, schema
from deepwork.database.engine import Connection
from deepwork.database.statements import percent
from deepwork.errors import Code, StorageError

CONNECT_SECONDS = 5
CHANNEL = "deepwork_events"
_MIGRATING = 0x6465657077  # the advisory lock of whoever migrates
_SERVER = "SELECT current_setting('server_version') AS version, pg_database_size(current_database()) AS size"
_LIMITS = (
    "-c statement_timeout=30000 -c lock_timeout=30000"
    " -c idle_in_transaction_session_timeout=60000 -c timezone=UTC"
)


class PostgreSQL:
    """One database on a server."""

    placeholder = staticmethod(percent)
    row_lock = " FOR NO KEY UPDATE"  # rows that refer to this one may still be added
    free_rows = " FOR NO KEY UPDATE SKIP LOCKED"
    full_text = fulltext.POSTGRES

    def __init__(self, url: str) -> None:
        try:
            parts: dict[str, Any] = conninfo.conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            raise StorageError(
                "The PostgreSQL URL cannot be read.",
                suggestion="Write it as postgresql://user@host:5432/database.",
            ) from None
        self._parts = {"connect_timeout": CONNECT_SECONDS, "application_name": "deepwork", **parts}
        self._parts["options"] = f"{_LIMITS} {parts.get('options') or ''}".strip()
        self._conninfo = conninfo.make_conninfo(**self._parts)
        self._opening = threading.Lock()
        self._pool: ConnectionPool[psycopg.Connection[dict[str, Any]]] | None = None

    @property
    def name(self) -> str:
        place = self._parts.get("host") or "localhost"
        return f"PostgreSQL database {self._parts.get('dbname', 'postgres')!r} on {place}"

    def prepare(self) -> None:
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            if not schema.is_behind(_stored_version(connection), self.name):
                return
            connection.execute("SELECT pg_advisory_lock(%s)", (_MIGRATING,))
            # Another process may have migrated while we waited.
            if schema.is_behind(_stored_version(connection), self.name):
                with psycopg.connect(self._conninfo) as migrating:
                    schema.migrate("postgresql+psycopg://", migrating, psycopg)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._borrowed() as connection, connection.transaction():
            yield connection  # type: ignore[misc]  # psycopg's connection has what ours asks for

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._borrowed() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection  # type: ignore[misc]

    def now(self, connection: Connection) -> int:
        row = connection.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now")
        return int((row.fetchone() or {})["now"])

    def announce(self, connection: Connection) -> None:
        connection.execute(f"NOTIFY {CHANNEL}")

    def announced(self) -> None:
        """Nothing to do after the commit: the notification goes out with it."""

    def listen(self) -> PostgreSQLListener:
        return PostgreSQLListener(self._conninfo)

    def explain(self, error: Exception) -> StorageError | None:
        error = getattr(error, "orig", None) or error  # as SQLAlchemy wraps it during a migration
        if isinstance(error, errors.DiskFull):
            return StorageError(
                f"The disk of the {self.name} is full.",
                code=Code.STORAGE_FULL, recoverable=True, suggestion="Free some space, then call again.",
            )  # fmt: skip
        if isinstance(error, errors.DeadlockDetected | errors.SerializationFailure | errors.LockNotAvailable):
            return StorageError(
                f"The {self.name} was busy; nothing was changed.", recoverable=True, suggestion="Call again."
            )
        if isinstance(error, psycopg.OperationalError | PoolTimeout):
            return StorageError(
                f"The {self.name} cannot be reached.", recoverable=True,
                suggestion="See that it runs and that DEEPWORK_DATABASE_URL is right, then call again, "
                "with an idempotency key if the call was already under way.",
            )  # fmt: skip
        if isinstance(error, psycopg.Error):
            return StorageError(
                f"The {self.name} refused a statement ({error.sqlstate}); nothing was changed."
            )
        return None

    def describe(self) -> Iterator[tuple[str, str]]:
        yield "database", self.name
        with psycopg.connect(self._conninfo, autocommit=True, row_factory=dict_row) as connection:
            row = connection.execute(_SERVER).fetchone() or {}
            yield "engine", f"PostgreSQL {row['version']}"
            yield "size", f"{row['size'] / 1024:,.0f} KiB"
            yield "schema", _stored_version(connection) or "none"

    def problems(self) -> Iterator[str]:
        try:
            with psycopg.connect(self._conninfo, autocommit=True) as connection:
                schema.is_behind(_stored_version(connection), self.name)
        except psycopg.Error as error:
            yield f"The {self.name} cannot be reached: {_first_line(error)}."

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    @contextmanager
    def _borrowed(self) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        """A connection for the block; once the server was away, all are made anew, without waiting."""
        pool, connection = self._connections(), None
        try:
            with pool.connection() as connection:
                yield connection
        except (psycopg.OperationalError, PoolTimeout):
            if connection is None or connection.closed:
                self._forget(pool)
            raise

    def _forget(self, pool: ConnectionPool[psycopg.Connection[dict[str, Any]]]) -> None:
        with self._opening:
            if self._pool is pool:
                self._pool = None
        pool.close(timeout=0)

    def _connections(self) -> ConnectionPool[psycopg.Connection[dict[str, Any]]]:
        with self._opening:
            if self._pool is None:
                self._pool = ConnectionPool(
                    self._conninfo,
                    kwargs={"autocommit": True, "row_factory": dict_row},
                    min_size=1,
                    max_size=10,
                    timeout=CONNECT_SECONDS,
                    # A server that was restarted leaves dead connections behind: find out before use.
                    check=ConnectionPool.check_connection,
                    name="deepwork",
                    open=True,
                )
            return self._pool


class PostgreSQLListener:
    """Notices commits through LISTEN; after a cut it listens anew and says "look"."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.Connection | None = None
        self._listen()

    def wait(self, timeout: float) -> bool:
        try:
            if self._connection is None:
                self._listen()
                return True
            heard = list(self._connection.notifies(timeout=timeout, stop_after=1))
        except psycopg.OperationalError:
            self.close()
            threading.Event().wait(min(timeout, 0.2))
            return False
        return bool(heard)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _listen(self) -> None:
        self._connection = psycopg.connect(self._conninfo, autocommit=True)
        self._connection.execute(f"LISTEN {CHANNEL}")


def _stored_version(connection: psycopg.Connection[Any]) -> str | None:
    cursor = connection.cursor()
    cursor.row_factory = dict_row
    there = cursor.execute("SELECT to_regclass('alembic_version') IS NOT NULL AS there").fetchone()
    if not there or not there["there"]:
        return None
    row = cursor.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if row is None else str(row["version_num"])


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
