"""How the server itself is: its version, its store, who else has it open."""

from __future__ import annotations

import json
import os
from typing import Any

from deepwork import __version__
from deepwork.dashboard.moments import told
from deepwork.dashboard.task_row_store import TaskRowStore
from deepwork.database.overview import overview
from deepwork.database.transaction import Database
from deepwork.events.log import KEPT_MS, EventStore
from deepwork.shapes import Answer

_DAY_MS = 24 * 3600 * 1000


class Process(Answer):
    name: str
    is_this: bool | None = None


class EventFacts(Answer):
    last_seq: int
    oldest_seq: int
    kept_days: int


class SnapshotFacts(Answer):
    """How the working tree was last looked at, and how long that took."""

    mode: str
    last_ms: int | None = None


class Status(Answer):
    """The health of a server."""

    version: str
    started_at: str
    now: str
    database: dict[str, Any]
    processes: list[Process] | None = None
    events: EventFacts
    snapshots: SnapshotFacts
    counts: dict[str, int]


def status(database: Database, started_at: int) -> Status:
    """How it is at this moment."""
    with database.reading() as tx:
        store, now = EventStore(tx), tx.now
        events = EventFacts(last_seq=store.last(), oldest_seq=store.oldest(), kept_days=KEPT_MS // _DAY_MS)
        looked = TaskRowStore(tx).last_look()
    seen = overview(database.engine)
    others = seen.open_elsewhere if seen else None
    here = Process(name=f"pid {os.getpid()}", is_this=True)
    return Status(
        version=__version__, started_at=told(started_at), now=told(now),
        database={
            "kind": "postgresql" if "://" in database.engine.address else "sqlite",
            "location": database.engine.name,
            "size_bytes": sum(seen.size.values()) if seen else 0,
            "schema": seen.schema if seen else None,
        },
        processes=None if others is None else [here, *(Process(name=each) for each in others)],
        events=events, snapshots=_snapshots(looked), counts=dict(seen.rows) if seen else {},
    )  # fmt: skip


def _snapshots(looked: str | None) -> SnapshotFacts:
    """What is told of a look that is stored; where none was taken yet there is none to tell of."""
    if looked is None:
        return SnapshotFacts(mode="none")
    look = json.loads(looked)
    return SnapshotFacts(mode=look["kind"], last_ms=look.get("ms"))
