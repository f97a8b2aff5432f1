"""Queries of the task queue: active tasks, ready tasks, and what the others wait for.

A task is active if it is claimed or running, even if its claim has expired.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.plans.models import Task, TaskStatus, WaitingTask
from deepwork.work.plans.stores.plan_store import (
    COLUMNS,
    DONE,
    LEVEL_BEFORE,
    OPEN,
    RUNNING,
    UNBLOCKED,
    read_task,
)


class QueueOrder(NamedTuple):
    """Parameters of the order in which ready tasks are offered across workflows."""

    lapsed: Sequence[str]
    """Tasks whose claim has expired: they can be claimed again."""
    last: Sequence[str]
    """Workflows whose tasks come after those of all others."""
    repository: str | None = None
    """Restricts the search to plans of this repository."""


class QueueStore:
    """Reads which tasks are active and which can be handed out."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    # Active tasks

    def list_active_anywhere(self, repository: str | None = None) -> list[Task]:
        """Return the active tasks of all workflows that hand out tasks, or of one repository's workflows."""
        sql = f"""
            SELECT {COLUMNS} FROM plan_tasks WHERE id IN (
                SELECT t.id FROM plans p JOIN plan_tasks t ON t.workflow_id = p.id
                 WHERE p.status IN :giving AND {_IN_REPOSITORY_CONDITION} AND t.status IN :running
                   AND t.waits_for IS NULL
                 UNION
                SELECT t.id FROM plans p JOIN plan_tasks t ON t.workflow_id = p.id
                 WHERE p.status IN :giving AND {_IN_REPOSITORY_CONDITION} AND t.claimed_by IS NOT NULL)
             ORDER BY workflow_id, sequence, position
        """
        rows = self._tx.fetch_all(sql, giving=_OFFERING_STATUSES, running=RUNNING, repository=repository)
        return [read_task(row) for row in rows]

    # Ready tasks

    def list_ready(
        self,
        workflow_id: str,
        status: TaskStatus,
        free_levels: Sequence[int],
        limit: int,
        capabilities: Collection[str] | None = None,
        *,
        counts_all: bool = True,
        places: Sequence[int] = (),
    ) -> tuple[list[Task], int]:
        """Return unclaimed tasks that wait for nothing, in plan order, and how many there are.

        `free_levels` are the sequences whose next lower one is done. `places` are all sequences that can have
        such tasks, where that is known: then the others are not searched. With `capabilities`, only tasks
        that require no others. Without `counts_all`, only the returned ones are counted: to count all takes
        the longer the larger the plan is.
        """
        condition = (
            "workflow_id = :id AND status = :status AND claimed_by IS NULL AND failures < max_attempts"
            f" AND {UNBLOCKED} AND {START_NOT_REFUSED.format('plan_tasks')}"
        )
        values: Row = {"id": workflow_id, "status": status, "levels": list(free_levels)}
        if 0 < len(places) <= _MAX_PLACES:
            condition += " AND sequence IN :places"
            values["places"] = list(places)
        if capabilities is not None:
            condition += f" AND {_HAS_CAPABILITIES_CONDITION.format('plan_tasks')}"
            values["capabilities"] = list(capabilities)
        sql = f"SELECT {COLUMNS} FROM plan_tasks WHERE {condition} ORDER BY sequence, position LIMIT :limit"
        rows = self._tx.fetch_all(sql, limit=limit, **values)
        total = len(rows)
        if total == limit and counts_all:
            total = self._tx.fetch_value(f"SELECT count(*) FROM plan_tasks WHERE {condition}", **values)
        return [read_task(row) for row in rows], total

    def list_waiting_for_person(self, workflow_id: str, limit: int) -> list[str]:
        """Return the ids of failed tasks without attempts left, in plan order."""
        sql = """
            SELECT id FROM plan_tasks
             WHERE workflow_id = :id AND status = 'failed' AND failures >= max_attempts
             ORDER BY sequence, position LIMIT :limit
        """
        return [row["id"] for row in self._tx.fetch_all(sql, id=workflow_id, limit=limit)]

    def list_waiting_for_approval(self, workflow_id: str, limit: int) -> list[str]:
        """Return the ids of tasks that a person has to approve, before or after their work, in plan order."""
        sql = f"""
            SELECT id FROM plan_tasks
             WHERE workflow_id = :id AND status IN :open
               AND (waits_for = 'approval' OR NOT {START_NOT_REFUSED.format("plan_tasks")})
             ORDER BY sequence, position LIMIT :limit
        """
        return [row["id"] for row in self._tx.fetch_all(sql, id=workflow_id, open=OPEN, limit=limit)]

    def list_ready_anywhere(
        self, order: QueueOrder, capabilities: Collection[str], limit: int
    ) -> tuple[list[Task], int]:
        """Return the first ready tasks of any workflow that require no other capabilities, and their number.

        The oldest plan comes first; within a plan, failed tasks come last.
        """
        sql = f"""
            {_READY_IN_ALL_WORKFLOWS_SQL}, offered AS (
                SELECT id, row_number() OVER (ORDER BY {_ORDER_BY}) AS place, count(*) OVER () AS total
                  FROM ready WHERE {_HAS_CAPABILITIES_CONDITION.format("ready")}
                 ORDER BY place LIMIT :limit)
            SELECT {_TASK_COLUMNS}, o.total FROM offered o JOIN plan_tasks t ON t.id = o.id ORDER BY place
        """
        rows = self._tx.fetch_all(
            sql,
            giving=_OFFERING_STATUSES,
            open=OPEN,
            capabilities=list(capabilities),
            limit=limit,
            **order._asdict(),
        )
        total = [row.pop("total") for row in rows]
        return [read_task(row) for row in rows], total[0] if total else 0

    def list_blocker_names(self, tasks: Sequence[Task | WaitingTask], each: int) -> dict[str, list[str]]:
        """Return, for each of these tasks, the names of the first few open tasks it waits for."""
        return self._list_dependency_names(tasks, OPEN, each)

    def list_completed_dependency_names(self, tasks: Sequence[Task], each: int) -> dict[str, list[str]]:
        """Return, for each of these tasks, the names of the first few dependencies that are done."""
        return self._list_dependency_names(tasks, DONE, each)

    def list_groups(self, workflow_id: str, limit: int) -> tuple[list[Row], int]:
        """Return the first parallel groups with their task counts, and how many groups there are."""
        sql = """
            SELECT parallel_group AS group_id, count(*) AS task_count,
                   sum(CASE WHEN status IN :done THEN 1 ELSE 0 END) AS completed
              FROM plan_tasks WHERE workflow_id = :id AND parallel_group IS NOT NULL
             GROUP BY parallel_group ORDER BY min(sequence), parallel_group LIMIT :limit
        """
        rows = self._tx.fetch_all(sql, id=workflow_id, done=DONE, limit=limit)
        total = len(rows)
        if total == limit:
            sql = "SELECT count(DISTINCT parallel_group) FROM plan_tasks WHERE workflow_id = :id"
            total = self._tx.fetch_value(sql, id=workflow_id)
        return rows, total

    # Helpers

    def _list_dependency_names(
        self, tasks: Sequence[Task | WaitingTask], statuses: Sequence[str], each: int
    ) -> dict[str, list[str]]:
        explicit = [task.id for task in tasks if task.is_explicit]
        sql = """
            SELECT task_id, name FROM (
                SELECT d.task_id, other.name,
                       row_number() OVER (PARTITION BY d.task_id
                                              ORDER BY other.sequence, other.position) AS place
                  FROM plan_dependencies d JOIN plan_tasks other ON other.id = d.depends_on_id
                 WHERE d.task_id IN :ids AND other.status IN :statuses) AS ranked
             WHERE place <= :each ORDER BY task_id, place
        """
        rows = (
            [] if not explicit else self._tx.fetch_all(sql, ids=explicit, statuses=list(statuses), each=each)
        )
        found: dict[str, list[str]] = {}
        for row in rows:
            found.setdefault(row["task_id"], []).append(row["name"])
        of_level: dict[int, list[str]] = {}
        for task in (task for task in tasks if not task.is_explicit):
            if task.sequence not in of_level:
                of_level[task.sequence] = self._list_previous_level_names(task, statuses, each)
            found[task.id] = of_level[task.sequence]
        return found

    def _list_previous_level_names(
        self, task: Task | WaitingTask, statuses: Sequence[str], limit: int
    ) -> list[str]:
        """Return task names of the next lower sequence."""
        sql = (
            f"SELECT name FROM plan_tasks WHERE workflow_id = :workflow_id AND status IN :statuses"
            f" AND sequence = {LEVEL_BEFORE} ORDER BY position LIMIT :limit"
        )
        rows = self._tx.fetch_all(
            sql, workflow_id=task.workflow_id, sequence=task.sequence, statuses=list(statuses), limit=limit
        )
        return [row["name"] for row in rows]


_MAX_PLACES = 200
"""How many sequences a query names; in plans with more of them, nearly all are searched anyway."""
_OFFERING_STATUSES = ("ready", "in_progress")
_NEWEST_APPROVAL = """(SELECT approvals.status FROM approvals
    WHERE approvals.subject_kind = '{}' AND approvals.subject_id = {}.id
      AND approvals.status <> 'stale'
    ORDER BY approvals.created_seq DESC LIMIT 1)"""
# Whether a person was not asked about the task, or approved it; a claim asks.
START_NOT_REFUSED = (
    f"coalesce({_NEWEST_APPROVAL.format('task_before', '{}')}, '') NOT IN ('pending', 'refused')"
)
# A plan that a person must approve is asked about whenever it changes.
_PLAN_NOT_WAITING = f"coalesce({_NEWEST_APPROVAL.format('plan', 'p')}, 'given') = 'given'"
_TASK_COLUMNS = ", ".join(f"t.{name}" for name in COLUMNS.split(", "))
# `IS NOT TRUE`, because `IN` is NULL for an empty list.
_HAS_CAPABILITIES_CONDITION = """NOT EXISTS (
    SELECT 1 FROM plan_capabilities AS required
     WHERE required.task_id = {}.id AND (required.capability IN :capabilities) IS NOT TRUE)"""
_ORDER_BY = "CASE WHEN workflow_id IN :last THEN 1 ELSE 0 END, age, seq, again, sequence, position"
_READY_TASKS_SQL = """
    SELECT t.id, t.workflow_id, t.sequence, t.position, age, seq,
           CASE WHEN t.status = 'failed' THEN 1 ELSE 0 END AS again
      FROM levels JOIN plan_tasks t ON t.workflow_id = levels.workflow_id AND t.sequence = levels.sequence
     WHERE CASE WHEN t.is_explicit THEN t.open_dependencies ELSE coalesce(open_before, 0) END = 0
"""
_IN_REPOSITORY_CONDITION = "(CAST(:repository AS TEXT) IS NULL OR p.repository_path = :repository)"
_READY_IN_ALL_WORKFLOWS_SQL = f"""
    WITH levels AS (
        SELECT workflow_id, age, seq, sequence,
               lag(open) OVER (PARTITION BY workflow_id ORDER BY sequence) AS open_before
          FROM (SELECT p.id AS workflow_id, p.created_at AS age, p.created_seq AS seq, t.sequence,
                       sum(CASE WHEN t.status IN :open THEN 1 ELSE 0 END) AS open
                  FROM plans p JOIN plan_tasks t ON t.workflow_id = p.id
                 WHERE p.status IN :giving AND {_IN_REPOSITORY_CONDITION} AND {_PLAN_NOT_WAITING}
                 GROUP BY p.id, p.created_at, p.created_seq, t.sequence) AS counted
    ), ready AS (
        {_READY_TASKS_SQL} AND t.status IN ('pending', 'failed') AND t.claimed_by IS NULL
               AND t.failures < t.max_attempts AND {START_NOT_REFUSED.format("t")}
        UNION ALL
        {_READY_TASKS_SQL} AND t.id IN :lapsed
    )
"""
"""Every ready task of the workflows that hand out tasks."""
