"""PostgreSQL: a pool of connections to a server.

A URL may only name parameters that are listed here: otherwise one in a repository could make the driver
send this user's password to any server.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import conninfo, errors, pq
from psycopg.rows import dict_row, tuple_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from deepwork.kernel.config import FILE_URL_SCHEME
from deepwork.kernel.database import fulltext, json_texts, schema
from deepwork.kernel.database.engine import Connection, Cursor, format_percent_placeholder
from deepwork.kernel.database.seals import seal_lists
from deepwork.kernel.database.store_key import (
    COLUMNS,
    TABLE,
    StoreKey,
    create_store_key,
    expose_key,
    parse_identity,
    read_exposed_key,
)
from deepwork.kernel.database.table_store import PostgreSQLTableStore
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.environment import get_connection_variables, get_user_name
from deepwork.kernel.errors import Code, StorageError

_MISSING_FILE = "/dev/null/none"
"""A file that cannot exist; without a name, the driver would read ~/.pgpass."""
_CREDENTIAL_SOURCES = {"passfile", "service", "servicefile"}
_WITHOUT_EMPTY_VALUE = {
    "connect_timeout": "5",
    "sslcertmode": "allow",
    "min_protocol_version": "3.0",
    "max_protocol_version": "3.0",
}
"""Parameters that the driver refuses to be empty, with their usual values."""
_SUGGESTION = "Put the password into that URL, or pass the URL with DEEPWORK_DATABASE_URL or --db."


def parse_url(url: str) -> dict[str, Any]:
    """Parse the URL of a database into what was given in it; raises StorageError if it is invalid."""
    try:
        return dict(conninfo.conninfo_to_dict(f"postgresql://{url.partition('://')[2]}"))
    except psycopg.ProgrammingError:
        raise StorageError(
            "The PostgreSQL URL is invalid.", suggestion="Write it as postgresql://user@host:5432/database."
        ) from None


def is_from_file(url: str) -> bool:
    """Whether the URL came from config.yml, and not from a flag or the environment."""
    return url.startswith(f"{FILE_URL_SCHEME}://")


def build_parameters(url: str, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Build the parameters of a connection; if a file chose the URL, the driver reads no PG... variable."""
    given = parse_url(url)
    return _build_shielded(given, variables or get_connection_variables()) if is_from_file(url) else given


def _build_shielded(given: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    if sources := sorted(_CREDENTIAL_SOURCES & set(given)):
        raise StorageError(
            f"The database URL in config.yml has `{sources[0]}`, which a URL in a file must not have.",
            suggestion=_SUGGESTION,
        )
    if "PGSERVICE" in variables:  # the driver has no way to ignore it
        raise StorageError(
            "PGSERVICE is set, and the database URL is in config.yml: it would get the service's password.",
            suggestion="Unset PGSERVICE, or pass the URL with DEEPWORK_DATABASE_URL or --db.",
        )
    usual = {
        option.keyword.decode(): _get_usual_value(option)
        for option in pq.Conninfo.get_defaults()
        if option.envvar is not None and option.envvar.decode() in variables
    }
    return {**usual, "password": "", "passfile": _MISSING_FILE, **given}


def _get_usual_value(option: pq.ConninfoOption) -> str:
    """Return the value that the driver uses without a variable; an empty one is the same as none."""
    name = option.keyword.decode()
    if name == "user":
        return get_user_name()
    return _WITHOUT_EMPTY_VALUE.get(name) or (option.compiled or b"").decode()


CONNECT_SECONDS = 5
MOST_CONNECTIONS = 10
CHANNEL = "deepwork_events"
_MIGRATION_LOCK_KEY = 0x6465657077  # the key of the advisory lock for migrations
_SERVER_INFO_SQL = (
    "SELECT current_setting('server_version') AS version, pg_database_size(current_database()) AS size"
)
_OTHER_CONNECTIONS_SQL = """
    SELECT pid, coalesce(host(client_addr), 'the server itself') FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'deepwork' AND pid <> pg_backend_pid()
     ORDER BY pid
"""
_TIMEOUT_OPTIONS = (
    "-c statement_timeout=30000 -c lock_timeout=30000"
    " -c idle_in_transaction_session_timeout=60000 -c timezone=UTC"
)
_READ_KEY_SQL = f"SELECT {', '.join(COLUMNS)} FROM {TABLE}"  # noqa: S608 - constants
_INSERT_KEY_SQL = (
    f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES ({', '.join(f'%({name})s' for name in COLUMNS)})"  # noqa: S608
)
_NO_TIMEOUT_OPTIONS = "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
# Detect a server that disappeared: without these a call would wait for a quarter of an hour.
_KEEPALIVES = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
# Hide the pool's log line for each connection attempt, which would bury our own error message.
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
_REACH_SUGGESTION = "Check that it is running and that DEEPWORK_DATABASE_URL is correct"
_FILE_URL_SUGGESTION = (
    "Check that it is running and that `database` in config.yml is correct; a password must be in that URL,"
    " because PGPASSWORD and password files are for URLs from DEEPWORK_DATABASE_URL and --db"
)
_BEGIN_WRITE_SQL = "BEGIN"
_BEGIN_READ_SQL = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_Connection = psycopg.Connection[dict[str, Any]]
_Pool = ConnectionPool[_Connection]


_BUSY_ERRORS = (
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.LockNotAvailable,
    errors.QueryCanceled,
    errors.IdleInTransactionSessionTimeout,
)


class PoolExhausted(Exception):
    """All connections of the pool stayed in use."""


class CommitOutcomeUnknown(Exception):
    """The connection was lost between COMMIT and its confirmation."""


class PostgreSQL:
    """One database on a server."""

    placeholder = staticmethod(format_percent_placeholder)
    row_lock = " FOR NO KEY UPDATE"  # still allows inserting rows that refer to this one
    free_rows = " FOR NO KEY UPDATE SKIP LOCKED"
    full_text = fulltext.POSTGRES
    json_texts = json_texts.POSTGRES
    tuple_factory = staticmethod(tuple_row)
    is_prepared = False

    def __init__(self, url: str) -> None:
        self._given = parse_url(url)
        self._reach_suggestion = _FILE_URL_SUGGESTION if is_from_file(url) else _REACH_SUGGESTION
        parts = build_parameters(url)
        usual: dict[str, Any] = {
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "deepwork",
            **_KEEPALIVES,
        }
        self._parts = usual | parts
        self._parts["options"] = f"{_TIMEOUT_OPTIONS} {parts.get('options') or ''}".strip()
        self._conninfo = conninfo.make_conninfo(**self._parts)
        self._opening = threading.Lock()
        self._lent = 0
        self._pool: _Pool | None = None
        self._key: StoreKey | None = None

    @property
    def name(self) -> str:
        place = self._given.get("host") or "localhost"
        port = f", port {self._given['port']}" if self._given.get("port") else ""
        return f"PostgreSQL database {self._given.get('dbname', 'postgres')!r} on {place}{port}"

    @property
    def address(self) -> str:
        user, host, port, name = (
            quote(str(self._given.get(part) or ""), safe="/" if part == "host" else "")
            for part in ("user", "host", "port", "dbname")
        )
        who, at_port = f"{user}@" if user else "", f":{port}" if port else ""
        if host.startswith("/"):  # the folder of a socket
            return f"postgresql://{who}{at_port}/{name}?host={host}"
        return f"postgresql://{who}{host or 'localhost'}{at_port}/{name}"

    def prepare(self) -> None:
        self._create_or_migrate()
        self.is_prepared = True

    @property
    def store_key(self) -> StoreKey:
        if self._key is None:
            raise StorageError(f"The {self.name} was not opened yet.")
        return self._key

    def find_adoption_problem(self) -> None:
        """Nothing to adopt: only the role of this database can read its key."""

    def read_store_key(self, connection: Connection) -> StoreKey:
        row = connection.execute(_READ_KEY_SQL).fetchone()
        if row is None:
            raise StorageError(
                f"The {self.name} has lost its key, with which tokens and the audit log are checked.",
                suggestion="Restore the newest backup: deepwork db restore FILE --replace",
            )
        self._key = read_exposed_key(parse_identity(row))
        return self._key

    def write_store_key(self, connection: Connection, key: StoreKey) -> None:
        connection.execute(f"DELETE FROM {TABLE}")  # noqa: S608 - a constant
        connection.execute(_INSERT_KEY_SQL, vars(expose_key(key)))
        self._key = key

    def _create_or_migrate(self) -> None:
        with psycopg.connect(self._conninfo, autocommit=True, row_factory=dict_row) as connection:
            self._create_or_migrate_schema(connection)
            self.read_store_key(connection)  # type: ignore[arg-type]  # as in `writing`

    def _create_or_migrate_schema(self, connection: _Connection) -> None:
        if not schema.is_behind(_read_version(connection), self.name):
            return
        connection.execute("SELECT pg_advisory_lock(%s)", (_MIGRATION_LOCK_KEY,))
        # Another process may have migrated while we waited.
        version = _read_version(connection)
        if schema.is_behind(version, self.name):
            with psycopg.connect(self._build_unlimited_conninfo()) as migrating:
                if version is None:
                    migrating.execute(schema.read_snapshot("postgresql"))
                    migrating.row_factory = dict_row  # type: ignore[assignment]
                    self.write_store_key(migrating, create_store_key())  # type: ignore[arg-type]
                    seal_lists(Transaction(migrating, self))  # type: ignore[arg-type]
                else:
                    schema.migrate("postgresql+psycopg://", migrating, psycopg)

    def _build_unlimited_conninfo(self) -> str:
        """Build a conninfo without time limits, for migrations; later options win."""
        options = f"{self._parts['options']} {_NO_TIMEOUT_OPTIONS}"
        return conninfo.make_conninfo(**self._parts | {"options": options})

    @contextmanager
    def writing(self, *, shares_commit: bool = False) -> Iterator[Connection]:  # noqa: ARG002 - the server's matter
        with self._open_transaction(_BEGIN_WRITE_SQL) as connection:
            yield connection  # type: ignore[misc]  # psycopg's connection satisfies our protocol
            _commit(connection)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._open_transaction(_BEGIN_READ_SQL) as connection:
            yield connection  # type: ignore[misc]
            _roll_back(connection)

    @contextmanager
    def reading_anew(self) -> Iterator[Any]:
        with psycopg.connect(self._conninfo, autocommit=True, row_factory=dict_row) as connection:
            yield connection

    def query(self, connection: Connection, sql: str, values: Mapping[str, Any]) -> Cursor:
        return connection.execute(sql, values)

    def now(self, connection: Connection) -> int:
        row = connection.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now")
        return int((row.fetchone() or {})["now"])

    def notify_in_transaction(self, connection: Connection) -> None:
        connection.execute(f"NOTIFY {CHANNEL}")

    def notify_after_commit(self) -> None:
        """Does nothing: NOTIFY is delivered with the commit."""

    def listen(self) -> PostgreSQLListener:
        return PostgreSQLListener(self._conninfo)

    def to_storage_error(self, error: Exception) -> StorageError | None:
        error = getattr(error, "orig", None) or error  # as SQLAlchemy wraps it during a migration
        if isinstance(error, errors.DiskFull):
            return StorageError(
                f"The disk of the {self.name} is full.",
                code=Code.STORAGE_FULL,
                recoverable=True,
                suggestion="Free some space, then call again.",
            )
        if isinstance(error, CommitOutcomeUnknown):
            return StorageError(
                f"The connection to the {self.name} was lost during a commit; "
                "the change may or may not have been saved.",
                recoverable=True,
                suggestion="Repeat the call with the same idempotency key: it takes effect only once. "
                "If it had no key, first check whether it took effect.",
            )
        if isinstance(error, (PoolExhausted, *_BUSY_ERRORS)):
            return StorageError(
                f"The {self.name} was busy; nothing was changed.", recoverable=True, suggestion="Call again."
            )
        if isinstance(error, psycopg.OperationalError):
            return StorageError(
                f"The {self.name} cannot be reached{_format_reason(error)}.",
                recoverable=True,
                suggestion=f"{self._reach_suggestion}, then call again, with the same idempotency key if the"
                " call had already started.",
            )
        if isinstance(error, psycopg.Error):
            return StorageError(
                f"The {self.name} rejected a statement ({error.sqlstate}); nothing was changed."
            )
        return None

    def describe(self) -> Iterator[tuple[str, str]]:
        yield "database", self.name
        with psycopg.connect(self._conninfo, autocommit=True, row_factory=dict_row) as connection:
            row = connection.execute(_SERVER_INFO_SQL).fetchone() or {}
            yield "engine", f"PostgreSQL {row['version']}"
            yield "size", f"{row['size'] / 1024:,.0f} KiB"
            yield "schema", _read_version(connection) or "none"

    def find_problems(self) -> Iterator[str]:
        try:
            with psycopg.connect(self._conninfo, autocommit=True) as connection:
                schema.is_behind(_read_version(connection), self.name)
        except psycopg.Error as error:
            yield f"The {self.name} cannot be reached{_format_reason(error)}. {self._reach_suggestion}."

    def open_tables(self, connection: Connection) -> PostgreSQLTableStore:
        return PostgreSQLTableStore(connection)

    def exists(self) -> bool:
        return True

    def list_other_processes(self) -> list[str] | None:
        try:
            with psycopg.connect(self._conninfo, autocommit=True) as connection:
                rows = connection.execute(_OTHER_CONNECTIONS_SQL).fetchall()
        except psycopg.Error as error:
            raise self.to_storage_error(error) or error from error
        return [f"pid {number} at {place}" for number, place in rows]

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    @contextmanager
    def _open_transaction(self, begin: str) -> Iterator[_Connection]:
        """Yield a connection inside a transaction; rolls back what the block did not commit."""
        pool, connection = self._begin_transaction(begin)
        try:
            yield connection
        except BaseException:
            _roll_back(connection)
            raise
        finally:
            self._return_connection(pool, connection)

    def _begin_transaction(self, begin: str) -> tuple[_Pool, _Connection]:
        """Begin a transaction; retries on a new connection if the server was away, which is safe here."""
        deadline = time.monotonic() + CONNECT_SECONDS
        while True:
            pool = self._get_pool()
            try:
                connection = pool.getconn(timeout=max(0.0, deadline - time.monotonic()))
            except PoolClosed:  # another thread discarded this pool because the server was away
                continue
            except PoolTimeout as error:
                if self._lent >= MOST_CONNECTIONS:  # the server is up but busy
                    raise PoolExhausted from error
                self._discard_pool(pool)
                raise
            self._add_lent(1)
            try:
                connection.execute(begin)
            except psycopg.OperationalError:
                self._return_connection(pool, connection)
                if not connection.closed or time.monotonic() >= deadline:
                    raise
            else:
                return pool, connection

    def _return_connection(self, pool: _Pool, connection: _Connection) -> None:
        # If one connection is dead, so are the others: discard the pool, or each would cost a caller a wait.
        if connection.closed:
            self._discard_pool(pool)
        self._add_lent(-1)
        pool.putconn(connection)

    def _add_lent(self, more: int) -> None:
        with self._opening:
            self._lent += more

    def _discard_pool(self, pool: _Pool) -> None:
        with self._opening:
            if self._pool is pool:
                self._pool = None
        pool.close(timeout=0)

    def _get_pool(self) -> _Pool:
        with self._opening:
            if self._pool is None:
                self._pool = ConnectionPool(
                    self._conninfo,
                    kwargs={"autocommit": True, "row_factory": dict_row},
                    min_size=1,
                    max_size=MOST_CONNECTIONS,
                    timeout=CONNECT_SECONDS,
                    name="deepwork",
                    open=True,
                )
            return self._pool


class PostgreSQLListener:
    """Detects commits through LISTEN; after a disconnect it reconnects and reports possible events."""

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


def _commit(connection: _Connection) -> None:
    try:
        ended = connection.execute("COMMIT")
    except psycopg.OperationalError as error:
        if connection.closed:
            raise CommitOutcomeUnknown from error
        raise
    if ended.statusmessage != "COMMIT":  # the server answers the COMMIT of a failed transaction with ROLLBACK
        raise errors.InFailedSqlTransaction("The transaction had failed before its commit.")


def _roll_back(connection: _Connection) -> None:
    """Roll back the transaction; if the connection is lost, the server does so itself."""
    if connection.info.transaction_status != pq.TransactionStatus.IDLE:
        with suppress(psycopg.Error):
            connection.execute("ROLLBACK")


def _read_version(connection: psycopg.Connection[Any]) -> str | None:
    cursor = connection.cursor()
    cursor.row_factory = dict_row
    there = cursor.execute("SELECT to_regclass('alembic_version') IS NOT NULL AS there").fetchone()
    if not there or not there["there"]:
        return None
    row = cursor.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if row is None else str(row["version_num"])


def _format_reason(error: Exception) -> str:
    """Format what the server or the system says, without the address, which our message has already."""
    first = str(error).strip().partition("\n")[0].rstrip(".")
    _, failed, reason = first.rpartition(" failed: ")
    return f": {reason}" if failed else ""
