"""Storage of planned tasks, and queries about their dependencies.

A task is blocked while it waits: for tasks in its `depends_on` (`open_dependencies` counts those not done)
or, without `depends_on`, for the whole next lower sequence. `graph` implements the same rule in memory; here
it is SQL, so that 10,000 tasks need not be read. `queue_store` has the queries for tasks that can start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deepwork.kernel.database.engine import Row, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.plans.models import Node, RelatedTask, StatusCount, Task, TaskStatus, WaitingTask
from deepwork.work.plans.stores.plan_store import (
    COLUMNS,
    DONE,
    LEVEL_BEFORE,
    OPEN,
    RELATED_COLUMNS,
    UNBLOCKED,
    batch_ids,
    build_capability_rows,
    build_not_found,
    diff_columns,
    read_related_task,
    read_task,
)

_NO_LIMIT = 1_000_000
_LAST_HOLDER_SQL = """
    CASE WHEN claimed_by IS NOT NULL THEN claimed_by
         WHEN plan_tasks.status <> 'pending' THEN (
              SELECT agent_id FROM plan_claims WHERE task_id = plan_tasks.id ORDER BY epoch DESC LIMIT 1) END
"""
_WAITING_COLUMNS = ", ".join(WaitingTask._fields)
_BLOCKED_SQL = f"""
    FROM plan_tasks WHERE workflow_id = :id AND status = 'pending' AND NOT ({UNBLOCKED})
    ORDER BY sequence, position LIMIT :limit
"""


class TaskStore:
    """Reads and writes planned tasks."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    # One task

    def get(self, id: str) -> Task:
        """Return the task with this id."""
        return self._get(id, "")

    def get_for_update(self, id: str) -> Task:
        """Return the task with this id, locked until the transaction ends."""
        return self._get(id, self._tx.row_lock)

    def save(self, before: Task, after: Task) -> None:
        """Write the columns that changed."""
        self._tx.update("plan_tasks", after.id, diff_columns(before, after))
        if after.required_capabilities != before.required_capabilities:
            self._tx.execute("DELETE FROM plan_capabilities WHERE task_id = :id", id=after.id)
            rows = build_capability_rows(after.id, after.required_capabilities)
            self._tx.insert_many("plan_capabilities", rows)

    def take_checkpoint_number(self, id: str) -> int:
        """Reserve the number of the task's next checkpoint; numbers have no gaps and never repeat."""
        sql = "UPDATE plan_tasks SET checkpoints = checkpoints + 1 WHERE id = :id RETURNING checkpoints"
        number: int | None = self._tx.fetch_value(sql, id=id)
        if number is None:
            raise build_not_found(id)
        return number

    # Dependencies

    def is_blocked(self, task: Task) -> bool:
        """Whether the task waits for another."""
        return task.open_dependencies > 0 or bool(self._list_open_in_previous_level(task, 1))

    def find_level_before(self, task: Task) -> tuple[int | None, bool]:
        """Return the next lower sequence of the task's plan, and whether a task of it is open."""
        sql = f"""
            SELECT level, EXISTS (SELECT 1 FROM plan_tasks
                                   WHERE workflow_id = :workflow_id AND sequence = level AND status IN :open)
                   AS is_open
              FROM (SELECT {LEVEL_BEFORE} AS level) AS previous
        """
        row = self._tx.fetch_one(sql, workflow_id=task.workflow_id, sequence=task.sequence, open=OPEN)
        return (row["level"], bool(row["is_open"])) if row else (None, False)

    def list_open_dependencies(self, task: Task, limit: int) -> tuple[list[RelatedTask], int]:
        """Return the first dependencies that are not done, and how many there are in all."""
        if task.is_explicit:
            count = task.open_dependencies
            return self._list_named_dependencies(task, OPEN, limit) if count else [], count
        found = self._list_open_in_previous_level(task, limit)
        return found, self._count_previous_level(task, OPEN) if len(found) == limit else len(found)

    def list_done_dependencies(self, task: Task, limit: int) -> tuple[list[RelatedTask], int]:
        """Return the first dependencies that are done, and how many there are in all."""
        if task.is_explicit:
            sql = "SELECT count(*) FROM plan_dependencies WHERE task_id = :id"
            total = self._tx.fetch_value(sql, id=task.id)
            return self._list_named_dependencies(task, DONE, limit), total - task.open_dependencies
        found = self._list_previous_level(task, DONE, limit)
        return found, self._count_previous_level(task, DONE) if len(found) == limit else len(found)

    def list_named(self, task_id: str, limit: int, *, are_dependents: bool = False) -> list[Row]:
        """List the tasks that this one names in `depends_on`, or those that name it, in plan order."""
        own, other = ("depends_on_id", "task_id") if are_dependents else ("task_id", "depends_on_id")
        sql = f"""
            SELECT task.id, task.name, task.status FROM plan_dependencies AS named
              JOIN plan_tasks AS task ON task.id = named.{other}
             WHERE named.{own} = :id ORDER BY task.position LIMIT :limit
        """
        return self._tx.fetch_all(sql, id=task_id, limit=limit)

    def unblock_dependents(self, task_id: str) -> None:
        """Record that the task is done: tasks that depend on it have one open dependency less."""
        sql = """
            UPDATE plan_tasks SET open_dependencies = open_dependencies - 1
             WHERE id IN (SELECT task_id FROM plan_dependencies WHERE depends_on_id = :id)
        """
        self._tx.execute(sql, id=task_id)

    def block_dependents(self, task_id: str) -> None:
        """Record that the task is open again: tasks that depend on it have one open dependency more."""
        sql = """
            UPDATE plan_tasks SET open_dependencies = open_dependencies + 1
             WHERE id IN (SELECT task_id FROM plan_dependencies WHERE depends_on_id = :id)
        """
        self._tx.execute(sql, id=task_id)

    # Whole plans

    def list_nodes(self, workflow_id: str) -> list[Node]:
        """Return the plan as graph nodes, in the order in which it was written."""
        edges: dict[str, list[str]] = {}
        sql = """
            SELECT d.task_id, d.depends_on_id FROM plan_dependencies d
              JOIN plan_tasks t ON t.id = d.task_id WHERE t.workflow_id = :workflow_id
        """
        for row in self._tx.fetch_all(sql, workflow_id=workflow_id):
            edges.setdefault(row["task_id"], []).append(row["depends_on_id"])
        sql = (
            "SELECT id, name, sequence, status, parallel_group, is_explicit FROM plan_tasks"
            " WHERE workflow_id = :workflow_id ORDER BY position"
        )
        rows = self._tx.fetch_all(sql, workflow_id=workflow_id)
        return [_read_node(row | {"edges": edges.get(row["id"], ())}) for row in rows]

    def list_dependency_names(self, ids: Sequence[str], each: int = _NO_LIMIT) -> dict[str, list[str]]:
        """Return the names of what each of these tasks depends on, in plan order; at most `each` per task."""
        names: dict[str, list[str]] = {}
        for part in batch_ids(ids):
            sql = """
                SELECT task_id, name FROM (
                    SELECT d.task_id, other.name, other.position,
                           row_number() OVER (PARTITION BY d.task_id ORDER BY other.position) AS place
                      FROM plan_dependencies d JOIN plan_tasks other ON other.id = d.depends_on_id
                     WHERE d.task_id IN :ids) AS ranked
                 WHERE place <= :each ORDER BY task_id, place
            """
            for row in self._tx.fetch_all(sql, ids=part, each=each):
                names.setdefault(row["task_id"], []).append(row["name"])
        return names

    def count_dependencies(self, ids: Sequence[str]) -> dict[str, int]:
        """Count the tasks that each of these names in `depends_on`."""
        return {
            row["task_id"]: row["count"]
            for part in batch_ids(ids)
            for row in self._tx.fetch_all(
                "SELECT task_id, count(*) AS count FROM plan_dependencies WHERE task_id IN :ids"
                " GROUP BY task_id",
                ids=part,
            )
        }

    def list_by_workflow(self, workflow_id: str, limit: int) -> tuple[list[Task], int]:
        """Return the first tasks of the plan, and how many there are."""
        sql = (
            f"SELECT {COLUMNS} FROM plan_tasks WHERE workflow_id = :id"
            " ORDER BY sequence, position LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, id=workflow_id, limit=limit)
        total = len(rows) if len(rows) < limit else self.count(workflow_id)
        return [read_task(row) for row in rows], total

    def list_in_plan_order(
        self,
        workflow_id: str,
        *,
        sequence: int | None,
        agent_name: str | None,
        since: int | None,
        after: int | None,
        limit: int,
    ) -> tuple[list[Task], int]:
        """Return the matching tasks after this position in plan order, and how many match in all.

        `agent_name` selects tasks that agents of that name hold, or held when they ended, `since` those
        changed since that time.
        """
        held = f"(SELECT name FROM agents WHERE agents.id = {_LAST_HOLDER_SQL}) = :agent_name"
        filters = build_where(
            {
                "workflow_id = :id": workflow_id,
                "sequence = :sequence": sequence,
                held: agent_name,
                "updated_at >= :since": since,
            }
        )
        values = {"id": workflow_id, "sequence": sequence, "agent_name": agent_name, "since": since}
        total: int = self._tx.fetch_value(f"SELECT count(*) FROM plan_tasks {filters}", **values)
        sql = (
            f"SELECT {COLUMNS} FROM plan_tasks {filters} AND position > :after ORDER BY position LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, after=after or 0, limit=limit, **values)
        return [read_task(row) for row in rows], total

    def count(self, workflow_id: str) -> int:
        sql = "SELECT count(*) FROM plan_tasks WHERE workflow_id = :id"
        number: int = self._tx.fetch_value(sql, id=workflow_id)
        return number

    def count_open(self, workflow_id: str) -> int:
        """Count the tasks that are not done."""
        sql = "SELECT count(*) FROM plan_tasks WHERE workflow_id = :id AND status IN :open"
        number: int = self._tx.fetch_value(sql, id=workflow_id, open=OPEN)
        return number

    def are_all_done(self, workflow_id: str) -> bool:
        """Whether no task is open."""
        sql = "SELECT 1 FROM plan_tasks WHERE workflow_id = :id AND status IN :open LIMIT 1"
        row = self._tx.fetch_one(sql, id=workflow_id, open=OPEN)
        return row is None

    def list_by_status(
        self, workflow_id: str, statuses: Sequence[TaskStatus], limit: int, *, newest_first: bool = False
    ) -> list[Task]:
        """Return tasks with one of these statuses, in plan order or most recently finished first."""
        order = "finished_at DESC, position DESC" if newest_first else "sequence, position"
        sql = (
            f"SELECT {COLUMNS} FROM plan_tasks WHERE workflow_id = :id AND status IN :statuses"
            f" ORDER BY {order} LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, id=workflow_id, statuses=list(statuses), limit=limit)
        return [read_task(row) for row in rows]

    # Claims

    def find_last_holder_names(self, ids: Sequence[str]) -> dict[str, str]:
        """Map those of these tasks that an agent holds, or held when they ended, to its name."""
        sql = f"""
            SELECT plan_tasks.id, agents.name FROM plan_tasks JOIN agents ON agents.id = {_LAST_HOLDER_SQL}
             WHERE plan_tasks.id IN :ids
        """
        return {row["id"]: row["name"] for row in self._tx.fetch_all(sql, ids=list(ids))}

    def use_up_attempts(self, task: Task) -> None:
        """Let the next failure be the last one: the runner counts the attempts of its agents itself."""
        sql = (
            "UPDATE plan_tasks SET failures = max_attempts - 1 WHERE id = :id AND failures < max_attempts - 1"
        )
        self._tx.execute(sql, id=task.id)

    # Status

    def count_by_status(self, workflow_id: str) -> list[StatusCount]:
        """Count the tasks per sequence and status."""
        sql = """
            SELECT sequence, status, count(*) AS count,
                   count(*) FILTER (WHERE open_dependencies > 0) AS waiting,
                   count(*) FILTER (WHERE NOT is_explicit) AS implied
              FROM plan_tasks WHERE workflow_id = :id GROUP BY sequence, status ORDER BY sequence
        """
        rows = self._tx.fetch_all(sql, id=workflow_id)
        return [_read_status_count(row) for row in rows]

    def list_blocked(self, workflow_id: str, free_levels: Sequence[int], limit: int) -> list[Task]:
        """Return the pending tasks that wait for another, in plan order."""
        sql = f"SELECT {COLUMNS} {_BLOCKED_SQL}"
        rows = self._tx.fetch_all(sql, id=workflow_id, levels=list(free_levels), limit=limit)
        return [read_task(row) for row in rows]

    def list_waiting(self, workflow_id: str, free_levels: Sequence[int], limit: int) -> list[WaitingTask]:
        """Return the same tasks as `list_blocked`, without their texts."""
        sql = f"SELECT {_WAITING_COLUMNS} {_BLOCKED_SQL}"
        rows = self._tx.fetch_tuples(sql, id=workflow_id, levels=list(free_levels), limit=limit)
        return [WaitingTask(*row) for row in rows]

    def list_siblings(self, task: Task, limit: int) -> tuple[list[RelatedTask], int]:
        """Return other tasks of its parallel group, and how many there are."""
        if task.parallel_group is None:
            return [], 0
        condition = "workflow_id = :workflow_id AND parallel_group = :group AND id <> :id"
        values = {"workflow_id": task.workflow_id, "group": task.parallel_group, "id": task.id}
        return self._list_related(condition, "sequence, position", values, limit)

    def list_prior(self, task: Task, limit: int) -> tuple[list[RelatedTask], int]:
        """Return tasks of lower sequences, most recently finished first, and how many there are."""
        condition = "workflow_id = :workflow_id AND sequence < :sequence"
        order = "coalesce(finished_at, 0) DESC, sequence DESC, position DESC"
        values = {"workflow_id": task.workflow_id, "sequence": task.sequence}
        return self._list_related(condition, order, values, limit)

    def _list_related(
        self, condition: str, order: str, values: Row, limit: int
    ) -> tuple[list[RelatedTask], int]:
        found = f"plan_tasks WHERE {condition}"
        rows, total = self._tx.list_first(RELATED_COLUMNS, found, order, limit, **values)
        return [read_related_task(row) for row in rows], total

    def find_by_ids(self, ids: Sequence[str]) -> dict[str, Task]:
        """Return the tasks with these ids, by id; ids that do not exist are left out."""
        rows = self._tx.fetch_all(f"SELECT {COLUMNS} FROM plan_tasks WHERE id IN :ids", ids=list(ids))
        return {row["id"]: read_task(row) for row in rows}

    def map_names(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the names of the tasks with these ids; ids that do not exist are left out."""
        wanted = sorted(ids)
        if not wanted:
            return {}
        rows = self._tx.fetch_all("SELECT id, name FROM plan_tasks WHERE id IN :ids", ids=wanted)
        return {row["id"]: row["name"] for row in rows}

    # Helpers

    def _get(self, id: str, lock: str) -> Task:
        if (
            row := self._tx.fetch_one(f"SELECT {COLUMNS} FROM plan_tasks WHERE id = :id{lock}", id=id)
        ) is None:
            raise build_not_found(id)
        return read_task(row)

    def _list_named_dependencies(self, task: Task, statuses: Sequence[str], limit: int) -> list[RelatedTask]:
        sql = f"""
            SELECT {RELATED_COLUMNS} FROM plan_tasks
             WHERE id IN (SELECT depends_on_id FROM plan_dependencies WHERE task_id = :id)
               AND status IN :statuses ORDER BY sequence, position LIMIT :limit
        """
        rows = self._tx.fetch_all(sql, id=task.id, statuses=list(statuses), limit=limit)
        return [read_related_task(row) for row in rows]

    def _list_open_in_previous_level(self, task: Task, limit: int) -> list[RelatedTask]:
        return [] if task.is_explicit else self._list_previous_level(task, OPEN, limit)

    def _list_previous_level(self, task: Task, statuses: Sequence[str], limit: int) -> list[RelatedTask]:
        """Return tasks of the next lower sequence with one of these statuses."""
        sql = f"""
            SELECT {RELATED_COLUMNS} FROM plan_tasks
             WHERE workflow_id = :workflow_id AND status IN :statuses AND sequence = {LEVEL_BEFORE}
             ORDER BY position LIMIT :limit
        """
        rows = self._tx.fetch_all(
            sql, workflow_id=task.workflow_id, sequence=task.sequence, statuses=list(statuses), limit=limit
        )
        return [read_related_task(row) for row in rows]

    def _count_previous_level(self, task: Task, statuses: Sequence[str]) -> int:
        sql = (
            f"SELECT count(*) FROM plan_tasks WHERE workflow_id = :workflow_id"
            f" AND status IN :statuses AND sequence = {LEVEL_BEFORE}"
        )
        number: int = self._tx.fetch_value(
            sql, workflow_id=task.workflow_id, sequence=task.sequence, statuses=list(statuses)
        )
        return number


@row_parser
def _read_node(row: Row) -> Node:
    depends_on = frozenset(row["edges"]) if row["is_explicit"] else None
    return Node(
        row["id"], row["name"], row["sequence"], depends_on, TaskStatus(row["status"]), row["parallel_group"]
    )


@row_parser
def _read_status_count(row: Row) -> StatusCount:
    return StatusCount(
        row["sequence"],
        TaskStatus(row["status"]),
        int(row["count"]),
        int(row["waiting"]),
        int(row["implied"]),
    )
