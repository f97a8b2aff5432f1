"""Queries for the events of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deepwork.kernel.database.engine import Row, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.timestamps import format_timestamp

MAX_REVIEWS = 500


class RunEventStore:
    """Reads the event log by run."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_page(
        self, run_id: str, *, types: Sequence[str] | None, before: int | None, after: int | None, limit: int
    ) -> list[Row]:
        """List events in order: the first ones after `after`, or the last ones before `before`."""
        direction = "ASC" if after is not None else "DESC"
        conditions = build_where(
            {
                "workflow_id = :id": run_id,
                "type IN :types": types,
                "seq < :before": before,
                "seq > :after": after,
            }
        )
        sql = (
            f"SELECT seq, type, ts, workflow_id, data FROM events {conditions}"
            f" ORDER BY seq {direction} LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, id=run_id, types=types, before=before, after=after, limit=limit)
        return sorted(map(_parse_event_row, rows), key=lambda event: event["seq"])

    def find_bounds(self, run_id: str, types: Sequence[str] | None) -> tuple[int | None, int]:
        """Return the oldest stored event number of a run, and the number of its events."""
        conditions = build_where({"workflow_id = :id": run_id, "type IN :types": types})
        sql = f"SELECT min(seq) AS oldest, count(*) AS total FROM events {conditions}"
        row = self._tx.fetch_one(sql, id=run_id, types=types)
        return (row["oldest"], row["total"]) if row else (None, 0)

    def list_reviews(self, session_ids: Sequence[str], limit: int) -> list[Row]:
        """List the newest review events of these sessions, oldest first."""
        sql = """
            SELECT seq, type, ts, workflow_id, data FROM events
             WHERE workflow_id IN :ids AND type IN ('review:failed', 'review:passed')
             ORDER BY seq DESC LIMIT :limit
        """
        rows = self._tx.fetch_all(sql, ids=list(session_ids), limit=limit)
        return [_parse_event_row(row) for row in reversed(rows)]


@row_parser
def _parse_event_row(row: Row) -> Row:
    return row | {"ts": format_timestamp(row["ts"]), "data": json.loads(row["data"])}
