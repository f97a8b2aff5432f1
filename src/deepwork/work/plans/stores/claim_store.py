"""Queries about claims: who holds a task, and how the claim before ended."""

from __future__ import annotations

from typing import NamedTuple

from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.agents.lease_conditions import IS_VALID, VALID_UNTIL
from deepwork.work.plans.models import TaskStatus

LEASE_EXPIRED = "the lease expired"
"""The reason that the history has for a claim whose holder went silent."""


class ClaimState(NamedTuple):
    """Whether a task can still be claimed."""

    name: str
    status: TaskStatus
    holder: str | None
    """The agent whose lease on the task has not expired."""


class ClaimStore:
    """Reads claims and their ends."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def find_state(self, task_id: str) -> ClaimState | None:
        """Return whether the task is done and who holds it, without waiting for a lock."""
        sql = f"""
            SELECT name, status, who FROM plan_tasks LEFT JOIN leases ON what = plan_tasks.id AND {IS_VALID}
             WHERE plan_tasks.id = :task_id
        """
        row = self._tx.fetch_one(sql, task_id=task_id, now=self._tx.now)
        return None if row is None else _read_claim_state(row)

    def find_lease(self, task_id: str) -> Row | None:
        """Return the last lease of the task: its epoch, when it ends, and its holder, if it has one."""
        sql = f"""
            SELECT leases.who AS agent_id, agents.name AS agent_name, leases.epoch, {VALID_UNTIL} AS until
              FROM leases LEFT JOIN agents ON agents.id = leases.who WHERE leases.what = :task_id
        """
        return self._tx.fetch_one(sql, task_id=task_id, now=self._tx.now)

    def find_last_end(self, task_id: str, before_epoch: int) -> Row | None:
        """Return how a claim on the task last ended, and who held it: the last claim before this epoch."""
        sql = """
            SELECT what, after, reason, by_whom, at, claims.agent_id, agents.name AS agent_name
              FROM plan_history
              LEFT JOIN plan_claims AS claims ON claims.task_id = plan_history.task_id
                   AND claims.epoch = (SELECT max(epoch) FROM plan_claims
                                        WHERE task_id = :task_id AND epoch < :epoch)
              LEFT JOIN agents ON agents.id = claims.agent_id
             WHERE plan_history.task_id = :task_id AND (what = 'released' OR after = 'failed')
             ORDER BY number DESC LIMIT 1
        """
        return self._tx.fetch_one(sql, task_id=task_id, epoch=before_epoch)

    def find_last_change(self, task_id: str) -> Row | None:
        """Return the last entry of the task's history."""
        sql = """
            SELECT what, reason, by_whom FROM plan_history
             WHERE task_id = :task_id ORDER BY number DESC LIMIT 1
        """
        return self._tx.fetch_one(sql, task_id=task_id)


@row_parser
def _read_claim_state(row: Row) -> ClaimState:
    return ClaimState(row["name"], TaskStatus(row["status"]), row["who"])
