"""Copies a whole store into another, from and to SQLite or PostgreSQL.

The source is read in one consistent snapshot. The target is filled, and compared with the source row by row,
in one transaction: if anything fails before its commit, the target is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from deepwork.kernel.database import schema
from deepwork.kernel.database.engine import Connection, Engine
from deepwork.kernel.database.store_key import TABLE as KEY_TABLE
from deepwork.kernel.database.tables import (
    VERSION_TABLE,
    Table,
    TableStore,
    Values,
    find_first_difference,
    match_tables,
)
from deepwork.kernel.errors import NotAllowed, StorageError
from deepwork.kernel.records import dataclass

Counts = Mapping[str, int]
"""How many rows each table has."""
MakeRoom = Callable[[Engine, Counts], None]
ReportProgress = Callable[[str, int, int], None]
"""Receives the current step, the number of rows done, and the total."""
_REPORT_EVERY = 500
NOT_COUNTED = frozenset({VERSION_TABLE, KEY_TABLE})
"""Tables that say what the store is; the key is written in the form of its own database."""


@dataclass(frozen=True)
class CopyResult:
    """The schema version and row counts of a copy."""

    schema: str
    rows: Counts


def refuse_nonempty(target: Engine, counts: Counts) -> None:
    """Raise NotAllowed, because the target holds data."""
    raise NotAllowed(
        f"{target.name} is not empty: it holds {format_counts(counts)}.",
        suggestion="Name an empty or new store.",
    )


def ignore_progress(what: str, done: int, total: int) -> None:
    """Discard a progress report."""


def copy_store(
    source: Engine,
    target: Engine,
    make_room: MakeRoom = refuse_nonempty,
    report: ReportProgress = ignore_progress,
) -> CopyResult:
    """Copy every row of every table, and verify the copy.

    If the target holds data, `make_room` is called, once other writers are locked out; if it returns without
    an error, the target is emptied.
    """
    with _inspect(source) as (origin, given):
        version, offered = require_current_schema(given, source), given.list_tables()
        rows = {table.name: given.count(table.name) for table in offered if table.name not in NOT_COUNTED}
        key = source.read_store_key(origin)
        _prepare_target(target)
        with translate_errors(target), target.writing() as connection:
            taken = target.open_tables(connection)
            tables = [each for each in match_tables(offered, taken.list_tables()) if each.name != KEY_TABLE]
            taken.lift_time_limits()
            taken.lock_tables(tables)
            if counts := count_stored_rows(taken):
                make_room(target, counts)
            total = sum(rows.values())
            _fill(source, given, taken, tables, _ProgressCounter("Copying", total, report))
            _compare(source, given, taken, tables, _ProgressCounter("Comparing", total, report))
            target.write_store_key(connection, key)  # of another store: tokens stay valid in the copy
            target.notify_in_transaction(connection)
    target.notify_after_commit()
    return CopyResult(version, rows)


@contextmanager
def inspect_tables(store: Engine) -> Iterator[TableStore]:
    """Yield the tables of a store in one consistent snapshot, without creating or migrating anything."""
    with _inspect(store) as (_, tables):
        yield tables


@contextmanager
def _inspect(store: Engine) -> Iterator[tuple[Connection, TableStore]]:
    require_store_exists(store)
    with translate_errors(store), store.reading() as connection:
        tables = store.open_tables(connection)
        tables.lift_time_limits()
        yield connection, tables


def require_store_exists(store: Engine) -> None:
    """Raise if the store does not exist, instead of creating it."""
    if not store.exists():
        raise StorageError(f"There is no store at {store.name}.", suggestion="See `deepwork db info`.")


def require_current_schema(tables: TableStore, store: Engine) -> str:
    """Return the store's schema version; raises unless it is this program's."""
    version = tables.read_version()
    if version is None:
        raise StorageError(
            f"{store.name} is not a deepwork store.", suggestion="Name a store; see `deepwork db info`."
        )
    if schema.is_behind(version, store.name):
        raise NotAllowed(
            f"{store.name} has schema {version}; this version of deepwork copies only schema {schema.HEAD}.",
            suggestion="Open it once to migrate it: `deepwork agents list --db …`.",
        )
    return version


@contextmanager
def translate_errors(store: Engine) -> Iterator[None]:
    """Convert errors of the store's driver to StorageError."""
    try:
        yield
    except Exception as error:
        if ours := store.to_storage_error(error):
            raise ours from error
        raise


def count_stored_rows(tables: TableStore) -> Counts:
    """Count the rows of each non-empty table, without the version and the counters of a new store."""
    names = [table.name for table in tables.list_tables() if table.key and table.name != VERSION_TABLE]
    return {name: count for name in names if (count := tables.count(name))}


def format_counts(counts: Counts) -> str:
    """Format the three largest counts for a sentence."""
    most = sorted(counts.items(), key=lambda each: -each[1])
    named = [f"{count} {'row' if count == 1 else 'rows'} in {table}" for table, count in most[:3]]
    return ", ".join(named + [f"and {len(most) - 3} more tables"] * (len(most) > 3))


def _prepare_target(target: Engine) -> None:
    """Create the tables of a new target; raises if an existing one has another schema."""
    if target.exists():
        with inspect_tables(target) as tables:
            if tables.read_version() is not None:
                require_current_schema(tables, target)
            elif others := tables.list_tables():
                names = ", ".join(table.name for table in others[:3])
                raise NotAllowed(
                    f"{target.name} holds tables that are not deepwork's: {names}.",
                    suggestion="Name an empty or new store.",
                )
    with translate_errors(target):
        target.prepare()


class _ProgressCounter:
    """Counts rows as they pass and reports progress."""

    def __init__(self, what: str, total: int, report: ReportProgress) -> None:
        self._what, self._total, self._report = what, total, report
        self._done = 0
        report(what, 0, total)

    def count(self, rows: Iterator[Values]) -> Iterator[Values]:
        for row in rows:
            yield row
            self._done += 1
            if self._done % _REPORT_EVERY == 0:
                self._report(self._what, self._done, self._total)


def _fill(
    source: Engine, given: TableStore, target: TableStore, tables: list[Table], counting: _ProgressCounter
) -> None:
    target.clear(tables[::-1])
    for table in tables:
        target.fill(table, counting.count(_read_rows(source, given, table)))


def _compare(
    source: Engine, given: TableStore, target: TableStore, tables: list[Table], counting: _ProgressCounter
) -> None:
    for table in tables:
        expected = target.to_stored_form(table, counting.count(_read_rows(source, given, table)))
        known = find_first_difference(table, expected, target.read_rows(table))
        if known is not None:
            raise StorageError(
                f"The copy differs from {source.name} in {table.format_row(known)}; the copy was discarded.",
                suggestion="Run `deepwork doctor` on both stores, fix what it finds, then copy again.",
            )


def _read_rows(source: Engine, given: TableStore, table: Table) -> Iterator[Values]:
    """Read rows of the source; reading errors are attributed to it, not to the target."""
    with translate_errors(source):
        yield from given.read_rows(table)
