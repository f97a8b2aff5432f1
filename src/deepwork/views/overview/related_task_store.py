"""Queries for the tasks related to one task: ancestors, children, dependencies, dependents."""

from __future__ import annotations

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.agents.lease_conditions import VALID_UNTIL


class RelatedTaskStore:
    """Reads the tasks related to a task."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_ancestors(self, task_id: str) -> list[Row]:
        """List the ancestors of a tracked task, topmost first."""
        sql = """
            WITH RECURSIVE above (id, name, parent_task_id, distance) AS (
                SELECT id, name, parent_task_id, 0 FROM tracked_tasks WHERE id = :id
                 UNION ALL
                SELECT task.id, task.name, task.parent_task_id, above.distance + 1
                  FROM tracked_tasks AS task JOIN above ON task.id = above.parent_task_id
            )
            SELECT id, name FROM above WHERE distance > 0 ORDER BY distance DESC
        """
        return self._tx.fetch_all(sql, id=task_id)

    def list_children(self, task_id: str, limit: int) -> list[Row]:
        """List the direct children of a tracked task."""
        sql = (
            "SELECT id, name, status FROM tracked_tasks WHERE parent_task_id = :id"
            " ORDER BY started_at, created_seq LIMIT :limit"
        )
        return self._tx.fetch_all(sql, id=task_id, limit=limit)

    def list_dependencies(self, task_id: str, limit: int) -> list[Row]:
        """List the tasks that a planned task depends on explicitly."""
        sql = """
            SELECT task.id, task.name, task.status FROM plan_dependencies AS named
              JOIN plan_tasks AS task ON task.id = named.depends_on_id
             WHERE named.task_id = :id ORDER BY task.position LIMIT :limit
        """
        return self._tx.fetch_all(sql, id=task_id, limit=limit)

    def list_dependents(self, task_id: str, limit: int) -> list[Row]:
        """List the tasks that depend on a planned task explicitly."""
        sql = """
            SELECT task.id, task.name, task.status FROM plan_dependencies AS named
              JOIN plan_tasks AS task ON task.id = named.task_id
             WHERE named.depends_on_id = :id ORDER BY task.position LIMIT :limit
        """
        return self._tx.fetch_all(sql, id=task_id, limit=limit)

    def find_last_holder(self, task_id: str) -> Row | None:
        """Find the agent that last claimed a planned task, with the task's lease."""
        sql = f"""
            SELECT agents.id, agents.name, claim.claimed_at, leases.who, {VALID_UNTIL} AS until
              FROM plan_claims AS claim JOIN agents ON agents.id = claim.agent_id
              LEFT JOIN leases ON leases.what = claim.task_id
             WHERE claim.task_id = :id ORDER BY claim.epoch DESC LIMIT 1
        """
        return self._tx.fetch_one(sql, id=task_id, now=self._tx.now)
