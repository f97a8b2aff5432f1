"""Copy a whole store into another: SQLite or PostgreSQL, to either.

The source is read in one unchanging view. The target is filled, and compared with the source row by row, in
one transaction: whatever happens before its commit, the target is as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from deepwork.database import schema
from deepwork.database.engine import Engine
from deepwork.database.tables import (
    VERSION_TABLE,
    Table,
    Tables,
    Values,
    first_difference,
    paired,
)
from deepwork.errors import NotAllowed, StorageError

Counts = Mapping[str, int]
"""How many rows each table has."""
MakeRoom = Callable[[Engine, Counts], None]
Report = Callable[[str, int, int], None]
"""Hears what is being done, how many rows of it are done, and of how many."""
_OFTEN = 500


@dataclass(frozen=True)
class Copied:
    """What a copy holds."""

    schema: str
    rows: Counts


def refuse(target: Engine, counts: Counts) -> None:
    """A target that holds something stays as it is."""
    raise NotAllowed(
        f"{target.name} is not empty: it holds {told(counts)}.", suggestion="Name an empty or new one."
    )


def untold(what: str, done: int, total: int) -> None:
    """Nobody waits for it."""


def copy(source: Engine, target: Engine, make_room: MakeRoom = refuse, report: Report = untold) -> Copied:
    """Copy every row of every table, and make sure that it arrived.

    A target that holds something is emptied if `make_room` lets it; that is asked when nobody else can
    write to it any more.
    """
    with looking_into(source) as given:
        version, offered = require_current(given, source), given.all()
        rows = {table.name: given.count(table.name) for table in offered if table.name != VERSION_TABLE}
        _make_ready(target)
        with explained(target), target.writing() as connection:
            taken = target.tables(connection)
            tables = paired(offered, taken.all())
            taken.take_time()
            taken.keep_others_out(tables)
            if counts := held(taken):
                make_room(target, counts)
            total = sum(rows.values())
            _fill(source, given, taken, tables, _Counting("Copying", total, report))
            _compare(source, given, taken, tables, _Counting("Comparing", total, report))
            target.announce(connection)
    target.announced()
    return Copied(version, rows)


@contextmanager
def looking_into(store: Engine) -> Iterator[Tables]:
    """All tables of a store, in one unchanging view; nothing is made, nothing is brought forward."""
    require_made(store)
    with explained(store), store.reading() as connection:
        tables = store.tables(connection)
        tables.take_time()
        yield tables


def require_made(store: Engine) -> None:
    """Nobody makes a store by looking for one."""
    if not store.is_made():
        raise StorageError(f"There is no store at {store.name}.", suggestion="See `deepwork db info`.")


def require_current(tables: Tables, store: Engine) -> str:
    """The version of a store that is of this program's schema; any other is refused."""
    version = tables.version()
    if version is None:
        raise StorageError(
            f"{store.name} is no store of deepwork.", suggestion="Name a store; see `deepwork db info`."
        )
    if schema.is_behind(version, store.name):
        raise NotAllowed(
            f"{store.name} has schema {version}; this deepwork copies stores of schema {schema.HEAD}.",
            suggestion="Open it once, which brings it forward: `deepwork agents list --db …`.",
        )
    return version


@contextmanager
def explained(store: Engine) -> Iterator[None]:
    """What the store's driver says went wrong, in our words."""
    try:
        yield
    except Exception as error:
        if ours := store.explain(error):
            raise ours from error
        raise


def held(tables: Tables) -> Counts:
    """What a store remembers: rows by table, without the version and the counters of a new store."""
    names = [table.name for table in tables.all() if table.key and table.name != VERSION_TABLE]
    return {name: count for name in names if (count := tables.count(name))}


def told(counts: Counts) -> str:
    """What there is most of, for a sentence."""
    most = sorted(counts.items(), key=lambda each: -each[1])
    named = [f"{count} {'row' if count == 1 else 'rows'} in {table}" for table, count in most[:3]]
    return ", ".join(named + [f"and {len(most) - 3} more tables"] * (len(most) > 3))


def _make_ready(target: Engine) -> None:
    """Make the tables of a new target; one that is not as we would make it is refused, not changed."""
    if target.is_made():
        with looking_into(target) as tables:
            if tables.version() is not None:
                require_current(tables, target)
            elif others := tables.all():
                names = ", ".join(table.name for table in others[:3])
                raise NotAllowed(
                    f"{target.name} holds tables that are not deepwork's: {names}.",
                    suggestion="Name an empty or new one.",
                )
    with explained(target):
        target.prepare()


class _Counting:
    """Rows on their way, counted for whoever waits."""

    def __init__(self, what: str, total: int, report: Report) -> None:
        self._what, self._total, self._report = what, total, report
        self._done = 0
        report(what, 0, total)

    def passing(self, rows: Iterator[Values]) -> Iterator[Values]:
        for row in rows:
            yield row
            self._done += 1
            if self._done % _OFTEN == 0:
                self._report(self._what, self._done, self._total)


def _fill(source: Engine, given: Tables, target: Tables, tables: list[Table], counting: _Counting) -> None:
    target.clear(tables[::-1])
    for table in tables:
        target.fill(table, counting.passing(_rows(source, given, table)))


def _compare(source: Engine, given: Tables, target: Tables, tables: list[Table], counting: _Counting) -> None:
    for table in tables:
        expected = target.as_kept(table, counting.passing(_rows(source, given, table)))
        known = first_difference(table, expected, target.rows(table))
        if known is not None:
            raise StorageError(
                f"The copy differs from {source.name} in {table.named(known)}; nothing was kept.",
                suggestion="Run `deepwork doctor` on both stores, mend what it finds, then copy again.",
            )


def _rows(source: Engine, given: Tables, table: Table) -> Iterator[Values]:
    """The rows to be copied; what goes wrong in reading them is the source's, not the target's."""
    with explained(source):
        yield from given.rows(table)
