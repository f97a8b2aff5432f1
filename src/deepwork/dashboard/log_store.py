"""Events of a run as rows, page by page."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deepwork.dashboard.moments import told
from deepwork.database.engine import Row, stored
from deepwork.database.statements import where
from deepwork.database.transaction import Transaction


class LogStore:
    """The event log, looked at from a run."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def page(
        self, run_id: str, *, types: Sequence[str] | None, before: int | None, after: int | None, limit: int
    ) -> list[Row]:
        """Events in their order: the next after a number, or the last before one."""
        direction = "ASC" if after is not None else "DESC"
        conditions = where(
            {
                "workflow_id = :id": run_id,
                "type IN :types": types,
                "seq < :before": before,
                "seq > :after": after,
            }
        )
        rows = self._tx.all(
            f"SELECT seq, type, ts, workflow_id, data FROM events {conditions}"
            f" ORDER BY seq {direction} LIMIT :limit",
            id=run_id, types=types, before=before, after=after, limit=limit,
        )  # fmt: skip
        return sorted(map(_envelope, rows), key=lambda event: event["seq"])

    def bounds(self, run_id: str, types: Sequence[str] | None) -> tuple[int | None, int]:
        """The oldest event of a run that is kept, and how many there are."""
        conditions = where({"workflow_id = :id": run_id, "type IN :types": types})
        row = self._tx.one(
            f"SELECT min(seq) AS oldest, count(*) AS total FROM events {conditions}", id=run_id, types=types
        )
        return (row["oldest"], row["total"]) if row else (None, 0)

    def reviews(self, session_ids: Sequence[str], limit: int) -> list[Row]:
        """What reviews said of these sessions, the newest so many, in their order."""
        rows = self._tx.all(
            """
            SELECT seq, type, ts, workflow_id, data FROM events
             WHERE workflow_id IN :ids AND type IN ('review:failed', 'review:passed')
             ORDER BY seq DESC LIMIT :limit
            """,
            ids=list(session_ids), limit=limit,
        )  # fmt: skip
        return [_envelope(row) for row in reversed(rows)]


@stored
def _envelope(row: Row) -> Row:
    return row | {"ts": told(row["ts"]), "data": json.loads(row["data"])}
