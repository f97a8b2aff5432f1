"""What the inbox keeps, and what it reads of all slices: marks, agents that wait, open tasks of plans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.views.overview.inbox_marks import InboxMark
from deepwork.work.agents.lease_conditions import IS_VALID

_OPEN = ("pending", "planning", "in_progress", "paused", "failed")


class InboxMarkStore:
    """Reads and writes marks of the inbox."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def find_all(self) -> dict[str, InboxMark]:
        """Return all marks, by the key of their entry."""
        rows = self._tx.fetch_all(f"SELECT {_COLUMNS} FROM inbox_marks ORDER BY item")
        return {row["item"]: _from_row(row) for row in rows}

    def save(self, marks: Sequence[InboxMark]) -> None:
        """Store marks in place of those that the entries had; one that says nothing is removed."""
        self.delete([mark.item for mark in marks])
        self._tx.insert_many("inbox_marks", [vars(mark) for mark in marks if not mark.is_empty])

    def delete(self, items: Sequence[str]) -> None:
        """Remove the marks of these entries."""
        if items:
            self._tx.execute("DELETE FROM inbox_marks WHERE item IN :items", items=list(items))


_COLUMNS = ", ".join(InboxMark.__dataclass_fields__)


@row_parser
def _from_row(row: Row) -> InboxMark:
    return InboxMark(**row)


class BlockedStore:
    """Reads which agents and tasks wait."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_parked(self) -> list[Row]:
        """List the attempts of agents that wait for a person or a budget."""
        return self._tx.fetch_all(
            """SELECT task_id, workflow_id, run_id, agent_id, parked_for FROM attempts
                WHERE ended_at IS NULL AND stage = 'parked' AND parked_for IN ('person', 'budget')"""
        )

    def list_holders(self, tasks: Sequence[str]) -> list[Row]:
        """List the agents that hold these tasks."""
        sql = f"SELECT what, who FROM leases WHERE what IN :tasks AND who IS NOT NULL AND {IS_VALID}"
        return self._tx.fetch_all(sql, tasks=list(tasks), now=self._tx.now)

    def list_agent_names(self, ids: Sequence[str]) -> list[str]:
        """List the names of agents."""
        sql = "SELECT name FROM agents WHERE id IN :ids ORDER BY name, id"
        return [row["name"] for row in self._tx.fetch_all(sql, ids=list(ids))]

    def count_open_by_level(self, plans: Sequence[str]) -> dict[str, list[tuple[int, int, int]]]:
        """List the levels of plans: their open tasks, and those of them that wait for the level before."""
        rows = self._tx.fetch_all(
            """SELECT workflow_id, sequence, count(*) AS open,
                      sum(CASE WHEN is_explicit THEN 0 ELSE 1 END) AS implied
                 FROM plan_tasks WHERE workflow_id IN :plans AND status IN :open
                GROUP BY workflow_id, sequence""",
            plans=list(plans),
            open=list(_OPEN),
        )
        found: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for row in rows:
            found[row["workflow_id"]].append((row["sequence"], int(row["open"]), int(row["implied"])))
        return found

    def find_levels(self, tasks: Sequence[str]) -> dict[str, int]:
        """Return the sequence of each of these tasks."""
        rows = self._tx.fetch_all("SELECT id, sequence FROM plan_tasks WHERE id IN :tasks", tasks=list(tasks))
        return {row["id"]: row["sequence"] for row in rows}

    def list_dependents(self, tasks: Sequence[str]) -> Mapping[str, set[str]]:
        """Return the open tasks that name each of these in `depends_on`, or name such a task, and so on."""
        found: dict[str, set[str]] = {task: set() for task in tasks}
        rows = self._tx.fetch_all(
            """WITH RECURSIVE blocked (root, id) AS (
                   SELECT depends_on_id, task_id FROM plan_dependencies WHERE depends_on_id IN :tasks
                   UNION
                   SELECT blocked.root, named.task_id FROM blocked
                     JOIN plan_dependencies AS named ON named.depends_on_id = blocked.id)
               SELECT blocked.root, blocked.id FROM blocked JOIN plan_tasks AS task ON task.id = blocked.id
                WHERE task.status IN :open""",
            tasks=list(tasks),
            open=list(_OPEN),
        )
        for row in rows:
            found[row["root"]].add(row["id"])
        return found

    def list_open_names(self, plan: str, limit: int) -> list[str]:
        """List the first open tasks of a plan, by name."""
        return self._list_names("TRUE", plan, limit)

    def list_names_after(self, plan: str, named: Sequence[str], level: int, limit: int) -> list[str]:
        """List the first open tasks that are named, or wait for a level of the plan, by name."""
        after = "(id IN :named OR (NOT is_explicit AND sequence > :level))"
        return self._list_names(after, plan, limit, named=list(named), level=level)

    def _list_names(self, condition: str, plan: str, limit: int, **values: object) -> list[str]:
        sql = f"""
            SELECT name FROM plan_tasks
             WHERE workflow_id = :plan AND status IN :open AND {condition} ORDER BY position LIMIT :limit
        """
        rows = self._tx.fetch_all(sql, plan=plan, open=list(_OPEN), limit=limit, **values)
        return [row["name"] for row in rows]
