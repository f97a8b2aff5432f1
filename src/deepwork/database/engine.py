"""What a database must offer; SQLite and PostgreSQL do."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from deepwork.database.fulltext import FullText
from deepwork.database.statements import Placeholder
from deepwork.database.tables import Tables
from deepwork.errors import StorageError

Row = dict[str, Any]
Model = TypeVar("Model")


class Cursor(Protocol):
    """The part of a driver's cursor that we use; rows are dicts."""

    rowcount: int

    def fetchone(self) -> Row | None: ...
    def fetchall(self) -> list[Row]: ...
    def executemany(self, sql: str, values: Sequence[Mapping[str, Any]], /) -> Any: ...


class Connection(Protocol):
    """The part of a driver's connection that we use."""

    def execute(self, sql: str, values: Mapping[str, Any] = ..., /) -> Cursor: ...
    def cursor(self) -> Cursor: ...


class Listener(Protocol):
    """Notices that some process has committed events."""

    def wait(self, timeout: float) -> bool:
        """True as soon as something may be new, False after the time-out."""

    def close(self) -> None: ...


class Engine(Protocol):
    """One database: how to begin and end a transaction on it, and the few things only it can know."""

    placeholder: Placeholder
    row_lock: str
    """Ends a SELECT whose rows nobody else may change until the transaction ends."""
    free_rows: str
    """As `row_lock`, leaving out rows that somebody else holds."""
    full_text: FullText
    """How words are found."""

    @property
    def name(self) -> str:
        """The database as people may see it: a path, or an address without its password."""

    @property
    def address(self) -> str:
        """Where it is, for its owner: the whole path, or the URL without its password."""

    def prepare(self) -> None:
        """Bring the schema to what this program knows; called before the first transaction."""

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that is committed, on disk, when the block ends without an error."""

    def reading(self) -> AbstractContextManager[Connection]:
        """One unchanging view of the data; nothing can be written."""

    def now(self, connection: Connection) -> int:
        """The database's clock, in Unix milliseconds: leases of several machines end by one clock."""

    def announce(self, connection: Connection) -> None:
        """Called before the commit of a transaction with events."""

    def announced(self) -> None:
        """Called after the commit of a transaction with events."""

    def listen(self) -> Listener:
        """Start to notice events of any process."""

    def explain(self, error: Exception) -> StorageError | None:
        """What a driver's error means to a caller; None if it is not the driver's."""

    def describe(self) -> Iterator[tuple[str, str]]:
        """Facts for `deepwork doctor`."""

    def problems(self) -> Iterator[str]:
        """What is wrong with the stored data, a sentence each; empty when all is well."""

    def tables(self, connection: Connection) -> Tables:
        """All rows there are, through this transaction."""

    def is_made(self) -> bool:
        """Whether there is something to read yet; what cannot be a database is an error."""

    def others(self) -> list[str] | None:
        """Other processes that have it open; None where that cannot be told."""

    def close(self) -> None: ...


class UnreadableRow(Exception):
    """A stored row is not what we once stored."""


def stored(read: Callable[[Row], Model]) -> Callable[[Row], Model]:
    """Marks a function that makes a value of a row: what it cannot read is damage, not a fault of its own."""

    @functools.wraps(read)
    def checked(row: Row) -> Model:
        try:
            return read(row)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise UnreadableRow from error

    return checked


def open_engine(location: str) -> Engine:
    """The engine for a PostgreSQL URL or the path of a SQLite file; nothing is opened yet."""
    # Only the driver that is used is imported: psycopg costs more than the rest of a small command.
    if location.startswith(("postgresql://", "postgres://")):
        return _postgres(location)
    from deepwork.database.sqlite import SQLite  # noqa: PLC0415

    return SQLite(location)


def _postgres(url: str) -> Engine:
    try:
        from deepwork.database.postgres import PostgreSQL  # noqa: PLC0415
    except ImportError as missing:
        # Without a name it is the driver's own complaint that it found no libpq.
        if (missing.name or "psycopg").partition(".")[0] not in {"psycopg", "psycopg_pool"}:
            raise
        raise StorageError(
            "The driver for PostgreSQL is not installed here.",
            suggestion="Install it with: pip install 'deepwork[postgres]'",
        ) from None
    return PostgreSQL(url)
