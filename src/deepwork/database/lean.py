"""A quick look into a store that is there: for hooks, which run beside every step of an agent.

No folder and no file is made, no schema changed, nobody waited for long, and of our own modules only those
imported that a few statements need.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from deepwork.database import schema
from deepwork.database.fulltext import SQLITE
from deepwork.database.statements import colon
from deepwork.database.transaction import Transaction
from deepwork.errors import StorageError
from deepwork.files.lock import FileLock

if TYPE_CHECKING:
    import sqlite3

    import psycopg

    from deepwork.database.engine import Connection, Engine
else:
    try:
        from pysqlite3 import dbapi2 as sqlite3
    except ImportError:  # as in `database/sqlite.py`
        import sqlite3

_CLOSING_SECONDS = 0.05
_CONNECT_SECONDS = 2  # the least that the driver takes
_VERSION = "SELECT version_num FROM alembic_version"


class LeanStore(Protocol):
    """A store that can be read, and in which a few rows can be changed."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """One unchanging view of the data."""

    def writing(self, patience: float) -> AbstractContextManager[Transaction]:
        """A transaction without events: whatever must be told belongs to a tool.

        A StorageError if others hold what it needs for more than these seconds.
        """


@contextmanager
def existing_store(location: str, patience: float) -> Iterator[LeanStore | None]:
    """The store at this place, with the schema that we know; None where there is none yet.

    `patience` is how many seconds to wait for others.
    """
    if "://" in location:
        with _postgres(location, patience) as store:
            yield store
        return
    path = Path(location)
    if not path.is_file() or not path.stat().st_size:
        yield None
        return
    with _LeanSQLite(path, patience).opened() as store:
        yield store


class _LeanSQLite:
    """The file of `database/sqlite.py`, with the same lock around every change."""

    placeholder = staticmethod(colon)
    row_lock = free_rows = ""
    full_text = SQLITE

    def __init__(self, path: Path, patience: float) -> None:
        self._path = path
        self._lock = FileLock(path.with_name(path.name + ".lock"))
        self._connection = sqlite3.connect(  # `rw`: what is gone by now is not made again
            f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=patience
        )

    @contextmanager
    def opened(self) -> Iterator[_LeanSQLite]:
        try:
            self._connection.row_factory = _as_dict
            self._connection.execute("PRAGMA trusted_schema = OFF")
            # A renewal that a power cut takes back was the sign of life of nobody: no need to flush it.
            self._connection.execute("PRAGMA synchronous = NORMAL")
            _require_current(self._connection, "/".join(self._path.parts[-2:]))
            yield self
        finally:
            # Whoever closes last empties the log into the file, which must be done alone. Where that is not
            # to be had at once, the file is left to the end of the process, as if it had been killed.
            with suppress(StorageError), self._lock.held(timeout=_CLOSING_SECONDS):
                self._connection.close()
            self._lock.close()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._begun("BEGIN") as tx:
            yield tx

    @contextmanager
    def writing(self, patience: float) -> Iterator[Transaction]:
        with self._lock.held(timeout=patience), self._begun("BEGIN IMMEDIATE") as tx:
            yield tx

    @contextmanager
    def _begun(self, begin: str) -> Iterator[Transaction]:
        self._connection.execute(begin)
        try:
            yield Transaction(cast("Connection", self._connection), cast("Engine", self))
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def now(self, _: Connection) -> int:
        return time.time_ns() // 1_000_000


class _LeanPostgreSQL:
    """One connection, without the pool that a server needs, and without bringing the schema to ours."""

    def __init__(self, connection: Connection, engine: Engine) -> None:
        self._connection = connection
        self._engine = engine

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._begun("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as tx:
            yield tx

    @contextmanager
    def writing(self, patience: float) -> Iterator[Transaction]:
        with self._begun(f"BEGIN; SET LOCAL lock_timeout = {_milliseconds(patience)}") as tx:
            yield tx

    @contextmanager
    def _begun(self, begin: str) -> Iterator[Transaction]:
        with _explained(self._engine):
            self._connection.execute(begin)
            try:
                yield Transaction(self._connection, self._engine)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")


@contextmanager
def _postgres(url: str, patience: float) -> Iterator[LeanStore | None]:
    from deepwork.database.engine import open_engine  # noqa: PLC0415 - the driver is not for files

    engine = open_engine(url)
    with _explained(engine):
        connection = _connected(url, patience)
    with connection:
        with _explained(engine):
            row = connection.execute("SELECT to_regclass('alembic_version') AS it").fetchone()
            is_made = bool(row and row["it"])
            if is_made:
                _require_current(connection, engine.name)
        yield _LeanPostgreSQL(cast("Connection", connection), engine) if is_made else None


def _connected(url: str, patience: float) -> psycopg.Connection[dict[str, Any]]:
    import psycopg  # noqa: PLC0415
    from psycopg.rows import dict_row  # noqa: PLC0415

    waiting = _milliseconds(patience)
    own = psycopg.conninfo.conninfo_to_dict(url).get("options") or ""
    return psycopg.connect(
        url, autocommit=True, row_factory=dict_row, connect_timeout=_CONNECT_SECONDS,
        application_name="deepwork hook",  # not one of those that keep the store open
        options=f"-c lock_timeout={waiting} -c statement_timeout={waiting} {own}",
    )  # fmt: skip


@contextmanager
def _explained(engine: Engine) -> Iterator[None]:
    """The driver's errors in the words of a server, which name what can be done."""
    try:
        yield
    except Exception as error:
        if explained := engine.explain(error):
            raise explained from error
        raise


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))  # 0 would mean for ever


def _require_current(connection: Any, name: str) -> None:
    row = connection.execute(_VERSION).fetchone()
    if schema.is_behind(str(row["version_num"]) if row else None, name):
        raise StorageError(
            f"{name} has an older schema than this deepwork.",
            suggestion="Start a server, or run `deepwork status`: that brings it up to date.",
        )


def _as_dict(cursor: Any, values: tuple[Any, ...]) -> dict[str, Any]:
    return {column[0]: value for column, value in zip(cursor.description, values, strict=True)}
