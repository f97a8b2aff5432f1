"""A store at a glance, without touching it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deepwork.database.copying import Counts, explained, looking_into
from deepwork.database.engine import Engine
from deepwork.database.tables import COUNTER_TABLE, VERSION_TABLE, Tables


@dataclass(frozen=True)
class Overview:
    """What a store holds, and who has it open."""

    schema: str | None
    size: dict[str, int]
    last_event: int | None
    rows: Counts
    open_elsewhere: list[str] | None
    """None where that cannot be told."""


def overview(store: Engine) -> Overview | None:
    """What there is to say of a store; None before anything was kept in it."""
    if not store.is_made():
        return None
    with explained(store):
        others = store.others()  # before we open anything that would be counted
    with looking_into(store) as tables:
        names = [table.name for table in tables.all() if table.name != VERSION_TABLE]
        rows = {name: tables.count(name) for name in names if name != COUNTER_TABLE}
        last = _last_event(tables) if COUNTER_TABLE in names else None
        return Overview(tables.version(), tables.size(), last, rows, others)


def _last_event(tables: Tables) -> int | None:
    [counter] = [table for table in tables.all() if table.name == COUNTER_TABLE]
    row: tuple[Any, ...] | None = next(tables.rows(counter), None)
    return int(row[0]) if row else None
