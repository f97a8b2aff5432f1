"""The event log: each transaction's facts, appended just before its commit, numbered without gaps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from deepwork.database.engine import Row, stored
from deepwork.database.transaction import Happening, Transaction

KEPT_MS = 30 * 24 * 3600 * 1000
MAX_TEXT = 2048
MAX_DATA = 64 * 1024
CLEANED_EVERY = 500


@dataclass(frozen=True)
class Event:
    """One fact, as it is told to everybody."""

    seq: int
    type: str
    ts: str
    workflow_id: str | None
    data: dict[str, Any]


def record(tx: Transaction, happenings: Sequence[Happening]) -> None:
    """Append the facts of one transaction.

    The counter's row stays locked until the commit, so numbers appear in their order and a reader that has
    seen one has seen all before it. Taken last, to keep others waiting as briefly as can be.
    """
    sql = "UPDATE event_sequence SET last_seq = last_seq + :count RETURNING last_seq"
    last = _number(tx.one(sql, count=len(happenings)) or {})
    first = last - len(happenings) + 1
    tx.insert_all("events", [_row(first + place, it, tx.now) for place, it in enumerate(happenings)])
    if first // CLEANED_EVERY != (last + 1) // CLEANED_EVERY:
        tx.run("DELETE FROM events WHERE ts < :cutoff", cutoff=tx.now - KEPT_MS)


class EventStore:
    """Events, as rows."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def after(self, seq: int, limit: int, workflow_id: str | None = None) -> list[Event]:
        """The next events after this number."""
        of_workflow = " AND workflow_id = :workflow_id" if workflow_id else ""
        rows = self._tx.all(
            f"SELECT * FROM events WHERE seq > :seq{of_workflow} ORDER BY seq LIMIT :limit",  # noqa: S608
            seq=seq, limit=limit, workflow_id=workflow_id,
        )  # fmt: skip
        return [_event(row) for row in rows]

    def last(self) -> int:
        """The newest number given out."""
        return _number(self._tx.one("SELECT last_seq FROM event_sequence") or {})

    def oldest(self) -> int:
        """The oldest number still kept; one more than the newest where nothing is kept."""
        row = self._tx.one("SELECT coalesce(min(seq), :after) AS last_seq FROM events", after=self.last() + 1)
        return _number(row or {})


def bounded(data: Any) -> Any:
    """The same data with long texts cut: an event says what happened, the tools give the whole."""
    if isinstance(data, str):
        return data if len(data) <= MAX_TEXT else data[:MAX_TEXT] + "…"
    if isinstance(data, dict):
        return {key: bounded(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [bounded(value) for value in data]
    return data


def iso(milliseconds: int) -> str:
    """Unix milliseconds as ISO 8601 in UTC."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _row(seq: int, happening: Happening, now: int) -> Row:
    data = _text(bounded(dict(happening.data)))
    if len(data) > MAX_DATA:
        data = _text(_short(happening.data) | {"truncated": True})
    return {"seq": seq, "type": happening.type, "workflow_id": happening.workflow_id, "ts": now, "data": data}


def _short(data: Mapping[str, Any]) -> dict[str, Any]:
    """What is small enough of a thing that is too large: enough to know it by."""
    return {key: value for key, value in data.items() if len(_text(value)) <= MAX_TEXT}


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@stored
def _number(row: Row) -> int:
    return int(row["last_seq"])


@stored
def _event(row: Row) -> Event:
    return Event(row["seq"], row["type"], iso(row["ts"]), row["workflow_id"], json.loads(row["data"]))
