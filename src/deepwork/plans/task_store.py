"""What is kept of planned tasks, and what the rules ask about many of them at once.

A blocked task is one that waits: for tasks it names (`open_dependencies` counts those not done), or, if it
names none, for the whole next lower sequence. `graph` says the same of a few; here 10,000 tasks are asked
without being read one by one. What can be taken up now is `queue_store`'s to tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.database.engine import Row, stored
from deepwork.database.statements import where
from deepwork.database.transaction import Transaction
from deepwork.plans.models import Node, Tally, Task, TaskStatus
from deepwork.plans.task_rows import (
    COLUMNS,
    DONE,
    LEVEL_BEFORE,
    OPEN,
    UNBLOCKED,
    changed_columns,
    missing,
    parts,
    read_task,
)

_ALL = 1_000_000


class TaskStore:
    """Planned tasks, as rows."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    # One task

    def get(self, id: str) -> Task:
        """The task with this id."""
        return self._one(id, "")

    def hold(self, id: str) -> Task:
        """The task with this id; nobody else changes it until we are done."""
        return self._one(id, self._tx.row_lock)

    def keep(self, before: Task, after: Task) -> None:
        """Keep what changed."""
        self._tx.update("plan_tasks", after.id, changed_columns(before, after))

    def next_checkpoint(self, id: str) -> int:
        """The number of the task's next checkpoint, taken: numbers have no gaps and never repeat."""
        number: int | None = self._tx.value(
            "UPDATE plan_tasks SET checkpoints = checkpoints + 1 WHERE id = :id RETURNING checkpoints", id=id
        )
        if number is None:
            raise missing(id)
        return number

    # What it waits for

    def is_blocked(self, task: Task) -> bool:
        """Whether it still waits for another."""
        return task.open_dependencies > 0 or bool(self._open_before(task, 1))

    def open_dependencies(self, task: Task, limit: int) -> tuple[list[Task], int]:
        """The first of what it waits for and is not done, and how many there are in all."""
        if task.is_explicit:
            open_ones = self._named(task, OPEN, limit)
            return open_ones, task.open_dependencies
        found = self._open_before(task, limit)
        return found, self._count_level(task, OPEN) if len(found) == limit else len(found)

    def done_dependencies(self, task: Task, limit: int) -> tuple[list[Task], int]:
        """The first of what it waited for and is done, and how many there are in all."""
        if task.is_explicit:
            total = self._tx.value("SELECT count(*) FROM plan_dependencies WHERE task_id = :id", id=task.id)
            return self._named(task, DONE, limit), total - task.open_dependencies
        found = self._before(task, DONE, limit)
        return found, self._count_level(task, DONE) if len(found) == limit else len(found)

    def settle_dependents(self, task_id: str) -> None:
        """The task is done: one thing less that those who name it wait for."""
        self._tx.run(
            """
            UPDATE plan_tasks SET open_dependencies = open_dependencies - 1
             WHERE id IN (SELECT task_id FROM plan_dependencies WHERE depends_on_id = :id)
            """,
            id=task_id,
        )

    # A whole plan

    def nodes(self, workflow_id: str) -> list[Node]:
        """The plan as a graph, in the order in which it was written."""
        edges: dict[str, list[str]] = {}
        for row in self._tx.all(
            """
            SELECT d.task_id, d.depends_on_id FROM plan_dependencies d
              JOIN plan_tasks t ON t.id = d.task_id WHERE t.workflow_id = :workflow_id
            """,
            workflow_id=workflow_id,
        ):
            edges.setdefault(row["task_id"], []).append(row["depends_on_id"])
        rows = self._tx.all(
            "SELECT id, name, sequence, status, parallel_group, is_explicit FROM plan_tasks"
            " WHERE workflow_id = :workflow_id ORDER BY position",
            workflow_id=workflow_id,
        )
        return [_node(row | {"edges": edges.get(row["id"], ())}) for row in rows]

    def dependency_names(self, ids: Sequence[str], each: int = _ALL) -> dict[str, list[str]]:
        """What each of these tasks names, by name and in the order of the plan; the first few of each."""
        names: dict[str, list[str]] = {}
        for part in parts(ids):
            for row in self._tx.all(
                """
                SELECT task_id, name FROM (
                    SELECT d.task_id, other.name, other.position,
                           row_number() OVER (PARTITION BY d.task_id ORDER BY other.position) AS place
                      FROM plan_dependencies d JOIN plan_tasks other ON other.id = d.depends_on_id
                     WHERE d.task_id IN :ids) AS ranked
                 WHERE place <= :each ORDER BY task_id, place
                """,
                ids=part, each=each,
            ):  # fmt: skip
                names.setdefault(row["task_id"], []).append(row["name"])
        return names

    def dependency_counts(self, ids: Sequence[str]) -> dict[str, int]:
        """How many tasks each of these names."""
        return {
            row["task_id"]: row["count"]
            for part in parts(ids)
            for row in self._tx.all(
                "SELECT task_id, count(*) AS count FROM plan_dependencies WHERE task_id IN :ids"
                " GROUP BY task_id",
                ids=part,
            )
        }

    def of_workflow(self, workflow_id: str, limit: int) -> tuple[list[Task], int]:
        """The first tasks of the plan, and how many there are."""
        rows = self._tx.all(
            f"SELECT {COLUMNS} FROM plan_tasks WHERE workflow_id = :id"
            " ORDER BY sequence, position LIMIT :limit",
            id=workflow_id, limit=limit,
        )  # fmt: skip
        total = len(rows) if len(rows) < limit else self.count(workflow_id)
        return [read_task(row) for row in rows], total

    def in_order(
        self, workflow_id: str, *, sequence: int | None, agent_name: str | None, since: int | None,
        after: int | None, limit: int,
    ) -> tuple[list[Task], int]:  # fmt: skip
        """Tasks as the plan has them, from after this position on, and how many match in all.

        `agent_name`: those that such an agent holds. `since`: those that changed since then.
        """
        held = "claimed_by IN (SELECT id FROM agents WHERE name = :agent_name)"
        filters = where(
            {
                "workflow_id = :id": workflow_id,
                "sequence = :sequence": sequence,
                held: agent_name,
                "updated_at >= :since": since,
            }
        )
        values = {"id": workflow_id, "sequence": sequence, "agent_name": agent_name, "since": since}
        total: int = self._tx.value(f"SELECT count(*) FROM plan_tasks {filters}", **values)
        rows = self._tx.all(
            f"SELECT {COLUMNS} FROM plan_tasks {filters} AND position > :after"
            " ORDER BY position LIMIT :limit",
            after=after or 0, limit=limit, **values,
        )  # fmt: skip
        return [read_task(row) for row in rows], total

    def count(self, workflow_id: str) -> int:
        number: int = self._tx.value(
            "SELECT count(*) FROM plan_tasks WHERE workflow_id = :id", id=workflow_id
        )
        return number

    def count_open(self, workflow_id: str) -> int:
        """How many tasks are not done."""
        number: int = self._tx.value(
            "SELECT count(*) FROM plan_tasks WHERE workflow_id = :id AND status IN :open",
            id=workflow_id, open=OPEN,
        )  # fmt: skip
        return number

    def all_done(self, workflow_id: str) -> bool:
        """Whether no task is left to do; a plan without tasks has not been done."""
        row = self._tx.one(
            "SELECT 1 FROM plan_tasks WHERE workflow_id = :id AND status IN :open LIMIT 1",
            id=workflow_id, open=OPEN,
        )  # fmt: skip
        return row is None

    def with_status(
        self, workflow_id: str, statuses: Sequence[TaskStatus], limit: int, *, newest_first: bool = False
    ) -> list[Task]:
        """Tasks with one of these statuses, in the order of the plan or the last finished first."""
        order = "finished_at DESC, position DESC" if newest_first else "sequence, position"
        rows = self._tx.all(
            f"SELECT {COLUMNS} FROM plan_tasks WHERE workflow_id = :id AND status IN :statuses"
            f" ORDER BY {order} LIMIT :limit",
            id=workflow_id, statuses=list(statuses), limit=limit,
        )  # fmt: skip
        return [read_task(row) for row in rows]

    # Who works

    def holders(self, ids: Sequence[str]) -> dict[str, str]:
        """Who holds which of these tasks by a lease that still runs."""
        if not ids:
            return {}
        rows = self._tx.all(
            "SELECT what, who FROM leases WHERE what IN :ids AND who IS NOT NULL AND until >= :now",
            ids=list(ids), now=self._tx.now,
        )  # fmt: skip
        return {row["what"]: row["who"] for row in rows}

    def note_claim(self, task_id: str, epoch: int, agent_id: str) -> None:
        """Remember who held the task, and when."""
        self._tx.run(
            "INSERT INTO plan_claims (task_id, epoch, agent_id, claimed_at)"
            " VALUES (:task_id, :epoch, :agent_id, :now) ON CONFLICT DO NOTHING",
            task_id=task_id, epoch=epoch, agent_id=agent_id, now=self._tx.now,
        )  # fmt: skip

    def claimed_at(self, task_id: str) -> int | None:
        """When the task was last claimed."""
        moment: int | None = self._tx.value(
            "SELECT claimed_at FROM plan_claims WHERE task_id = :id ORDER BY epoch DESC LIMIT 1", id=task_id
        )
        return moment

    def last_claims(self, task_id: str, agent_id: str) -> tuple[int | None, int | None]:
        """The epoch in which the agent last held the task, and the one in which anybody did."""
        row = self._tx.one(
            """
            SELECT max(CASE WHEN agent_id = :agent_id THEN epoch END) AS own, max(epoch) AS last
              FROM plan_claims WHERE task_id = :task_id
            """,
            task_id=task_id, agent_id=agent_id,
        )  # fmt: skip
        return (row["own"], row["last"]) if row else (None, None)

    # What can be done now

    def tallies(self, workflow_id: str) -> list[Tally]:
        """How many tasks have which status, sequence by sequence."""
        rows = self._tx.all(
            """
            SELECT sequence, status, count(*) AS count,
                   sum(CASE WHEN open_dependencies > 0 THEN 1 ELSE 0 END) AS waiting,
                   sum(CASE WHEN is_explicit THEN 0 ELSE 1 END) AS implied
              FROM plan_tasks WHERE workflow_id = :id GROUP BY sequence, status ORDER BY sequence
            """,
            id=workflow_id,
        )
        return [_tally(row) for row in rows]

    def blocked(self, workflow_id: str, free_levels: Sequence[int], limit: int) -> list[Task]:
        """Pending tasks that wait for another, in the order of the plan."""
        rows = self._tx.all(
            f"""
            SELECT {COLUMNS} FROM plan_tasks
             WHERE workflow_id = :id AND status = 'pending' AND NOT ({UNBLOCKED})
             ORDER BY sequence, position LIMIT :limit
            """,
            id=workflow_id, levels=list(free_levels), limit=limit,
        )  # fmt: skip
        return [read_task(row) for row in rows]

    def siblings(self, task: Task, limit: int) -> tuple[list[Task], int]:
        """Other tasks of its parallel group, and how many there are."""
        if task.parallel_group is None:
            return [], 0
        values = {"workflow_id": task.workflow_id, "group": task.parallel_group, "id": task.id}
        condition = "workflow_id = :workflow_id AND parallel_group = :group AND id <> :id"
        rows = self._tx.all(
            f"SELECT {COLUMNS} FROM plan_tasks WHERE {condition} ORDER BY sequence, position LIMIT :limit",
            limit=limit, **values,
        )  # fmt: skip
        total = self._tx.value(f"SELECT count(*) FROM plan_tasks WHERE {condition}", **values)
        return [read_task(row) for row in rows], total

    def prior(self, task: Task, limit: int) -> tuple[list[Task], int]:
        """Tasks of lower sequence, the last finished first, and how many there are."""
        values = {"workflow_id": task.workflow_id, "sequence": task.sequence}
        condition = "workflow_id = :workflow_id AND sequence < :sequence"
        rows = self._tx.all(
            f"SELECT {COLUMNS} FROM plan_tasks WHERE {condition}"
            " ORDER BY coalesce(finished_at, 0) DESC, sequence DESC, position DESC LIMIT :limit",
            limit=limit, **values,
        )  # fmt: skip
        total = self._tx.value(f"SELECT count(*) FROM plan_tasks WHERE {condition}", **values)
        return [read_task(row) for row in rows], total

    def named(self, ids: Sequence[str]) -> dict[str, Task]:
        """These tasks, by their ids; those that are not there are left out."""
        rows = self._tx.all(f"SELECT {COLUMNS} FROM plan_tasks WHERE id IN :ids", ids=list(ids))
        return {row["id"]: read_task(row) for row in rows}

    # Helpers

    def _one(self, id: str, lock: str) -> Task:
        if (row := self._tx.one(f"SELECT {COLUMNS} FROM plan_tasks WHERE id = :id{lock}", id=id)) is None:
            raise missing(id)
        return read_task(row)

    def _named(self, task: Task, statuses: Sequence[str], limit: int) -> list[Task]:
        rows = self._tx.all(
            f"""
            SELECT {COLUMNS} FROM plan_tasks
             WHERE id IN (SELECT depends_on_id FROM plan_dependencies WHERE task_id = :id)
               AND status IN :statuses ORDER BY sequence, position LIMIT :limit
            """,
            id=task.id, statuses=list(statuses), limit=limit,
        )  # fmt: skip
        return [read_task(row) for row in rows]

    def _open_before(self, task: Task, limit: int) -> list[Task]:
        return [] if task.is_explicit else self._before(task, OPEN, limit)

    def _before(self, task: Task, statuses: Sequence[str], limit: int) -> list[Task]:
        """Tasks of the next lower sequence with one of these statuses."""
        rows = self._tx.all(
            f"""
            SELECT {COLUMNS} FROM plan_tasks
             WHERE workflow_id = :workflow_id AND status IN :statuses AND sequence = {LEVEL_BEFORE}
             ORDER BY position LIMIT :limit
            """,
            workflow_id=task.workflow_id, sequence=task.sequence, statuses=list(statuses), limit=limit,
        )  # fmt: skip
        return [read_task(row) for row in rows]

    def _count_level(self, task: Task, statuses: Sequence[str]) -> int:
        number: int = self._tx.value(
            f"SELECT count(*) FROM plan_tasks WHERE workflow_id = :workflow_id"
            f" AND status IN :statuses AND sequence = {LEVEL_BEFORE}",
            workflow_id=task.workflow_id, sequence=task.sequence, statuses=list(statuses),
        )  # fmt: skip
        return number


@stored
def _node(row: Row) -> Node:
    depends_on = frozenset(row["edges"]) if row["is_explicit"] else None
    return Node(
        row["id"], row["name"], row["sequence"], depends_on, TaskStatus(row["status"]), row["parallel_group"]
    )


@stored
def _tally(row: Row) -> Tally:
    return Tally(
        row["sequence"],
        TaskStatus(row["status"]),
        int(row["count"]),
        int(row["waiting"]),
        int(row["implied"]),
    )
