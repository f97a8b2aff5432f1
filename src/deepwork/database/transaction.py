"""Transactions: what a store reads and writes through, and the events they leave behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from deepwork.database import statements
from deepwork.database.call import current_call
from deepwork.database.engine import Connection, Cursor, Engine, Listener, Row, UnreadableRow
from deepwork.database.fulltext import FullText
from deepwork.errors import StorageError

Clock = Callable[[], int]


@dataclass(frozen=True)
class Happening:
    """A fact to be told once its transaction is stored."""

    type: str
    data: Mapping[str, Any]
    workflow_id: str | None = None


@dataclass
class Transaction:
    """One tool call's view of the database; all of it happens, or nothing does."""

    _connection: Connection
    _engine: Engine
    _clock: Clock | None = None
    happenings: list[Happening] = field(default_factory=list)
    remarks: dict[str, str] = field(default_factory=dict)
    taken_back: set[str] = field(default_factory=set)
    _afterwards: list[Callable[[], None]] = field(default_factory=list)

    @cached_property
    def now(self) -> int:
        """When this transaction happens, in Unix milliseconds on the database's clock."""
        return self._clock() if self._clock else self._engine.now(self._connection)

    @property
    def row_lock(self) -> str:
        """Ends a SELECT whose rows nobody else may change until we are done."""
        return self._engine.row_lock

    @property
    def free_rows(self) -> str:
        """As `row_lock`, leaving out rows that somebody else holds."""
        return self._engine.free_rows

    @property
    def full_text(self) -> FullText:
        """How this database finds words."""
        return self._engine.full_text

    @property
    def caller(self) -> str:
        """On whose behalf this is done."""
        return current_call().caller

    def run(self, sql: str, /, **values: Any) -> int:
        """Carry out a statement; the number of rows it touched."""
        return self._execute(sql, values).rowcount

    def one(self, sql: str, /, **values: Any) -> Row | None:
        """The first row, if there is one."""
        return self._execute(sql, values).fetchone()

    def all(self, sql: str, /, **values: Any) -> list[Row]:
        """Every row."""
        return self._execute(sql, values).fetchall()

    def value(self, sql: str, /, **values: Any) -> Any:
        """The first column of the first row, if there is one."""
        row = self.one(sql, **values)
        return None if row is None else next(iter(row.values()))

    def insert(self, table: str, row: Mapping[str, Any]) -> None:
        """Add one row."""
        self._execute(statements.insertion(table, tuple(row)), row)

    def insert_all(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add many rows at once."""
        if rows:
            self.run_all(statements.insertion(table, tuple(rows[0])), rows)

    def run_all(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Carry out a statement once for each of these rows of values."""
        if rows:
            text, _ = statements.prepared(sql, rows[0], self._engine.placeholder)
            self._connection.cursor().executemany(text, rows)

    def update(self, table: str, id: str, changes: Mapping[str, Any]) -> None:
        """Change columns of the row with this id."""
        if changes:
            self._execute(statements.update(table, tuple(changes)), {**changes, "id": id})

    def emit(self, type: str, data: Mapping[str, Any], workflow_id: str | None = None) -> None:
        """Tell a fact, once, when and only if this transaction is stored."""
        self.happenings.append(Happening(type, data, workflow_id))

    def afterwards(self, act: Callable[[], None]) -> None:
        """Once all this is stored, do what no transaction may wait for, such as running a program."""
        self._afterwards.append(act)

    def remark(self, key: str, text: str) -> None:
        """Something that was found out afterwards, to be told with the answer."""
        self.remarks[key] = " ".join(filter(None, [self.remarks.get(key), text]))

    def take_back(self, *keys: str) -> None:
        """What the answer says under these keys turned out not to be so."""
        self.taken_back.update(keys)

    def follow_up(self) -> None:
        """It is stored: do what was put off until now."""
        for act in self._afterwards:
            act()

    def _execute(self, sql: str, values: Mapping[str, Any]) -> Cursor:
        return self._connection.execute(*statements.prepared(sql, values, self._engine.placeholder))


EventLog = Callable[[Transaction, Sequence[Happening]], None]

_joined: ContextVar[Transaction | None] = ContextVar("deepwork_joined_transaction", default=None)


class Database:
    """Everything deepwork remembers beside plain files."""

    def __init__(self, engine: Engine, record: EventLog, clock: Clock | None = None) -> None:
        """`record` appends events to the log; `clock` replaces the database's own in tests."""
        self.engine = engine
        self._record = record
        self._clock = clock
        self._is_prepared = False
        self._preparing = threading.Lock()
        self.followers: list[Callable[[Sequence[Happening]], None]] = []
        """Who in this process acts on what was stored, before it is answered."""

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Read and write; stored, with its events, when the block ends without an error."""
        if outer := _joined.get():
            yield outer
            return
        with self._explained():
            self._prepare()
            with self.engine.writing() as connection:
                tx = Transaction(connection, self.engine, self._clock)
                yield tx
                if tx.happenings:
                    self._record(tx, tx.happenings)
                    self.engine.announce(connection)
                if note := current_call().note:
                    note(tx)  # after the events: whoever takes both locks takes them in this order
        if tx.happenings:
            self.engine.announced()
        tx.follow_up()
        for hear in self.followers if tx.happenings else ():
            hear(tx.happenings)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Read only: one unchanging view, and no waiting for writers."""
        if outer := _joined.get():
            yield outer
            return
        with self._explained():
            self._prepare()
            with self.engine.reading() as connection:
                yield Transaction(connection, self.engine, self._clock)

    def listen(self) -> Listener:
        """Start to notice events of any process."""
        with self._explained():
            self._prepare()
            return self.engine.listen()

    def close(self) -> None:
        self.engine.close()

    def _prepare(self) -> None:
        if not self._is_prepared:
            with self._preparing:
                if not self._is_prepared:
                    self.engine.prepare()
                    self._is_prepared = True

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except UnreadableRow as error:
            raise StorageError(
                f"{self.engine.name} holds a row that cannot be read; nothing was changed.",
                suggestion="Run `deepwork doctor`, and put the newest backup in its place.",
            ) from error
        except Exception as error:
            if explained := self.engine.explain(error):
                raise explained from error
            raise


@contextmanager
def joining(tx: Transaction) -> Iterator[None]:
    """For the time of the block, every transaction asked for is this one."""
    token = _joined.set(tx)
    try:
        yield
    finally:
        _joined.reset(token)
