"""Descriptions of tables: their order by reference, and the comparison of two copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from itertools import groupby, zip_longest
from typing import Any, Protocol

from deepwork.kernel.errors import StorageError
from deepwork.kernel.records import dataclass

Values = tuple[Any, ...]
"""One row, in the order of the table's columns."""

VERSION_TABLE = "alembic_version"
COUNTER_TABLE = "event_sequence"


@dataclass(frozen=True)
class Table:
    """One table, as described by the database's catalogue."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    """The primary key. Tables without one are counters or search indexes over the other tables."""
    refers_to: frozenset[str] = frozenset()
    """Tables that foreign keys refer to, and that must be filled first."""
    words: frozenset[str] = frozenset()
    """Full-text columns, which a database stores in its own form; they are read as plain words."""

    @property
    def identifying_columns(self) -> tuple[str, ...]:
        """The columns that identify a row."""
        wanted = self.key or set(self.columns) - self.words
        return tuple(column for column in self.columns if column in wanted)

    def format_row(self, known: Values) -> str:
        """Describe a row by its identifying values."""
        facts = (f"{column} {value!r}" for column, value in zip(self.identifying_columns, known, strict=True))
        return f"{self.name} with {', '.join(facts)}"


class TableStore(Protocol):
    """Access to all tables of one database through one transaction."""

    def read_version(self) -> str | None:
        """Return the schema version; None if the database has no deepwork tables."""

    def list_tables(self) -> list[Table]:
        """List every table in the database's catalogue, so that new tables are included automatically."""

    def count(self, table: str) -> int: ...

    def measure_size(self) -> dict[str, int]:
        """Return the size in bytes, by part."""

    def lift_time_limits(self) -> None:
        """Disable the time limits of ordinary calls."""

    def lock_tables(self, tables: Sequence[Table]) -> None:
        """Block other writers until the transaction ends; readers see the old data."""

    def read_rows(self, table: Table) -> Iterator[Values]:
        """Iterate over all rows by key, in an order that is the same in all databases."""

    def clear(self, tables: Sequence[Table]) -> None: ...

    def fill(self, table: Table, rows: Iterable[Values]) -> None: ...

    def to_stored_form(self, table: Table, rows: Iterator[Values]) -> Iterator[Values]:
        """Convert rows to the form in which this database would return them."""


def sort_by_reference(tables: Iterable[Table]) -> list[Table]:
    """Sort the tables so that each comes after those it refers to."""
    by_name = {table.name: table for table in tables}
    before = {name: table.refers_to - {name} for name, table in sorted(by_name.items())}
    return [by_name[name] for name in TopologicalSorter(before).static_order()]


def match_tables(source: Sequence[Table], target: Sequence[Table]) -> list[Table]:
    """Match the tables of two databases, sorted by reference; raises if they differ."""
    there = {table.name: table for table in target}
    if unlike := sorted({table.name for table in source} ^ set(there)):
        raise _build_mismatch_error(unlike)
    return sort_by_reference(_merge_tables(table, there[table.name]) for table in source)


def _merge_tables(one: Table, other: Table) -> Table:
    if set(one.columns) != set(other.columns):
        raise _build_mismatch_error([one.name])
    return replace(one, words=one.words | other.words)


def _build_mismatch_error(names: Sequence[str]) -> StorageError:
    return StorageError(
        f"The two databases do not have the same tables: {', '.join(names)}.",
        suggestion="Move tables that are not deepwork's elsewhere, then call again.",
    )


def find_first_difference(table: Table, one: Iterable[Values], other: Iterable[Values]) -> Values | None:
    """Return the identifying values of the first row that differs; both iterables have the same order."""
    for mine, theirs in zip_longest(_group_rows(table, one), _group_rows(table, other)):
        if mine != theirs:
            known: Values = (mine or theirs)[0]
            return known
    return None


def _group_rows(table: Table, rows: Iterable[Values]) -> Iterator[tuple[Values, list[Values]]]:
    places = [table.columns.index(column) for column in table.identifying_columns]
    for known, those in groupby(rows, key=lambda row: tuple(row[place] for place in places)):
        # Without a primary key several rows may have the same identifying values, in any order.
        yield known, sorted(those, key=repr)
