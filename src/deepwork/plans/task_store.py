"""What is kept of planned tasks, and what the rules ask about many of them at once.

A blocked task is one that waits: for tasks it names (`open_dependencies` counts those not done), or, if it
names none, for the whole next lower sequence. `graph` says the same of a few; here 10,000 tasks are asked
without being read one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from deepwork.database.engine import Row, stored
from deepwork.database.transaction import Transaction
from deepwork.errors import NotFound
from deepwork.plans.models import Node, Tally, Task, TaskStatus

_DONE = ("completed", "skipped")
_OPEN = ("pending", "failed", "planning", "in_progress", "paused")
_RUNNING = ("planning", "in_progress", "paused")

_HAS_NOTES = (  # of somebody who worked on it; that a claim ran out is only our own word
    "EXISTS (SELECT 1 FROM checkpoints c WHERE c.task_id = plan_tasks.id AND c.type <> 'recovery')"
)
_MOST_AT_ONCE = 10_000
"""How many ids one statement names."""
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
        old, new = _row(before), _row(after)
        self._tx.update("plan_tasks", after.id, {name: new[name] for name in new if new[name] != old[name]})

    def next_checkpoint(self, id: str) -> int:
        """The number of the task's next checkpoint, taken: numbers have no gaps and never repeat."""
        number: int | None = self._tx.value(
            "UPDATE plan_tasks SET checkpoints = checkpoints + 1 WHERE id = :id RETURNING checkpoints", id=id
        )
        if number is None:
            raise _missing(id)
        return number

    # What it waits for

    def is_blocked(self, task: Task) -> bool:
        """Whether it still waits for another."""
        return task.open_dependencies > 0 or bool(self._open_before(task, 1))

    def open_dependencies(self, task: Task, limit: int) -> tuple[list[Task], int]:
        """The first of what it waits for and is not done, and how many there are in all."""
        if task.is_explicit:
            open_ones = self._named(task, _OPEN, limit)
            return open_ones, task.open_dependencies
        found = self._open_before(task, limit)
        return found, self._count_level(task, _OPEN) if len(found) == limit else len(found)

    def done_dependencies(self, task: Task, limit: int) -> tuple[list[Task], int]:
        """The first of what it waited for and is done, and how many there are in all."""
        if task.is_explicit:
            total = self._tx.value("SELECT count(*) FROM plan_dependencies WHERE task_id = :id", id=task.id)
            return self._named(task, _DONE, limit), total - task.open_dependencies
        found = self._before(task, _DONE, limit)
        return found, self._count_level(task, _DONE) if len(found) == limit else len(found)

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

    def add_all(self, tasks: Sequence[Task], edges: Iterable[tuple[str, str]]) -> None:
        """Keep new tasks and what they name: pairs of a task and one it waits for."""
        self._tx.insert_all("plan_tasks", [_new_row(task) for task in tasks])
        self.add_edges(edges)

    def add_edges(self, edges: Iterable[tuple[str, str]]) -> None:
        """Let tasks wait for others: pairs of a task and one it waits for."""
        self._tx.insert_all(
            "plan_dependencies", [{"task_id": task, "depends_on_id": other} for task, other in edges]
        )

    def untouched(self, workflow_id: str) -> list[Task]:
        """Tasks that nobody holds, has begun or noted anything on, in the order of the plan."""
        rows = self._tx.all(
            f"""
            SELECT {_COLUMNS} FROM plan_tasks
             WHERE workflow_id = :id AND status = 'pending' AND claimed_by IS NULL AND attempts = 0
               AND (checkpoints = 0 OR NOT {_HAS_NOTES}) ORDER BY position
            """,
            id=workflow_id,
        )
        return [_task(row) for row in rows]

    def was_begun(self, task: Task) -> bool:
        """Whether somebody holds it, has begun it or noted anything on it."""
        if task.status is not TaskStatus.PENDING or task.attempts or task.claimed_by:
            return True
        return bool(self._tx.value(f"SELECT {_HAS_NOTES} FROM plan_tasks WHERE id = :id", id=task.id))

    def remove(self, ids: Sequence[str]) -> None:
        """Forget tasks that were never begun, with their edges."""
        for part in _parts(ids):
            self._tx.run(
                "DELETE FROM plan_dependencies WHERE task_id IN :ids OR depends_on_id IN :ids", ids=part
            )
            self._tx.run("DELETE FROM plan_claims WHERE task_id IN :ids", ids=part)
            self._tx.run("DELETE FROM checkpoints WHERE task_id IN :ids", ids=part)
            self._tx.run("DELETE FROM plan_tasks WHERE id IN :ids", ids=part)

    def recount(self, workflow_id: str) -> None:
        """Count anew what every task waits for: the plan itself has changed."""
        self._tx.run(
            """
            UPDATE plan_tasks SET open_dependencies =
                   (SELECT count(*) FROM plan_dependencies d
                      JOIN plan_tasks other ON other.id = d.depends_on_id
                     WHERE d.task_id = plan_tasks.id AND other.status IN :open)
             WHERE workflow_id = :workflow_id
            """,
            workflow_id=workflow_id, open=_OPEN,
        )  # fmt: skip

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
        for part in _parts(ids):
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
            for part in _parts(ids)
            for row in self._tx.all(
                "SELECT task_id, count(*) AS count FROM plan_dependencies WHERE task_id IN :ids"
                " GROUP BY task_id",
                ids=part,
            )
        }

    def of_workflow(self, workflow_id: str, limit: int) -> tuple[list[Task], int]:
        """The first tasks of the plan, and how many there are."""
        rows = self._tx.all(
            f"SELECT {_COLUMNS} FROM plan_tasks WHERE workflow_id = :id"
            " ORDER BY sequence, position LIMIT :limit",
            id=workflow_id, limit=limit,
        )  # fmt: skip
        total = len(rows) if len(rows) < limit else self.count(workflow_id)
        return [_task(row) for row in rows], total

    def count(self, workflow_id: str) -> int:
        number: int = self._tx.value(
            "SELECT count(*) FROM plan_tasks WHERE workflow_id = :id", id=workflow_id
        )
        return number

    def count_open(self, workflow_id: str) -> int:
        """How many tasks are not done."""
        number: int = self._tx.value(
            "SELECT count(*) FROM plan_tasks WHERE workflow_id = :id AND status IN :open",
            id=workflow_id, open=_OPEN,
        )  # fmt: skip
        return number

    def all_done(self, workflow_id: str) -> bool:
        """Whether no task is left to do; a plan without tasks has not been done."""
        row = self._tx.one(
            "SELECT 1 FROM plan_tasks WHERE workflow_id = :id AND status IN :open LIMIT 1",
            id=workflow_id, open=_OPEN,
        )  # fmt: skip
        return row is None

    def last_position(self, workflow_id: str) -> int:
        number: int | None = self._tx.value(
            "SELECT max(position) FROM plan_tasks WHERE workflow_id = :id", id=workflow_id
        )
        return number or 0

    def with_status(
        self, workflow_id: str, statuses: Sequence[TaskStatus], limit: int, *, newest_first: bool = False
    ) -> list[Task]:
        """Tasks with one of these statuses, in the order of the plan or the last finished first."""
        order = "finished_at DESC, position DESC" if newest_first else "sequence, position"
        rows = self._tx.all(
            f"SELECT {_COLUMNS} FROM plan_tasks WHERE workflow_id = :id AND status IN :statuses"
            f" ORDER BY {order} LIMIT :limit",
            id=workflow_id, statuses=list(statuses), limit=limit,
        )  # fmt: skip
        return [_task(row) for row in rows]

    # Who works

    def under_way(self, workflow_id: str) -> list[Task]:
        """Tasks that somebody has claimed or begun, in the order of the plan; also if the claim ran out."""
        rows = self._tx.all(
            f"""
            SELECT {_COLUMNS} FROM plan_tasks WHERE workflow_id = :id AND status IN :running
             UNION
            SELECT {_COLUMNS} FROM plan_tasks WHERE workflow_id = :id AND claimed_by IS NOT NULL
             ORDER BY sequence, position
            """,
            id=workflow_id, running=_RUNNING,
        )  # fmt: skip
        return [_task(row) for row in rows]

    def claimed(self, workflow_id: str) -> list[str]:
        """Tasks that somebody has claimed, whether or not the claim still runs."""
        rows = self._tx.all(
            "SELECT id FROM plan_tasks WHERE workflow_id = :id AND claimed_by IS NOT NULL", id=workflow_id
        )
        return [row["id"] for row in rows]

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

    def ready(
        self, workflow_id: str, status: TaskStatus, free_levels: Sequence[int], limit: int
    ) -> tuple[list[Task], int]:
        """Unclaimed tasks that wait for nothing, in the order of the plan, and how many there are.

        `free_levels` are the sequences whose next lower one is done.
        """
        condition = f"workflow_id = :id AND status = :status AND claimed_by IS NULL AND {_UNBLOCKED}"
        values = {"id": workflow_id, "status": status, "levels": list(free_levels)}
        rows = self._tx.all(
            f"SELECT {_COLUMNS} FROM plan_tasks WHERE {condition} ORDER BY sequence, position LIMIT :limit",
            limit=limit, **values,
        )  # fmt: skip
        total = len(rows)
        if total == limit:
            total = self._tx.value(f"SELECT count(*) FROM plan_tasks WHERE {condition}", **values)
        return [_task(row) for row in rows], total

    def blocked(self, workflow_id: str, free_levels: Sequence[int], limit: int) -> list[Task]:
        """Pending tasks that wait for another, in the order of the plan."""
        rows = self._tx.all(
            f"""
            SELECT {_COLUMNS} FROM plan_tasks
             WHERE workflow_id = :id AND status = 'pending' AND NOT ({_UNBLOCKED})
             ORDER BY sequence, position LIMIT :limit
            """,
            id=workflow_id, levels=list(free_levels), limit=limit,
        )  # fmt: skip
        return [_task(row) for row in rows]

    def blockers(self, tasks: Sequence[Task], each: int) -> dict[str, list[str]]:
        """For each of these tasks, the names of the first few that it waits for."""
        return self._names_before(tasks, _OPEN, each)

    def completed_before(self, tasks: Sequence[Task], each: int) -> dict[str, list[str]]:
        """For each of these tasks, the names of the first few that it waited for and that are done."""
        return self._names_before(tasks, _DONE, each)

    def groups(self, workflow_id: str, limit: int) -> tuple[list[Row], int]:
        """The first parallel groups of the plan with their tasks and how many are done; how many groups."""
        rows = self._tx.all(
            """
            SELECT parallel_group AS group_id, count(*) AS task_count,
                   sum(CASE WHEN status IN :done THEN 1 ELSE 0 END) AS completed
              FROM plan_tasks WHERE workflow_id = :id AND parallel_group IS NOT NULL
             GROUP BY parallel_group ORDER BY min(sequence), parallel_group LIMIT :limit
            """,
            id=workflow_id, done=_DONE, limit=limit,
        )  # fmt: skip
        total = len(rows)
        if total == limit:
            total = self._tx.value(
                "SELECT count(DISTINCT parallel_group) FROM plan_tasks WHERE workflow_id = :id",
                id=workflow_id,
            )
        return rows, total

    def siblings(self, task: Task, limit: int) -> tuple[list[Task], int]:
        """Other tasks of its parallel group, and how many there are."""
        if task.parallel_group is None:
            return [], 0
        values = {"workflow_id": task.workflow_id, "group": task.parallel_group, "id": task.id}
        condition = "workflow_id = :workflow_id AND parallel_group = :group AND id <> :id"
        rows = self._tx.all(
            f"SELECT {_COLUMNS} FROM plan_tasks WHERE {condition} ORDER BY sequence, position LIMIT :limit",
            limit=limit, **values,
        )  # fmt: skip
        total = self._tx.value(f"SELECT count(*) FROM plan_tasks WHERE {condition}", **values)
        return [_task(row) for row in rows], total

    def prior(self, task: Task, limit: int) -> tuple[list[Task], int]:
        """Tasks of lower sequence, the last finished first, and how many there are."""
        values = {"workflow_id": task.workflow_id, "sequence": task.sequence}
        condition = "workflow_id = :workflow_id AND sequence < :sequence"
        rows = self._tx.all(
            f"SELECT {_COLUMNS} FROM plan_tasks WHERE {condition}"
            " ORDER BY coalesce(finished_at, 0) DESC, sequence DESC, position DESC LIMIT :limit",
            limit=limit, **values,
        )  # fmt: skip
        total = self._tx.value(f"SELECT count(*) FROM plan_tasks WHERE {condition}", **values)
        return [_task(row) for row in rows], total

    def named(self, ids: Sequence[str]) -> dict[str, Task]:
        """These tasks, by their ids; those that are not there are left out."""
        rows = self._tx.all(f"SELECT {_COLUMNS} FROM plan_tasks WHERE id IN :ids", ids=list(ids))
        return {row["id"]: _task(row) for row in rows}

    # Helpers

    def _one(self, id: str, lock: str) -> Task:
        if (row := self._tx.one(f"SELECT {_COLUMNS} FROM plan_tasks WHERE id = :id{lock}", id=id)) is None:
            raise _missing(id)
        return _task(row)

    def _named(self, task: Task, statuses: Sequence[str], limit: int) -> list[Task]:
        rows = self._tx.all(
            f"""
            SELECT {_COLUMNS} FROM plan_tasks
             WHERE id IN (SELECT depends_on_id FROM plan_dependencies WHERE task_id = :id)
               AND status IN :statuses ORDER BY sequence, position LIMIT :limit
            """,
            id=task.id, statuses=list(statuses), limit=limit,
        )  # fmt: skip
        return [_task(row) for row in rows]

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
                of_level[task.sequence] = [other.name for other in self._before(task, statuses, each)]
            found[task.id] = of_level[task.sequence]
        return found

    def _open_before(self, task: Task, limit: int) -> list[Task]:
        return [] if task.is_explicit else self._before(task, _OPEN, limit)

    def _before(self, task: Task, statuses: Sequence[str], limit: int) -> list[Task]:
        """Tasks of the next lower sequence with one of these statuses."""
        rows = self._tx.all(
            f"""
            SELECT {_COLUMNS} FROM plan_tasks
             WHERE workflow_id = :workflow_id AND status IN :statuses AND sequence = {_LEVEL_BEFORE}
             ORDER BY position LIMIT :limit
            """,
            workflow_id=task.workflow_id, sequence=task.sequence, statuses=list(statuses), limit=limit,
        )  # fmt: skip
        return [_task(row) for row in rows]

    def _count_level(self, task: Task, statuses: Sequence[str]) -> int:
        number: int = self._tx.value(
            f"SELECT count(*) FROM plan_tasks WHERE workflow_id = :workflow_id"
            f" AND status IN :statuses AND sequence = {_LEVEL_BEFORE}",
            workflow_id=task.workflow_id, sequence=task.sequence, statuses=list(statuses),
        )  # fmt: skip
        return number


_COLUMNS = ", ".join(Task.__dataclass_fields__)
_UNBLOCKED = "((is_explicit AND open_dependencies = 0) OR (NOT is_explicit AND sequence IN :levels))"
_LEVEL_BEFORE = (
    "(SELECT max(sequence) FROM plan_tasks WHERE workflow_id = :workflow_id AND sequence < :sequence)"
)


def _parts(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    """As many at a time as a statement should name."""
    return (ids[start : start + _MOST_AT_ONCE] for start in range(0, len(ids), _MOST_AT_ONCE))


def _missing(id: str) -> NotFound:
    return NotFound("task", id, suggestion="See workflow_get with include_tasks for the tasks of a plan.")


_JSON = ("plan", "context", "outcome_detail")


def _row(task: Task) -> Row:
    return vars(task) | {name: _dumped(getattr(task, name)) for name in _JSON}


def _new_row(task: Task) -> Row:
    """As `_row`, without the columns that are empty before anybody has touched the task."""
    return {
        "id": task.id, "workflow_id": task.workflow_id, "position": task.position, "name": task.name,
        "description": task.description, "status": task.status, "sequence": task.sequence,
        "parallel_group": task.parallel_group, "is_explicit": task.is_explicit,
        "open_dependencies": task.open_dependencies, "context": json.dumps(task.context),
        "attempts": 0, "checkpoints": 0, "created_at": task.created_at, "updated_at": task.updated_at,
    }  # fmt: skip


def _dumped(value: Mapping[str, object] | None) -> str | None:
    return None if value is None else json.dumps(value)


@stored
def _task(row: Row) -> Task:
    read = {name: json.loads(row[name]) if row[name] else None for name in _JSON}
    read["context"] = read["context"] or {}
    return Task(
        **(row | read | {"status": TaskStatus(row["status"]), "is_explicit": bool(row["is_explicit"])})
    )


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
