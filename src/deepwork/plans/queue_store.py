"""What of a plan is under way, what could be begun now, and what the rest waits for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from deepwork.database.engine import Row, stored
from deepwork.database.transaction import Transaction
from deepwork.plans.models import Task, TaskStatus
from deepwork.plans.overlaps import Rival, files_named
from deepwork.plans.task_rows import COLUMNS, DONE, LEVEL_BEFORE, OPEN, RUNNING, UNBLOCKED, read_task


class Order(NamedTuple):
    """What the rows of tasks do not tell of their turn."""

    lapsed: Sequence[str]
    """Tasks whose claim has run out: they can be begun as if nobody had."""
    last: Sequence[str]
    """Workflows whose tasks come after those of all others."""
    repository: str | None = None
    """Whose plans alone are looked at."""


class QueueStore:
    """Planned tasks as those see them who hand them out."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    # Who works

    def under_way(self, workflow_id: str) -> list[Task]:
        """Tasks that somebody has claimed or begun, in the order of the plan; also if the claim ran out."""
        rows = self._tx.all(
            f"SELECT {COLUMNS} FROM plan_tasks WHERE id IN {_UNDER_WAY} ORDER BY sequence, position",
            workflow_id=workflow_id, running=RUNNING,
        )  # fmt: skip
        return [read_task(row) for row in rows]

    def under_way_anywhere(self, repository: str | None = None) -> list[Task]:
        """As `under_way`, in every workflow that gives out tasks, or in those of one repository."""
        rows = self._tx.all(
            f"""
            SELECT {COLUMNS} FROM plan_tasks WHERE id IN (
                SELECT t.id FROM plans p JOIN plan_tasks t ON t.workflow_id = p.id
                 WHERE p.status IN :giving AND {_OF_REPOSITORY} AND t.status IN :running
                 UNION
                SELECT t.id FROM plans p JOIN plan_tasks t ON t.workflow_id = p.id
                 WHERE p.status IN :giving AND {_OF_REPOSITORY} AND t.claimed_by IS NOT NULL)
             ORDER BY workflow_id, sequence, position
            """,
            giving=_GIVING, running=RUNNING, repository=repository,
        )  # fmt: skip
        return [read_task(row) for row in rows]

    def count_under_way(self, workflow_id: str, *, beside: str) -> int:
        """How many tasks, beside this one, somebody has claimed or begun."""
        number: int = self._tx.value(
            f"SELECT count(*) FROM plan_tasks WHERE id IN {_UNDER_WAY} AND id <> :beside",
            workflow_id=workflow_id, running=RUNNING, beside=beside,
        )  # fmt: skip
        return number

    def files_under_way(self, workflow_id: str, *, beside: str) -> list[Rival]:
        """As many, with the files that they name, in the order of the plan."""
        rows = self._tx.all(
            f"SELECT id, name, context FROM plan_tasks WHERE id IN {_UNDER_WAY} AND id <> :beside"
            " ORDER BY sequence, position",
            workflow_id=workflow_id, running=RUNNING, beside=beside,
        )  # fmt: skip
        return [_rival(row) for row in rows]

    def lapsed(self, workflow_id: str) -> list[tuple[str, str | None]]:
        """Claimed tasks whose lease no longer runs, and who held it last; now ours to settle."""
        rows = self._tx.all(
            f"""
            SELECT what, who FROM leases
             WHERE what IN (SELECT id FROM plan_tasks WHERE workflow_id = :id AND claimed_by IS NOT NULL)
               AND (who IS NULL OR until < :now) ORDER BY what{self._tx.free_rows}
            """,
            id=workflow_id, now=self._tx.now,
        )  # fmt: skip
        return [(row["what"], row["who"]) for row in rows]

    # What can be done now

    def ready(
        self, workflow_id: str, status: TaskStatus, free_levels: Sequence[int], limit: int
    ) -> tuple[list[Task], int]:
        """Unclaimed tasks that wait for nothing, in the order of the plan, and how many there are.

        `free_levels` are the sequences whose next lower one is done.
        """
        condition = f"workflow_id = :id AND status = :status AND claimed_by IS NULL AND {UNBLOCKED}"
        values = {"id": workflow_id, "status": status, "levels": list(free_levels)}
        rows = self._tx.all(
            f"SELECT {COLUMNS} FROM plan_tasks WHERE {condition} ORDER BY sequence, position LIMIT :limit",
            limit=limit, **values,
        )  # fmt: skip
        total = len(rows)
        if total == limit:
            total = self._tx.value(f"SELECT count(*) FROM plan_tasks WHERE {condition}", **values)
        return [read_task(row) for row in rows], total

    def demanding_anywhere(self, order: Order) -> list[Task]:
        """As `ready_anywhere`, all those that ask for capabilities."""
        rows = self._tx.all(
            f"""
            {_READY_ANYWHERE}, demanding AS (
                SELECT id, row_number() OVER (ORDER BY {_ORDER}) AS place FROM ready WHERE {_DEMANDS})
            SELECT {_T_COLUMNS} FROM demanding d JOIN plan_tasks t ON t.id = d.id ORDER BY place
            """,
            giving=_GIVING, open=OPEN, **order._asdict(),
        )  # fmt: skip
        return [read_task(row) for row in rows]

    def ready_anywhere(self, order: Order, demanding: Sequence[str], limit: int) -> tuple[list[Task], int]:
        """Tasks that could be begun now in any workflow, and how many there are.

        Of those that ask for capabilities only these. Plan after plan, the oldest first; in each, those that
        failed before come last.
        """
        rows = self._tx.all(
            f"""
            {_READY_ANYWHERE}, offered AS (
                SELECT id, row_number() OVER (ORDER BY {_ORDER}) AS place, count(*) OVER () AS total
                  FROM ready WHERE NOT {_DEMANDS} OR id IN :demanding
                 ORDER BY place LIMIT :limit)
            SELECT {_T_COLUMNS}, o.total FROM offered o JOIN plan_tasks t ON t.id = o.id ORDER BY place
            """,
            giving=_GIVING, open=OPEN, demanding=demanding, limit=limit, **order._asdict(),
        )  # fmt: skip
        total = [row.pop("total") for row in rows]
        return [read_task(row) for row in rows], total[0] if total else 0

    def blockers(self, tasks: Sequence[Task], each: int) -> dict[str, list[str]]:
        """For each of these tasks, the names of the first few that it waits for."""
        return self._names_before(tasks, OPEN, each)

    def completed_before(self, tasks: Sequence[Task], each: int) -> dict[str, list[str]]:
        """For each of these tasks, the names of the first few that it waited for and that are done."""
        return self._names_before(tasks, DONE, each)

    def groups(self, workflow_id: str, limit: int) -> tuple[list[Row], int]:
        """The first parallel groups of the plan with their tasks and how many are done; how many groups."""
        rows = self._tx.all(
            """
            SELECT parallel_group AS group_id, count(*) AS task_count,
                   sum(CASE WHEN status IN :done THEN 1 ELSE 0 END) AS completed
              FROM plan_tasks WHERE workflow_id = :id AND parallel_group IS NOT NULL
             GROUP BY parallel_group ORDER BY min(sequence), parallel_group LIMIT :limit
            """,
            id=workflow_id, done=DONE, limit=limit,
        )  # fmt: skip
        total = len(rows)
        if total == limit:
            total = self._tx.value(
                "SELECT count(DISTINCT parallel_group) FROM plan_tasks WHERE workflow_id = :id",
                id=workflow_id,
            )
        return rows, total

    # Helpers

    def _names_before(
        self, tasks: Sequence[Task], statuses: Sequence[str], each: int
    ) -> dict[str, list[str]]:
        explicit = [task.id for task in tasks if task.is_explicit]
        rows = [] if not explicit else self._tx.all(
            """
            SELECT task_id, name FROM (
                SELECT d.task_id, other.name,
                       row_number() OVER (PARTITION BY d.task_id
                                              ORDER BY other.sequence, other.position) AS place
                  FROM plan_dependencies d JOIN plan_tasks other ON other.id = d.depends_on_id
                 WHERE d.task_id IN :ids AND other.status IN :statuses) AS ranked
             WHERE place <= :each ORDER BY task_id, place
            """,
            ids=explicit, statuses=list(statuses), each=each,
        )  # fmt: skip
        found: dict[str, list[str]] = {}
        for row in rows:
            found.setdefault(row["task_id"], []).append(row["name"])
        of_level: dict[int, list[str]] = {}
        for task in (task for task in tasks if not task.is_explicit):
            if task.sequence not in of_level:
                of_level[task.sequence] = self._level_names(task, statuses, each)
            found[task.id] = of_level[task.sequence]
        return found

    def _level_names(self, task: Task, statuses: Sequence[str], limit: int) -> list[str]:
        """Names of the next lower sequence."""
        rows = self._tx.all(
            f"SELECT name FROM plan_tasks WHERE workflow_id = :workflow_id AND status IN :statuses"
            f" AND sequence = {LEVEL_BEFORE} ORDER BY position LIMIT :limit",
            workflow_id=task.workflow_id, sequence=task.sequence, statuses=list(statuses), limit=limit,
        )  # fmt: skip
        return [row["name"] for row in rows]


_UNDER_WAY = """
    (SELECT id FROM plan_tasks WHERE workflow_id = :workflow_id AND status IN :running
      UNION
     SELECT id FROM plan_tasks WHERE workflow_id = :workflow_id AND claimed_by IS NOT NULL)
"""


_GIVING = ("ready", "in_progress")
_T_COLUMNS = ", ".join(f"t.{name}" for name in COLUMNS.split(", "))
_DEMANDS = "context LIKE '%\"required_capabilities\"%'"
_ORDER = "CASE WHEN workflow_id IN :last THEN 1 ELSE 0 END, age, seq, again, sequence, position"
_READY = """
    SELECT t.id, t.workflow_id, t.sequence, t.position, t.context, age, seq,
           CASE WHEN t.status = 'failed' THEN 1 ELSE 0 END AS again
      FROM levels JOIN plan_tasks t ON t.workflow_id = levels.workflow_id AND t.sequence = levels.sequence
     WHERE CASE WHEN t.is_explicit THEN t.open_dependencies ELSE coalesce(open_before, 0) END = 0
"""
_OF_REPOSITORY = "(CAST(:repository AS TEXT) IS NULL OR p.repository_path = :repository)"
_READY_ANYWHERE = f"""
    WITH levels AS (
        SELECT workflow_id, age, seq, sequence,
               lag(open) OVER (PARTITION BY workflow_id ORDER BY sequence) AS open_before
          FROM (SELECT p.id AS workflow_id, p.created_at AS age, p.created_seq AS seq, t.sequence,
                       sum(CASE WHEN t.status IN :open THEN 1 ELSE 0 END) AS open
                  FROM plans p JOIN plan_tasks t ON t.workflow_id = p.id
                 WHERE p.status IN :giving AND {_OF_REPOSITORY}
                 GROUP BY p.id, p.created_at, p.created_seq, t.sequence) AS counted
    ), ready AS (
        {_READY} AND t.status IN ('pending', 'failed') AND t.claimed_by IS NULL
        UNION ALL
        {_READY} AND t.id IN :lapsed
    )
"""
"""Every task that could be begun now, in workflows that give out tasks."""


@stored
def _rival(row: Row) -> Rival:
    return Rival(row["id"], row["name"], _files_in(row["context"]))


@lru_cache(maxsize=4096)
def _files_in(context: str) -> tuple[str, ...]:
    """What a task names is read with every claim while it is under way, and seldom changes."""
    return files_named(json.loads(context))
