"""What is under way, as numbers."""

from __future__ import annotations

from dataclasses import dataclass

from deepwork.database.engine import Row, stored
from deepwork.database.transaction import Transaction


@dataclass(frozen=True)
class UnderWay:
    """How much is going on in the store, whichever process does it."""

    open_claims: int
    live_agents: int
    active_sessions: int
    last_event: int


class FigureStore:
    """Counts over the store."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def under_way(self, alive_since: int) -> UnderWay:
        """Everything that can be counted by an index, in one query."""
        row = self._tx.one(
            """
            SELECT (SELECT count(*) FROM leases WHERE who IS NOT NULL AND until >= :now) AS open_claims,
                   (SELECT count(*) FROM agents
                     WHERE silent_since IS NULL AND unregistered_at IS NULL
                       AND last_heartbeat >= :alive_since AND said <> 'offline') AS live_agents,
                   (SELECT count(*) FROM job_sessions WHERE status = 'active') AS active_sessions,
                   (SELECT last_seq FROM event_sequence) AS last_event
            """,
            now=self._tx.now, alive_since=alive_since,
        )  # fmt: skip
        return _under_way(row or {})


@stored
def _under_way(row: Row) -> UnderWay:
    return UnderWay(**{name: int(value) for name, value in row.items()})
