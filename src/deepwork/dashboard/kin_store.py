"""What stands around one task: above it, below it, before and after it."""

from __future__ import annotations

from deepwork.database.engine import Row
from deepwork.database.transaction import Transaction


class KinStore:
    """The tasks next to a task, as rows."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def above(self, task_id: str) -> list[Row]:
        """The tasks that a tracked task stands below, the topmost first."""
        return self._tx.all(
            """
            WITH RECURSIVE above (id, name, parent_task_id, distance) AS (
                SELECT id, name, parent_task_id, 0 FROM tracked_tasks WHERE id = :id
                 UNION ALL
                SELECT task.id, task.name, task.parent_task_id, above.distance + 1
                  FROM tracked_tasks AS task JOIN above ON task.id = above.parent_task_id
            )
            SELECT id, name FROM above WHERE distance > 0 ORDER BY distance DESC
            """,
            id=task_id,
        )

    def below(self, task_id: str, limit: int) -> list[Row]:
        """The tasks right below a tracked task."""
        return self._tx.all(
            "SELECT id, name, status FROM tracked_tasks WHERE parent_task_id = :id"
            " ORDER BY started_at, created_seq LIMIT :limit",
            id=task_id, limit=limit,
        )  # fmt: skip

    def waited_for(self, task_id: str, limit: int) -> list[Row]:
        """The tasks that a planned task names."""
        return self._tx.all(
            """
            SELECT task.id, task.name, task.status FROM plan_dependencies AS named
              JOIN plan_tasks AS task ON task.id = named.depends_on_id
             WHERE named.task_id = :id ORDER BY task.position LIMIT :limit
            """,
            id=task_id, limit=limit,
        )  # fmt: skip

    def waiting(self, task_id: str, limit: int) -> list[Row]:
        """The tasks that name a planned task."""
        return self._tx.all(
            """
            SELECT task.id, task.name, task.status FROM plan_dependencies AS named
              JOIN plan_tasks AS task ON task.id = named.task_id
             WHERE named.depends_on_id = :id ORDER BY task.position LIMIT :limit
            """,
            id=task_id, limit=limit,
        )  # fmt: skip

    def last_holder(self, task_id: str) -> Row | None:
        """Who last claimed a planned task, and whether that claim still holds."""
        return self._tx.one(
            """
            SELECT agents.id, agents.name, claim.claimed_at, leases.who, leases.until
              FROM plan_claims AS claim JOIN agents ON agents.id = claim.agent_id
              LEFT JOIN leases ON leases.what = claim.task_id
             WHERE claim.task_id = :id ORDER BY claim.epoch DESC LIMIT 1
            """,
            id=task_id,
        )
