"""Counts current activity over the whole store."""

from __future__ import annotations

from dataclasses import dataclass

from deepwork.agents.lease_conditions import CLOCK_TOLERANCE_MS, IS_VALID
from deepwork.database.engine import Row, row_parser
from deepwork.database.transaction import Transaction


@dataclass(frozen=True)
class ActivityCounts:
    """Current activity in the store, of all processes."""

    open_claims: int
    live_agents: int
    active_sessions: int
    last_event: int


class ActivityStore:
    """Counts claims, agents, sessions and events."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def count_activity(self, alive_since: int) -> ActivityCounts:
        """Count everything with one query that uses indexes only."""
        sql = f"""
            SELECT (SELECT count(*) FROM leases WHERE who IS NOT NULL AND {IS_VALID}) AS open_claims,
                   (SELECT count(*) FROM agents
                     WHERE silent_since IS NULL AND unregistered_at IS NULL
                       AND last_heartbeat BETWEEN :alive_since AND :now + {CLOCK_TOLERANCE_MS}
                       AND said <> 'offline') AS live_agents,
                   (SELECT count(*) FROM job_sessions WHERE status = 'active') AS active_sessions,
                   (SELECT last_seq FROM event_sequence) AS last_event
        """
        row = self._tx.fetch_one(sql, now=self._tx.now, alive_since=alive_since)
        return _parse_counts(row or {})


@row_parser
def _parse_counts(row: Row) -> ActivityCounts:
    return ActivityCounts(**{name: int(value) for name, value in row.items()})
