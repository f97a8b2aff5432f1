"""REST endpoint for the state of the server: version, store, and the processes that have it open."""

from __future__ import annotations

import json
import os
from typing import Any

from deepwork import __version__
from deepwork.kernel.answers import Answer
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.events.log import RETENTION_MS, EventStore
from deepwork.kernel.store_admin.store_overview import load_overview
from deepwork.kernel.values import format_timestamp
from deepwork.work.tracking.watch_store import WatchStore

_DAY_MS = 24 * 3600 * 1000


class Process(Answer):
    name: str
    is_this: bool | None = None


class EventFacts(Answer):
    last_seq: int
    oldest_seq: int
    kept_days: int


class SnapshotFacts(Answer):
    """How the last snapshot of the working tree was taken, and how long it took."""

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


def read_server_status(database: Database, started_at: int) -> Status:
    """Read the server's current state."""
    with database.reading() as tx:
        store, now = EventStore(tx), tx.now
        events = EventFacts(
            last_seq=store.get_last_seq(),
            oldest_seq=store.get_oldest_seq(),
            kept_days=RETENTION_MS // _DAY_MS,
        )
        snapshot = WatchStore(tx).find_last_snapshot()
    summary = load_overview(database.engine)
    others = summary.open_elsewhere if summary else None
    here = Process(name=f"pid {os.getpid()}", is_this=True)
    return Status(
        version=__version__,
        started_at=format_timestamp(started_at),
        now=format_timestamp(now),
        database={
            "kind": "postgresql" if "://" in database.engine.address else "sqlite",
            "location": database.engine.name,
            "size_bytes": sum(summary.size.values()) if summary else 0,
            "schema": summary.schema if summary else None,
        },
        processes=None if others is None else [here, *(Process(name=each) for each in others)],
        events=events,
        snapshots=_parse_snapshot_facts(snapshot),
        counts=dict(summary.rows) if summary else {},
    )


def _parse_snapshot_facts(text: str | None) -> SnapshotFacts:
    """Parse the last stored snapshot, if there is one."""
    if text is None:
        return SnapshotFacts(mode="none")
    snapshot = json.loads(text)
    return SnapshotFacts(mode=snapshot["kind"], last_ms=snapshot.get("ms"))
