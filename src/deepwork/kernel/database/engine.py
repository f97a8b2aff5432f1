"""The interface that SQLite and PostgreSQL implement."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from deepwork.kernel.database.fulltext import FullText
from deepwork.kernel.database.json_texts import JsonTexts
from deepwork.kernel.database.statements import Placeholder
from deepwork.kernel.errors import StorageError

if TYPE_CHECKING:
    # Hooks copy no tables.
    from deepwork.kernel.database.store_key import StoreKey
    from deepwork.kernel.database.tables import TableStore

Row = dict[str, Any]
Stored = TypeVar("Stored")
Model = TypeVar("Model")


class Cursor(Protocol):
    """The part of a driver's cursor that we use; rows are dictionaries."""

    rowcount: int

    def fetchone(self) -> Row | None: ...
    def fetchall(self) -> list[Row]: ...
    def executemany(self, sql: str, values: Sequence[Mapping[str, Any] | tuple[Any, ...]], /) -> Any: ...


class Connection(Protocol):
    """The part of a driver's connection that we use."""

    def execute(self, sql: str, values: Mapping[str, Any] = ..., /) -> Cursor: ...
    def cursor(self) -> Cursor: ...


class Listener(Protocol):
    """Notices that some process has committed events."""

    def wait(self, timeout: float) -> bool:
        """Return True as soon as there may be new events, False after the timeout."""

    def close(self) -> None: ...


class Engine(Protocol):
    """One database: its transactions, clock, notifications and diagnostics."""

    placeholder: Placeholder
    row_lock: str
    """SQL suffix of a SELECT that locks its rows until the transaction ends."""
    free_rows: str
    """Like `row_lock`, but skips rows locked by other transactions."""
    full_text: FullText
    """The full-text search clauses."""
    json_texts: JsonTexts
    """The clauses for texts in JSON columns."""
    tuple_factory: Any
    """The row factory of a cursor that returns rows as tuples."""
    is_prepared: bool
    """Whether `prepare` succeeded, and the database has not been replaced since."""

    @property
    def name(self) -> str:
        """The database as shown in messages: a short path, or a server without credentials."""

    @property
    def address(self) -> str:
        """The full location for its owner: a path, or a URL without its password."""

    @property
    def store_key(self) -> StoreKey:
        """The key of the store as this process last read it; `prepare` reads it."""

    def prepare(self) -> None:
        """Create or migrate the schema; called before the first transaction.

        Raises StoreNotAdopted for a file of another user, and leaves that unchanged.
        """

    def find_adoption_problem(self) -> StorageError | None:
        """Return why this store is not used: it is a file of another user. None for any other store."""

    def read_store_key(self, connection: Connection) -> StoreKey:
        """Read the key again: restoring a backup replaces it, also while other processes use the store."""

    def write_store_key(self, connection: Connection, key: StoreKey) -> None:
        """Replace the key of the store."""

    def writing(self) -> AbstractContextManager[Connection]:
        """Open a transaction that is durably committed when the block ends without an error."""

    def reading(self) -> AbstractContextManager[Connection]:
        """Open a read-only transaction with one consistent snapshot of the data."""

    def reading_anew(self) -> AbstractContextManager[Connection]:
        """Open a connection that was not used before, to see what other processes see."""

    def query(self, connection: Connection, sql: str, values: Mapping[str, Any]) -> Cursor:
        """Execute a statement of the driver's form that returns rows."""

    def now(self, connection: Connection) -> int:
        """Return the database's time in Unix milliseconds, so that leases of all machines use one clock."""

    def notify_in_transaction(self, connection: Connection) -> None:
        """Notify listeners as part of a transaction with events; called before its commit."""

    def notify_after_commit(self) -> None:
        """Notify listeners after the commit of a transaction with events."""

    def listen(self) -> Listener:
        """Start listening for events of any process."""

    def to_storage_error(self, error: Exception) -> StorageError | None:
        """Convert a driver's error to a StorageError; None if the error is not from the driver."""

    def describe(self) -> Iterator[tuple[str, str]]:
        """Yield labelled facts for `deepwork doctor`."""

    def find_problems(self) -> Iterator[str]:
        """Yield one sentence for each problem with the stored data."""

    def open_tables(self, connection: Connection) -> TableStore:
        """Return access to all tables through this transaction."""

    def exists(self) -> bool:
        """Return whether there is anything to read; raises if the file is not a database."""

    def list_other_processes(self) -> list[str] | None:
        """List other processes that have the database open; None if that cannot be determined."""

    def close(self) -> None: ...


class UnreadableRow(Exception):
    """A stored row is damaged: it cannot be parsed."""


def row_parser(read: Callable[[Stored], Model]) -> Callable[[Stored], Model]:
    """Decorate a function that parses a row: its errors become UnreadableRow, reported as damaged data."""

    @functools.wraps(read)
    def checked(row: Stored) -> Model:
        try:
            return read(row)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise UnreadableRow from error

    return checked
