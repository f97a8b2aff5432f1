"""Storage of notices."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.notices.models import Notice, NoticeType


class NoticeStore:
    """Reads and writes notices."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, notices: Sequence[Notice]) -> None:
        """Insert new notices."""
        self._tx.insert_many("notices", [vars(notice) for notice in notices])

    def delete_before(self, moment: int) -> None:
        """Delete older notices, carried or not."""
        self._tx.execute("DELETE FROM notices WHERE at < :moment", moment=moment)

    def list_waiting(self, agents: Sequence[str], work: Sequence[str], limit: int) -> list[Notice]:
        """List notices that nothing carried yet, the oldest first.

        They are for one of these agents, or for the work on one of these workflows and job sessions.
        """
        sql = f"""
            SELECT {_COLUMNS} FROM notices
             WHERE carried_at IS NULL
               AND (agent_id IN :agents OR (agent_id IS NULL AND workflow_id IN :work))
             ORDER BY created_seq LIMIT :limit
        """
        rows = self._tx.fetch_all(sql, agents=list(agents), work=list(work), limit=limit)
        return [_from_row(row) for row in rows]

    def list_undelivered(self, agents: Sequence[str], limit: int) -> list[Notice]:
        """List notices of these agents that something carried, since when the agent made no call."""
        sql = f"""
            SELECT {_COLUMNS} FROM notices
             WHERE agent_id IN :agents
               AND carried_at >= (SELECT last_heartbeat FROM agents WHERE agents.id = notices.agent_id)
             ORDER BY created_seq LIMIT :limit
        """
        rows = self._tx.fetch_all(sql, agents=list(agents), limit=limit)
        return [_from_row(row) for row in rows]

    def list_about(self, ids: Sequence[str], limit: int) -> list[Notice]:
        """List the notices about these issues or messages, the oldest first."""
        sql = f"SELECT {_COLUMNS} FROM notices WHERE about IN :ids ORDER BY created_seq LIMIT :limit"
        return [_from_row(row) for row in self._tx.fetch_all(sql, ids=list(ids), limit=limit)]

    def find_by_ids(self, ids: Sequence[str]) -> list[Notice]:
        """Return the notices with these ids, the oldest first."""
        sql = f"SELECT {_COLUMNS} FROM notices WHERE id IN :ids ORDER BY created_seq"
        return [_from_row(row) for row in self._tx.fetch_all(sql, ids=list(ids))]

    def mark_carried(self, ids: Sequence[str]) -> list[str]:
        """Mark notices as carried, and return the ids of those that nothing carried before.

        Of several answers and hooks that carry a notice at the same time, one gets it: a row that another
        transaction is marking is skipped.
        """
        sql = f"""
            UPDATE notices SET carried_at = :now
             WHERE id IN (SELECT id FROM notices WHERE id IN :ids AND carried_at IS NULL{self._tx.free_rows})
            RETURNING id
        """
        return [row["id"] for row in self._tx.fetch_all(sql, ids=list(ids), now=self._tx.now)]

    def mark_carried_about(self, ids: Sequence[str]) -> None:
        """Mark the notices about these messages as carried: the agent read the messages themselves."""
        sql = "UPDATE notices SET carried_at = :now WHERE about IN :ids AND carried_at IS NULL"
        self._tx.execute(sql, ids=list(ids), now=self._tx.now)


_COLUMNS = ", ".join(Notice.__dataclass_fields__)


@row_parser
def _from_row(row: Row) -> Notice:
    return Notice(**(row | {"type": NoticeType(row["type"])}))
