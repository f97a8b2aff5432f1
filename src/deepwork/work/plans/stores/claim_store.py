"""Queries about tasks in hand: who holds them, how long they are active, how the claim before ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from deepwork.gates.budgets.models import Budget, Cost
from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.timestamps import measure_duration
from deepwork.work.agents.lease_conditions import IS_VALID, VALID_UNTIL
from deepwork.work.plans.models import TaskStatus, parse_task_requirements

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


@dataclass(frozen=True)
class ActiveTime:
    """An active task: since when it is, how long it was before, and what it may cost."""

    id: str
    since: int
    before_ms: int
    budget: Budget | None

    def measure(self, now: int) -> Cost:
        """Return the time that it was active until now."""
        return Cost(active_ms=self.before_ms + measure_duration(self.since, now))


class ActiveStore:
    """Reads active tasks through an index that has only those."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_of_plan(self, workflow_id: str) -> list[ActiveTime]:
        """Return the active tasks of a plan."""
        sql = f"{_SELECT_ACTIVE} AND workflow_id = :id"
        return [_read_active_time(row) for row in self._tx.fetch_all(sql, id=workflow_id)]

    def list_of_all_plans(self) -> list[ActiveTime]:
        """Return the active tasks of all plans."""
        return [_read_active_time(row) for row in self._tx.fetch_all(_SELECT_ACTIVE)]

    def count_unreviewed(self, workflow_id: str) -> int:
        """Count the tasks of a plan whose work is done and waits for a person."""
        sql = "SELECT count(*) FROM plan_tasks WHERE workflow_id = :id AND waits_for = 'approval'"
        number: int = self._tx.fetch_value(sql, id=workflow_id)
        return number

    def sum_active_time(self, workflow_id: str) -> int:
        """Add up how long the tasks of a plan were active, without the time that goes on."""
        sql = "SELECT coalesce(sum(active_ms), 0) FROM plan_tasks WHERE workflow_id = :id"
        return int(self._tx.fetch_value(sql, id=workflow_id))


_SELECT_ACTIVE = (
    "SELECT id, active_since, active_ms, requirements FROM plan_tasks WHERE active_since IS NOT NULL"
)


@row_parser
def _read_active_time(row: Row) -> ActiveTime:
    required = parse_task_requirements(row["requirements"])
    return ActiveTime(
        row["id"], row["active_since"], int(row["active_ms"]), required.budget if required else None
    )
