"""Finds attempts, tasks of all kinds, and landings by their ids."""

from __future__ import annotations

import json
from collections.abc import Collection

from deepwork.delivery.provenance.models import AttemptIdentity
from deepwork.kernel.database.transaction import Transaction

_BATCH_SIZE = 500
"""SQLite takes the square of their number to bind named values."""


class StoredWork:
    """Looks up attempts, tasks and landings for `provenance`, which does not know their tables."""

    def find_attempts(self, tx: Transaction, ids: Collection[str]) -> dict[str, AttemptIdentity]:
        """Return the attempts with these ids, by id."""
        rows = _fetch(tx, "SELECT id, task_id, agent_id FROM attempts WHERE id IN :ids", ids)
        return {row["id"]: AttemptIdentity(row["id"], row["task_id"], row["agent_id"]) for row in rows}

    def find_tasks(self, tx: Transaction, ids: Collection[str]) -> set[str]:
        """Return which of these ids are planned tasks, tracked tasks or steps of jobs."""
        steps = {id for id in ids if "/" in id}
        tracked_ids = {id for id in ids if id.startswith("tt_")}
        planned = _fetch(tx, "SELECT id FROM plan_tasks WHERE id IN :ids", set(ids) - steps - tracked_ids)
        tracked = _fetch(tx, "SELECT id FROM tracked_tasks WHERE id IN :ids", tracked_ids)
        return {row["id"] for row in (*planned, *tracked)} | _find_steps(tx, steps)

    def find_landings(self, tx: Transaction, ids: Collection[str]) -> set[str]:
        """Return which of these ids are landings."""
        return {row["id"] for row in _fetch(tx, "SELECT id FROM landings WHERE id IN :ids", ids)}


def _find_steps(tx: Transaction, ids: Collection[str]) -> set[str]:
    sessions = {id.partition("/")[0] for id in ids}
    rows = _fetch(tx, "SELECT id, data FROM job_sessions WHERE id IN :ids", sessions)
    steps = {
        f"{row['id']}/{step}"
        for row in rows
        for entry in json.loads(row["data"]).get("entries", ())
        for step in entry["steps"]
    }
    return steps & set(ids)


def _fetch(tx: Transaction, sql: str, ids: Collection[str]) -> list[dict[str, str]]:
    wanted = sorted(ids)
    starts = range(0, len(wanted), _BATCH_SIZE)
    return [row for start in starts for row in tx.fetch_all(sql, ids=wanted[start : start + _BATCH_SIZE])]
