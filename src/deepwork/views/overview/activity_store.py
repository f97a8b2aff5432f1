"""Counts current activity over the whole store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.agents.lease_conditions import CLOCK_TOLERANCE_MS, IS_VALID


@dataclass(frozen=True)
class ActivityCounts:
    """Current activity in the store, of all processes."""

    open_claims: int
    live_agents: int
    active_sessions: int
    last_event: int
    open_runs: int = 0
    attempts: Mapping[str, int] = field(default_factory=dict)
    """Attempts of agents that have not ended, by stage."""
    landings: Mapping[str, int] = field(default_factory=dict)
    """Landings that have not ended, by status."""
    states: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """What is open, by kind and state."""


class ActivityStore:
    """Counts claims, agents, sessions, runs of agents and events."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def count_activity(self, alive_since: int) -> ActivityCounts:
        """Count everything with three queries that use indexes."""
        sql = f"""
            SELECT (SELECT count(*) FROM leases WHERE who IS NOT NULL AND {IS_VALID}) AS open_claims,
                   (SELECT count(*) FROM agents
                     WHERE silent_since IS NULL AND unregistered_at IS NULL
                       AND last_heartbeat BETWEEN :alive_since AND :now + {CLOCK_TOLERANCE_MS}
                       AND said <> 'offline') AS live_agents,
                   (SELECT count(*) FROM job_sessions WHERE status = 'active') AS active_sessions,
                   (SELECT last_seq FROM event_sequence) AS last_event,
                   (SELECT count(*) FROM runner_runs WHERE ended_at IS NULL) AS open_runs
        """
        row = self._tx.fetch_one(sql, now=self._tx.now, alive_since=alive_since)
        by_stage = "SELECT stage, count(*) AS count FROM attempts WHERE ended_at IS NULL GROUP BY stage"
        attempts = {each["stage"]: each["count"] for each in self._tx.fetch_all(by_stage)}
        by_status = "SELECT status, count(*) AS count FROM landings WHERE ended_at IS NULL GROUP BY status"
        landings = {each["status"]: each["count"] for each in self._tx.fetch_all(by_status)}
        return replace(_parse_counts(row or {}), attempts=attempts, landings=landings)


@row_parser
def _parse_counts(row: Row) -> ActivityCounts:
    counts: dict[str, Any] = {name: int(value) for name, value in row.items()}
    return ActivityCounts(**counts)
