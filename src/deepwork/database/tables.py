"""Tables as data: which there are, in which order they are filled, and where two copies of one differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from itertools import groupby, zip_longest
from typing import Any, Protocol

from deepwork.errors import StorageError

Values = tuple[Any, ...]
"""One row, in the order of the table's columns."""

VERSION_TABLE = "alembic_version"
COUNTER_TABLE = "event_sequence"


@dataclass(frozen=True)
class Table:
    """One table, as the database itself describes it."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    """The primary key. What has none counts or leads to what the other tables hold."""
    refers_to: frozenset[str] = frozenset()
    """Tables whose rows must be there first."""
    words: frozenset[str] = frozenset()
    """Columns that a database keeps in a form of its own, to find words by; they are read as plain words."""

    @property
    def known_by(self) -> tuple[str, ...]:
        """The columns that tell a row from the others."""
        wanted = self.key or set(self.columns) - self.words
        return tuple(column for column in self.columns if column in wanted)

    def named(self, known: Values) -> str:
        """A row as one may look it up."""
        facts = (f"{column} {value!r}" for column, value in zip(self.known_by, known, strict=True))
        return f"{self.name} with {', '.join(facts)}"


class Tables(Protocol):
    """All rows of one database, seen through one transaction."""

    def version(self) -> str | None:
        """The schema's version; None where deepwork has made no tables yet."""

    def all(self) -> list[Table]:
        """Every table, by the database's own catalogue: a table of tomorrow is there too."""

    def count(self, table: str) -> int: ...

    def size(self) -> dict[str, int]:
        """How many bytes are kept, and where."""

    def take_time(self) -> None:
        """Put away the limits that keep an ordinary call short."""

    def keep_others_out(self, tables: Sequence[Table]) -> None:
        """From now to the end of the transaction, nobody else writes; whoever reads sees what was there."""

    def rows(self, table: Table) -> Iterator[Values]:
        """Every row by its key, in an order that all databases agree on, without holding them all."""

    def clear(self, tables: Sequence[Table]) -> None: ...

    def fill(self, table: Table, rows: Iterable[Values]) -> None: ...

    def as_kept(self, table: Table, rows: Iterator[Values]) -> Iterator[Values]:
        """The rows as this database would give them back."""


def in_order(tables: Iterable[Table]) -> list[Table]:
    """The tables, each after those it refers to."""
    by_name = {table.name: table for table in tables}
    before = {name: table.refers_to - {name} for name, table in sorted(by_name.items())}
    return [by_name[name] for name in TopologicalSorter(before).static_order()]


def paired(source: Sequence[Table], target: Sequence[Table]) -> list[Table]:
    """The tables of two databases of one schema, described so that both read their rows alike."""
    there = {table.name: table for table in target}
    if unlike := sorted({table.name for table in source} ^ set(there)):
        raise _unlike(unlike)
    return in_order(_alike(table, there[table.name]) for table in source)


def _alike(one: Table, other: Table) -> Table:
    if set(one.columns) != set(other.columns):
        raise _unlike([one.name])
    return replace(one, words=one.words | other.words)


def _unlike(names: Sequence[str]) -> StorageError:
    return StorageError(
        f"The two databases do not have the same tables: {', '.join(names)}.",
        suggestion="Move tables that are not deepwork's elsewhere, then call again.",
    )


def first_difference(table: Table, one: Iterable[Values], other: Iterable[Values]) -> Values | None:
    """What the first row is known by that is not the same in both; both come in one order."""
    for mine, theirs in zip_longest(_known(table, one), _known(table, other)):
        if mine != theirs:
            known: Values = (mine or theirs)[0]
            return known
    return None


def _known(table: Table, rows: Iterable[Values]) -> Iterator[tuple[Values, list[Values]]]:
    places = [table.columns.index(column) for column in table.known_by]
    for known, those in groupby(rows, key=lambda row: tuple(row[place] for place in places)):
        # Without a primary key several rows may share what they are known by, and come in any order.
        yield known, sorted(those, key=repr)
