"""Transactions, through which stores read and write, and the events they emit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from deepwork.call import ActionOutcome, current_call
from deepwork.database import statements
from deepwork.database.engine import Connection, Cursor, Engine, Listener, Row, UnreadableRow
from deepwork.database.fulltext import FullText
from deepwork.errors import StorageError

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
    _after_commit: list[Action] = field(default_factory=list)

    @cached_property
    def now(self) -> int:
        """The transaction's time in Unix milliseconds, by the database's clock."""
        return self._clock() if self._clock else self._engine.now(self._connection)

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
    def caller(self) -> str:
        """The caller of the current tool call."""
        return current_call().caller

    def execute(self, sql: str, /, **values: Any) -> int:
        """Execute a statement and return the number of affected rows."""
        return self._execute(sql, values).rowcount

    def fetch_one(self, sql: str, /, **values: Any) -> Row | None:
        """Return the first row, if there is one."""
        return self._execute(sql, values).fetchone()

    def fetch_all(self, sql: str, /, **values: Any) -> list[Row]:
        """Return all rows."""
        return self._execute(sql, values).fetchall()

    def fetch_value(self, sql: str, /, **values: Any) -> Any:
        """Return the first column of the first row, if there is one."""
        row = self.fetch_one(sql, **values)
        return None if row is None else next(iter(row.values()))

    def insert(self, table: str, row: Mapping[str, Any]) -> None:
        """Insert one row."""
        self._execute(statements.build_insert(table, tuple(row)), row)

    def insert_many(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert many rows with one statement."""
        if rows:
            self.execute_many(statements.build_insert(table, tuple(rows[0])), rows)

    def execute_many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute a statement once for each row of values."""
        if rows:
            text, _ = statements.prepare_statement(sql, rows[0], self._engine.placeholder)
            self._connection.cursor().executemany(text, rows)

    def update(self, table: str, id: str, changes: Mapping[str, Any]) -> None:
        """Update columns of the row with this id."""
        if changes:
            self._execute(statements.build_update(table, tuple(changes)), {**changes, "id": id})

    def emit(self, type: str, data: Mapping[str, Any], workflow_id: str | None = None) -> None:
        """Emit an event, which is recorded only if this transaction commits."""
        self.pending_events.append(PendingEvent(type, data, workflow_id))

    def after_commit(self, action: Action) -> None:
        """Run the action after the commit and before the call's answer is sent.

        For work that is too slow for a transaction, such as git. The tool may have returned its answer by
        then; if the answer depends on the result, the action returns an outcome, which revises the answer.
        An action that raises fails the call, although the transaction is committed, and skips the actions
        after it. So it raises only after undoing the change; other problems are outcomes or are logged.
        """
        self._after_commit.append(action)

    def run_after_commit(self) -> None:
        """Run the actions in the order in which they were added; the current call collects their outcomes."""
        outcomes = current_call().outcomes
        for action in self._after_commit:
            outcome = action()
            if outcome is not None and outcomes is not None:
                outcomes.append(outcome)

    def _execute(self, sql: str, values: Mapping[str, Any]) -> Cursor:
        return self._connection.execute(*statements.prepare_statement(sql, values, self._engine.placeholder))


EventLog = Callable[[Transaction, Sequence[PendingEvent]], None]
EventHandler = Callable[[Sequence[PendingEvent]], ActionOutcome | None]

_joined: ContextVar[Transaction | None] = ContextVar("deepwork_joined_transaction", default=None)


class Database:
    """The store: opens transactions on an engine and records their events."""

    def __init__(self, engine: Engine, record: EventLog, clock: Clock | None = None) -> None:
        """`record` appends events to the log; `clock` replaces the database's own in tests."""
        self.engine = engine
        self._record = record
        self._clock = clock
        self.is_prepared = False
        self._preparing = threading.Lock()
        self._subscribers: list[tuple[Collection[str], EventHandler]] = []

    def subscribe(self, event_types: Collection[str], handler: EventHandler) -> None:
        """Call the handler after each commit that records events of these types, with those events.

        This lets a higher slice react to a lower one that must not import it. The handler is an action like
        those of `Transaction.after_commit`: it runs before the answer is sent, so the caller cannot change
        anything yet, and after the transaction's own actions, so that it finds what they created. It gets
        the commits of this process only, unlike `listen`.
        """
        self._subscribers.append((event_types, handler))

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction; commits, together with its events, when the block ends without an error.

        Inside `join_transaction` it joins the outer transaction: the block's end commits nothing then.
        """
        if outer := _joined.get():
            yield outer
            return
        with self._translate_errors():
            self._prepare()
            with self.engine.writing() as connection:
                tx = Transaction(connection, self.engine, self._clock)
                yield tx
                if tx.pending_events:
                    self._record(tx, tx.pending_events)
                    self.engine.notify_in_transaction(connection)
                if note := current_call().record:
                    note(tx)  # after the events: both locks are always taken in this order
        if tx.pending_events:
            self.engine.notify_after_commit()
            self._add_handlers(tx)
        tx.run_after_commit()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Open a read-only transaction: one consistent snapshot, without waiting for writers."""
        if outer := _joined.get():
            yield outer
            return
        with self._translate_errors():
            self._prepare()
            with self.engine.reading() as connection:
                yield Transaction(connection, self.engine, self._clock)

    def listen(self) -> Listener:
        """Start listening for events of any process."""
        with self._translate_errors():
            self._prepare()
            return self.engine.listen()

    def close(self) -> None:
        self.engine.close()

    def _add_handlers(self, tx: Transaction) -> None:
        for event_types, handler in self._subscribers:
            if events := [event for event in tx.pending_events if event.type in event_types]:
                tx.after_commit(partial(handler, events))

    def _prepare(self) -> None:
        if not self.is_prepared:
            with self._preparing:
                if not self.is_prepared:
                    self.engine.prepare()
                    self.is_prepared = True

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except UnreadableRow as error:
            raise StorageError(
                f"{self.engine.name} has a row that cannot be read; nothing was changed.",
                suggestion="Run `deepwork doctor`, then restore the newest backup.",
            ) from error
        except Exception as error:
            if explained := self.engine.to_storage_error(error):
                raise explained from error
            raise


@contextmanager
def join_transaction(tx: Transaction) -> Iterator[None]:
    """Make every transaction opened inside the block join this one.

    A call has one commit, although the tool opens transactions itself: with an idempotency key, the key,
    the effect and the answer must be stored together, and the audit entry must contain the answer's outcome.
    So the commit, and the actions after it, may come only after the tool has returned its answer.
    """
    token = _joined.set(tx)
    try:
        yield
    finally:
        _joined.reset(token)
