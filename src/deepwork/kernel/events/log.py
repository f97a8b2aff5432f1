"""The event log: events are appended just before the commit and numbered without gaps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import PendingEvent, Transaction
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import format_timestamp

RETENTION_MS = 30 * 24 * 3600 * 1000
MAX_TEXT = 2048
MAX_DATA = 64 * 1024
CLEANUP_INTERVAL = 500


@dataclass(frozen=True)
class Event:
    """One event, as clients receive it."""

    seq: int
    type: str
    ts: str
    workflow_id: str | None
    data: dict[str, Any]


def append_events(tx: Transaction, events: Sequence[PendingEvent]) -> None:
    """Append the events of one transaction.

    The counter's row stays locked until the commit, so numbers become visible in order: a reader that sees
    one event sees all before it. The lock is taken last so that other writers wait as briefly as possible.
    """
    sql = "UPDATE event_sequence SET last_seq = last_seq + :count RETURNING last_seq"
    last = _parse_seq(tx.fetch_one(sql, count=len(events)) or {})
    first = last - len(events) + 1
    tx.insert_many("events", [_build_row(first + place, it, tx.now) for place, it in enumerate(events)])
    if first // CLEANUP_INTERVAL != (last + 1) // CLEANUP_INTERVAL:
        tx.execute("DELETE FROM events WHERE ts < :cutoff", cutoff=tx.now - RETENTION_MS)


class EventStore:
    """Reads the event log."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_after(self, seq: int, limit: int, workflow_id: str | None = None) -> list[Event]:
        """List the next events after a number."""
        of_workflow = " AND workflow_id = :workflow_id" if workflow_id else ""
        sql = f"SELECT * FROM events WHERE seq > :seq{of_workflow} ORDER BY seq LIMIT :limit"  # noqa: S608
        rows = self._tx.fetch_all(sql, seq=seq, limit=limit, workflow_id=workflow_id)
        return [_parse_event(row) for row in rows]

    def get_last_seq(self) -> int:
        """Return the newest event number."""
        return _parse_seq(self._tx.fetch_one("SELECT last_seq FROM event_sequence") or {})

    def get_oldest_seq(self) -> int:
        """Return the oldest stored event number; one more than the newest if none is stored."""
        sql = "SELECT coalesce(min(seq), :after) AS last_seq FROM events"
        row = self._tx.fetch_one(sql, after=self.get_last_seq() + 1)
        return _parse_seq(row or {})


def truncate_texts(data: Any) -> Any:
    """Return the data with long strings truncated; clients read the full text through tools."""
    if isinstance(data, str):
        return data if len(data) <= MAX_TEXT else data[:MAX_TEXT] + "…"
    if isinstance(data, dict):
        return {key: truncate_texts(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [truncate_texts(value) for value in data]
    return data


def _build_row(seq: int, event: PendingEvent, now: int) -> Row:
    data = _dump_json(dict(event.data))
    if len(data) > MAX_TEXT:  # otherwise no text in it can be too long
        data = _dump_json(truncate_texts(dict(event.data)))
    if len(data) > MAX_DATA:
        data = _dump_json(_drop_large_values(event.data) | {"truncated": True})
    return {"seq": seq, "type": event.type, "workflow_id": event.workflow_id, "ts": now, "data": data}


def _drop_large_values(data: Mapping[str, Any]) -> dict[str, Any]:
    """Drop large values; ids and other short values remain."""
    return {key: value for key, value in data.items() if len(_dump_json(value)) <= MAX_TEXT}


_dump_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@row_parser
def _parse_seq(row: Row) -> int:
    return int(row["last_seq"])


@row_parser
def _parse_event(row: Row) -> Event:
    return Event(
        row["seq"], row["type"], format_timestamp(row["ts"]), row["workflow_id"], json.loads(row["data"])
    )
