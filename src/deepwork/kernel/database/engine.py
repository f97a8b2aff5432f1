"""What both databases have in common: statements with named parameters, and connections.

Stores write `:name` for a value and `IN :names` for a list. The rest is the same for both databases.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from deepwork.kernel.database.fulltext import FullText
from deepwork.kernel.database.json_texts import JsonTexts
from deepwork.kernel.errors import StorageError

if TYPE_CHECKING:
    from deepwork.kernel.database.store_key import StoreKey
    from deepwork.kernel.database.tables import TableStore

# A colon that starts a parameter; not part of a `::cast`, nor inside a word such as 'agent:updated'.
_PARAMETER_PATTERN = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_LIMIT_PATTERN = re.compile(r"\bLIMIT (:[a-z_]\w*)")

_LIST_TYPES = (list, tuple)

Placeholder = Callable[[str], str]


def format_colon_placeholder(name: str, /) -> str:
    """Format a parameter for SQLite."""
    return f":{name}"


def format_percent_placeholder(name: str, /) -> str:
    """Format a parameter for psycopg."""
    return f"%({name})s"


def prepare_statement(
    sql: str, values: Mapping[str, Any], placeholder: Placeholder
) -> tuple[str, Mapping[str, Any]]:
    """Return the statement and its values in the driver's form, with lists expanded."""
    for value in values.values():
        if isinstance(value, _LIST_TYPES):
            break
    else:  # the common case
        return _translate(sql, (), placeholder), values
    lists = tuple([(name, len(value)) for name, value in values.items() if isinstance(value, _LIST_TYPES)])
    spread = dict(values)
    for name, length in lists:
        spread.update(zip(_list_item_names(name, length), spread.pop(name), strict=True))
    return _translate(sql, lists, placeholder), spread


@lru_cache(maxsize=1024)
def _list_item_names(name: str, length: int) -> list[str]:
    """Return the parameter names of a list's items."""
    return [f"{name}_{place}" for place in range(length)]


@lru_cache(maxsize=1024)
def _translate(sql: str, lists: tuple[tuple[str, int], ...], placeholder: Placeholder) -> str:
    lengths = dict(lists)

    def replace(found: re.Match[str]) -> str:
        name = found[1]
        if name not in lengths:
            return placeholder(name)
        items = ", ".join(map(placeholder, _list_item_names(name, lengths[name])))
        # An empty list matches nothing; `IN ()` would be an error on PostgreSQL.
        return f"({items or 'NULL'})"

    return _PARAMETER_PATTERN.sub(
        replace, _stabilise_limit(sql) if placeholder is format_colon_placeholder else sql.replace("%", "%%")
    )


def _stabilise_limit(sql: str) -> str:
    """Change `LIMIT :limit` so that SQLite prepares the statement only once.

    SQLite's planner uses the value of a bare `LIMIT :limit`, and so prepares the statement again for every
    bound value, which takes longer than most of our queries. With `+ 0` it does not.
    """
    return _LIMIT_PATTERN.sub(r"LIMIT \1 + 0", sql)


@lru_cache(maxsize=256)
def build_insert(table: str, columns: tuple[str, ...]) -> str:
    """Build an INSERT for these columns; names come from our stores, never from a caller."""
    values = ", ".join(f":{column}" for column in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"  # noqa: S608


@lru_cache(maxsize=256)
def build_positional_insert(table: str, columns: tuple[str, ...], placeholder: Placeholder) -> str:
    """Build an INSERT in the driver's form, with values in the order of the columns."""
    mark = "?" if placeholder is format_colon_placeholder else "%s"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join([mark] * len(columns))})"  # noqa: S608


@lru_cache(maxsize=256)
def build_update(table: str, columns: tuple[str, ...]) -> str:
    """Build an UPDATE of these columns for the row `:id`; names come from our stores, never from a caller."""
    changes = ", ".join(f"{column} = :{column}" for column in columns)
    return f"UPDATE {table} SET {changes} WHERE id = :id"  # noqa: S608


@lru_cache(maxsize=256)
def build_conditional_update(table: str, columns: tuple[str, ...], known: tuple[str, ...]) -> str:
    """Build an UPDATE of these columns where each `known` one is `:before_<name>`."""
    changes = ", ".join(f"{column} = :{column}" for column in columns)
    conditions = " AND ".join(f"{name} = :before_{name}" for name in known)
    return f"UPDATE {table} SET {changes} WHERE {conditions}"  # noqa: S608


def build_newest(
    table: str, columns: str, conditions: Mapping[str, Any], *, is_first: bool
) -> tuple[str, str]:
    """Build the SELECT of the newest rows, from `:after_at` and `:after_id` on, and that of the total."""
    later = {"(created_at < :after_at OR (created_at = :after_at AND id < :after_id))": not is_first or None}
    where, where_all = build_where({**conditions, **later}), build_where(conditions)
    page = f"SELECT {columns} FROM {table} {where} ORDER BY created_at DESC, id DESC LIMIT :limit"  # noqa: S608
    return page, f"SELECT count(*) FROM {table} {where_all}"  # noqa: S608


def build_where(conditions: Mapping[str, Any]) -> str:
    """Build a WHERE clause of the conditions whose value is not None; the SQL is never from a caller."""
    given = [condition for condition, value in conditions.items() if value is not None]
    return f"WHERE {' AND '.join(given)}" if given else ""


def build_like_pattern(text: str) -> str:
    """Build the LIKE pattern for strings that contain this text, with `!` as escape character."""
    return "%" + re.sub(r"([!%_])", r"!\1", text) + "%"


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

    def writing(self, *, shares_commit: bool = False) -> AbstractContextManager[Connection]:
        """Open a transaction that is durably committed when the block ends without an error.

        Short ones may share the commit of others that wait at the same time.
        """

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
