"""Transactions, through which stores read and write, and the events they emit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import field
from functools import partial
from types import TracebackType
from typing import Any

from deepwork.kernel.call import ActionOutcome, current_call
from deepwork.kernel.database import engine
from deepwork.kernel.database.engine import Connection, Cursor, Engine, Listener, Row, UnreadableRow
from deepwork.kernel.database.fulltext import FullText
from deepwork.kernel.database.json_texts import JsonTexts
from deepwork.kernel.database.store_key import StoreKey
from deepwork.kernel.errors import StorageError
from deepwork.kernel.records import dataclass

Clock = Callable[[], int]
Action = Callable[[], ActionOutcome | None]


@dataclass(frozen=True)
class PendingEvent:
    """An event that is recorded when its transaction commits."""

    type: str
    data: Mapping[str, Any]
    workflow_id: str | None = None


@dataclass
class Transaction:
    """An open database transaction, usually one per tool call; commits completely or not at all."""

    _connection: Connection
    _engine: Engine
    _clock: Clock | None = None
    pending_events: list[PendingEvent] = field(default_factory=list)
    last_writes: list[Callable[[Transaction], None]] = field(default_factory=list)
    _after_commit: list[Action] = field(default_factory=list)
    _now: int | None = None

    @property
    def now(self) -> int:
        """The transaction's time in Unix milliseconds, by the database's clock."""
        if self._now is None:  # `cached_property` takes a lock, which takes longer than the rest
            self._now = self._clock() if self._clock else self._engine.now(self._connection)
        return self._now

    @property
    def row_lock(self) -> str:
        """SQL suffix of a SELECT that locks its rows until the transaction ends."""
        return self._engine.row_lock

    @property
    def free_rows(self) -> str:
        """Like `row_lock`, but skips rows locked by other transactions."""
        return self._engine.free_rows

    @property
    def full_text(self) -> FullText:
        """The full-text search clauses of this database."""
        return self._engine.full_text

    @property
    def json_texts(self) -> JsonTexts:
        """The clauses of this database for texts in JSON columns."""
        return self._engine.json_texts

    @property
    def store_key(self) -> StoreKey:
        """The key of the store, as this process last read it."""
        return self._engine.store_key

    def read_store_key(self) -> StoreKey:
        """Read the key of the store again, in case a backup was restored."""
        return self._engine.read_store_key(self._connection)

    @property
    def caller(self) -> str:
        """The caller of the current tool call."""
        return current_call().caller

    def execute(self, sql: str, /, **values: Any) -> int:
        """Execute a statement and return the number of affected rows."""
        return self._execute(sql, values).rowcount

    def fetch_one(self, sql: str, /, **values: Any) -> Row | None:
        """Return the first row, if there is one."""
        return self._query(sql, values).fetchone()

    def fetch_all(self, sql: str, /, **values: Any) -> list[Row]:
        """Return all rows."""
        return self._query(sql, values).fetchall()

    def fetch_tuples(self, sql: str, /, **values: Any) -> list[tuple[Any, ...]]:
        """Return all rows with their values in the order of the columns; the fastest way for thousands."""
        text, spread = engine.prepare_statement(sql, values, self._engine.placeholder)
        cursor: Any = self._connection.cursor()
        cursor.row_factory = self._engine.tuple_factory
        rows: list[tuple[Any, ...]] = cursor.execute(text, spread).fetchall()
        return rows

    def fetch_value(self, sql: str, /, **values: Any) -> Any:
        """Return the first column of the first row, if there is one."""
        row = self.fetch_one(sql, **values)
        return None if row is None else next(iter(row.values()))

    def insert(self, table: str, row: Mapping[str, Any]) -> None:
        """Insert one row."""
        self._execute(engine.build_insert(table, tuple(row)), row)

    def insert_new(self, table: str, row: Mapping[str, Any]) -> bool:
        """Insert one row; False if another one is in its way, by a unique index."""
        sql = f"{engine.build_insert(table, tuple(row))} ON CONFLICT DO NOTHING"
        return self._execute(sql, row).rowcount == 1

    def insert_many(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert many rows with one statement."""
        if rows:
            self.execute_many(engine.build_insert(table, tuple(rows[0])), rows)

    def insert_tuples(self, table: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert many rows whose values are in the order of the columns; the fastest way for thousands."""
        if rows:
            sql = engine.build_positional_insert(table, columns, self._engine.placeholder)
            self._connection.cursor().executemany(sql, rows)

    def execute_many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute a statement once for each row of values."""
        if rows:
            text, values = engine.prepare_statement(sql, rows[0], self._engine.placeholder)
            if len(rows) == 1:  # the common case, which drivers execute faster
                self._connection.execute(text, values)
            else:
                self._connection.cursor().executemany(text, rows)

    def update(self, table: str, id: str, changes: Mapping[str, Any]) -> None:
        """Update columns of the row with this id."""
        if changes:
            self._execute(engine.build_update(table, tuple(changes)), {**changes, "id": id})

    def save_change(
        self, table: str, before: Mapping[str, Any], after: Mapping[str, Any], *unchanged: str
    ) -> bool:
        """Store the columns of a row that differ, if the `unchanged` ones are still as before.

        So of two processes that decide about the same row one has no effect; it gets False.
        """
        changes = {name: value for name, value in after.items() if value != before[name]}
        if not changes:
            return True
        known = {f"before_{name}": before[name] for name in ("id", *unchanged)}
        sql = engine.build_conditional_update(table, tuple(changes), ("id", *unchanged))
        return self.execute(sql, **known, **changes) == 1

    def list_first(
        self, columns: str, rows: str, order: str, limit: int, *, offset: int = 0, **values: Any
    ) -> tuple[list[Row], int]:
        """List the first rows, and how many there are in all.

        `rows` is what follows FROM. The database counts only if there may be more rows than these.
        """
        page = " OFFSET :offset" if offset else ""
        sql = f"SELECT {columns} FROM {rows} ORDER BY {order} LIMIT :limit{page}"  # noqa: S608 - no values
        found = self.fetch_all(sql, limit=limit, offset=offset, **values)
        if len(found) < limit and not offset:
            return found, len(found)
        return found, int(self.fetch_value(f"SELECT count(*) FROM {rows}", **values))  # noqa: S608

    def list_newest(
        self,
        table: str,
        columns: str,
        conditions: Mapping[str, Any],
        after: tuple[int, str] | None,
        limit: int,
        **values: Any,
    ) -> tuple[list[Row], int]:
        """List rows, the newest first, after this time and id; and how many match in all.

        Conditions whose value is None do not apply.
        """
        page, count = engine.build_newest(table, columns, conditions, is_first=after is None)
        at, id = after or (0, "")
        rows = self.fetch_all(page, after_at=at, after_id=id, limit=limit, **values)
        return rows, int(self.fetch_value(count, **values))

    def emit(self, type: str, data: Mapping[str, Any], workflow_id: str | None = None) -> None:
        """Emit an event, which is recorded only if this transaction commits."""
        self.pending_events.append(PendingEvent(type, data, workflow_id))

    def write_last(self, write: Callable[[Transaction], None]) -> None:
        """Write this at the end of the transaction, after its events.

        For rows that every transaction locks: a transaction that locked one earlier, and then waited for
        another row, would wait for one that waits for it.
        """
        self.last_writes.append(write)

    def after_commit(self, action: Action) -> None:
        """Run the action after the commit and before the call's answer is sent.

        For work that is too slow for a transaction, such as git. The tool may have returned its answer by
        then; if the answer depends on the result, the action returns an outcome, which revises the answer.
        An action that raises fails the call, although the transaction is committed, and skips the actions
        after it. So it raises only after undoing the change; other problems are outcomes or are logged.
        """
        self._after_commit.append(action)

    def notify_listeners(self) -> None:
        """Notify listeners as part of the transaction, if its database can."""
        self._engine.notify_in_transaction(self._connection)

    def run_after_commit(self) -> None:
        """Run the actions in the order in which they were added; the current call collects their outcomes."""
        outcomes = current_call().outcomes
        for action in self._after_commit:
            outcome = action()
            if outcome is not None and outcomes is not None:
                outcomes.append(outcome)

    def _execute(self, sql: str, values: Mapping[str, Any]) -> Cursor:
        return self._connection.execute(*engine.prepare_statement(sql, values, self._engine.placeholder))

    def _query(self, sql: str, values: Mapping[str, Any]) -> Cursor:
        text, spread = engine.prepare_statement(sql, values, self._engine.placeholder)
        return self._engine.query(self._connection, text, spread)


EventLog = Callable[[Transaction, Sequence[PendingEvent]], None]
EventHandler = Callable[[Sequence[PendingEvent]], ActionOutcome | None]

_joined: ContextVar[Transaction | None] = ContextVar("deepwork_joined_transaction", default=None)


class Database:
    """The store: opens transactions on an engine and records their events."""

    def __init__(
        self,
        engine: Engine,
        record: EventLog,
        clock: Clock | None = None,
        make_folder: Callable[[], None] | None = None,
    ) -> None:
        """`record` appends events to the log; `clock` replaces the database's own in tests.

        `make_folder` runs before the schema is created, also again if the store was removed.
        """
        self.engine = engine
        self._make_folder = make_folder
        self._record = record
        self._clock = clock
        self._preparing = threading.Lock()
        self._subscribers: list[tuple[Collection[str], EventHandler]] = []
        self.has_many_callers = False
        """Whether several clients may write at the same time, as over HTTP: then they share commits."""

    @property
    def is_prepared(self) -> bool:
        """Whether the next transaction need not create or migrate the schema first."""
        return self.engine.is_prepared

    def subscribe(self, event_types: Collection[str], handler: EventHandler) -> None:
        """Call the handler after each commit that records events of these types, with those events.

        This lets a higher slice react to a lower one that must not import it. The handler is an action like
        those of `Transaction.after_commit`: it runs before the answer is sent, so the caller cannot change
        anything yet, and after the transaction's own actions, so that it finds what they created. It gets
        the commits of this process only, unlike `listen`.
        """
        self._subscribers.append((event_types, handler))

    def transaction(self, *, shares_commit: bool = False) -> AbstractContextManager[Transaction]:
        """Open a transaction; commits, together with its events, when the block ends without an error.

        Inside `join_transaction` it joins the outer transaction: the block's end commits nothing then.
        With `shares_commit`, others that wait may be committed with it, so it has to be short. Where there is
        one caller nobody waits.
        """
        if outer := _joined.get():
            return nullcontext(outer)
        shares_commit = shares_commit and self.has_many_callers
        return _WriteBlock(self, self.engine.writing(shares_commit=shares_commit))

    def reading(self) -> AbstractContextManager[Transaction]:
        """Open a read-only transaction: one consistent snapshot, without waiting for writers."""
        return nullcontext(outer) if (outer := _joined.get()) else _ReadBlock(self, self.engine.reading())

    def reading_anew(self) -> AbstractContextManager[Transaction]:
        """Read through a connection that was not used before: it sees what other processes see."""
        return _ReadBlock(self, self.engine.reading_anew())

    def listen(self) -> Listener:
        """Start listening for events of any process."""
        try:
            self.prepare()
            return self.engine.listen()
        except Exception as error:
            raise self.translate_error(error) from error

    def close(self) -> None:
        self.engine.close()

    def prepare(self) -> None:
        """Create or migrate the schema before the first transaction."""
        if not self.is_prepared:
            with self._preparing:
                if not self.is_prepared:
                    if self._make_folder:
                        self._make_folder()
                    self.engine.prepare()

    def open(self, connection: Connection) -> Transaction:
        """Return a transaction that uses this connection."""
        return Transaction(connection, self.engine, self._clock)

    def record_changes(self, tx: Transaction) -> None:
        """Store the events of a transaction that is about to commit, and the audit entry of its call."""
        if tx.pending_events:
            self._record(tx, tx.pending_events)
            tx.notify_listeners()
        for write in tx.last_writes:
            write(tx)
        if note := current_call().record:
            note(tx)  # after the events: both locks are always taken in this order

    def announce_changes(self, tx: Transaction) -> None:
        """Notify listeners of the events of a committed transaction, then run the actions after it."""
        if tx.pending_events:
            self.engine.notify_after_commit()
            for event_types, handler in self._subscribers:
                if events := [event for event in tx.pending_events if event.type in event_types]:
                    tx.after_commit(partial(handler, events))
        tx.run_after_commit()

    def translate_error(self, error: Exception) -> Exception:
        """Return the error that callers get: a StorageError if the store failed, otherwise this one."""
        if isinstance(error, UnreadableRow):
            return StorageError(
                f"{self.engine.name} has a row that cannot be read; nothing was changed.",
                suggestion="Run `deepwork doctor`, then restore the newest backup.",
            )
        return self.engine.to_storage_error(error) or error


class _ReadBlock:
    """A read-only transaction for a `with` block. A class, because a generator takes longer to enter."""

    __slots__ = ("_database", "_session", "_tx")

    def __init__(self, database: Database, session: AbstractContextManager[Connection]) -> None:
        self._database, self._session = database, session

    def __enter__(self) -> Transaction:
        try:
            self._database.prepare()
            self._tx = self._database.open(self._session.__enter__())
        except Exception as error:
            self._raise_translated(error)
            raise
        return self._tx

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end(kind, error, trace)
        except Exception as failure:
            self._raise_translated(failure)
            raise
        if isinstance(error, Exception):
            self._raise_translated(error)

    def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.__exit__(kind, error, trace)

    def _raise_translated(self, error: Exception) -> None:
        """Raise a StorageError if the store failed; other errors are left to the caller."""
        if (translated := self._database.translate_error(error)) is not error:
            raise translated from error


class _WriteBlock(_ReadBlock):
    """A transaction for a `with` block; commits when the block ends without an error."""

    __slots__ = ()

    def __enter__(self) -> Transaction:
        tx = super().__enter__()
        if agent := current_call().agent:
            try:
                agent.require_valid(tx)  # in the transaction itself: the attempt may have ended just now
            except BaseException as refusal:
                self.__exit__(type(refusal), refusal, refusal.__traceback__)
                raise
        return tx

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if error is None:
            self._database.announce_changes(self._tx)

    def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                self._database.record_changes(self._tx)
            except BaseException as failure:
                self._session.__exit__(type(failure), failure, failure.__traceback__)
                raise
        self._session.__exit__(kind, error, trace)


class join_transaction:  # noqa: N801 - used like a function
    """Make every transaction opened inside the block join this one.

    A call has one commit, although the tool opens transactions itself: with an idempotency key, the key,
    the effect and the answer must be stored together, and the audit entry must contain the answer's outcome.
    So the commit, and the actions after it, may come only after the tool has returned its answer.
    """

    __slots__ = ("_token", "_tx")

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def __enter__(self) -> None:
        self._token = _joined.set(self._tx)

    def __exit__(self, *error: object) -> None:
        _joined.reset(self._token)
