"""Counts the SQL statements that stores execute and the rows they read, so that tests need no clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from deepwork.kernel.database.transaction import Transaction


class StatementCounter:
    """The statements executed and the rows read inside a `count_statements` block."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.rows = 0

    @property
    def count(self) -> int:
        return len(self.statements)


@contextmanager
def count_statements() -> Iterator[StatementCounter]:
    """Count the statements of all transactions; those that begin and end a transaction do not count."""
    counter = StatementCounter()
    with (
        patch.object(Transaction, "_execute", _record(counter, Transaction._execute)),
        patch.object(Transaction, "_query", _record(counter, Transaction._query)),
        patch.object(Transaction, "execute_many", _record(counter, Transaction.execute_many)),
        patch.object(Transaction, "insert_tuples", _record_insert(counter, Transaction.insert_tuples)),
        patch.object(Transaction, "fetch_all", _count_rows(counter, Transaction.fetch_all)),
        patch.object(Transaction, "fetch_one", _count_rows(counter, Transaction.fetch_one)),
    ):
        yield counter


def _record(counter: StatementCounter, execute: Any) -> Any:
    def execute_recorded(tx: Transaction, sql: str, values: Any) -> Any:
        if values or execute is not Transaction.execute_many:
            counter.statements.append(" ".join(sql.split()))
        return execute(tx, sql, values)

    return execute_recorded


def _record_insert(counter: StatementCounter, insert: Any) -> Any:
    def insert_recorded(tx: Transaction, table: str, columns: Any, rows: Any) -> None:
        if rows:
            counter.statements.append(f"INSERT INTO {table}")
        insert(tx, table, columns, rows)

    return insert_recorded


def _count_rows(counter: StatementCounter, fetch: Any) -> Any:
    def fetch_counted(tx: Transaction, sql: str, /, **values: Any) -> Any:
        found = fetch(tx, sql, **values)
        counter.rows += len(found) if isinstance(found, list) else found is not None
        return found

    return fetch_counted
