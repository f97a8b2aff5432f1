"""A summary of a store, read without changing it."""

from __future__ import annotations

from typing import Any

from deepwork.kernel.database.engine import Engine
from deepwork.kernel.database.tables import COUNTER_TABLE, VERSION_TABLE, TableStore
from deepwork.kernel.records import dataclass
from deepwork.kernel.store_admin.copying import Counts, inspect_tables, translate_errors


@dataclass(frozen=True)
class StoreOverview:
    """The contents of a store, and the processes that have it open."""

    schema: str | None
    size: dict[str, int]
    last_event: int | None
    rows: Counts
    open_elsewhere: list[str] | None
    """None if that cannot be determined."""


def load_overview(store: Engine) -> StoreOverview | None:
    """Read the overview of a store; None if it does not exist yet."""
    if not store.exists():
        return None
    with translate_errors(store):
        others = store.list_other_processes()  # before we open anything that would be counted
    with inspect_tables(store) as tables:
        names = [table.name for table in tables.list_tables() if table.name != VERSION_TABLE]
        rows = {name: tables.count(name) for name in names if name != COUNTER_TABLE}
        last = _find_last_event(tables) if COUNTER_TABLE in names else None
        return StoreOverview(tables.read_version(), tables.measure_size(), last, rows, others)


def _find_last_event(tables: TableStore) -> int | None:
    [counter] = [table for table in tables.list_tables() if table.name == COUNTER_TABLE]
    row: tuple[Any, ...] | None = next(tables.read_rows(counter), None)
    return int(row[0]) if row else None
