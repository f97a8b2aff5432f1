"""Queries about what plans have in hand: active tasks and their budgets, results that wait for a person."""

from __future__ import annotations

from dataclasses import dataclass

from deepwork.gates.budgets.models import Budget, Cost
from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.timestamps import measure_duration
from deepwork.work.plans.requirements import parse_task_requirements


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
