"""What is kept of a plan as a whole while it is made or changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic_core import to_json

from deepwork.database.engine import Row
from deepwork.database.transaction import Transaction
from deepwork.plans.models import Outline, Task, TaskStatus
from deepwork.plans.task_rows import COLUMNS, OPEN, parts, read_task

_HAS_NOTES = (  # of somebody who worked on it; that a claim ran out is only our own word
    "EXISTS (SELECT 1 FROM checkpoints c WHERE c.task_id = plan_tasks.id AND c.type <> 'recovery')"
)


class NewTask(NamedTuple):
    """An outline that is given its place among the tasks."""

    id: str
    position: int
    outline: Outline
    open_dependencies: int


class PlanningStore:
    """The tasks of a plan and their edges, as rows that come and go."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add_all(self, workflow_id: str, tasks: Iterable[NewTask], edges: Iterable[tuple[str, str]]) -> None:
        """Keep new tasks and what they name: pairs of a task and one it waits for."""
        now = self._tx.now
        self._tx.insert_all("plan_tasks", [_row(workflow_id, task, now) for task in tasks])
        self.add_edges(edges)

    def add_edges(self, edges: Iterable[tuple[str, str]]) -> None:
        """Let tasks wait for others: pairs of a task and one it waits for."""
        self._tx.insert_all(
            "plan_dependencies", [{"task_id": task, "depends_on_id": other} for task, other in edges]
        )

    def since(self, workflow_id: str, position: int) -> list[Task]:
        """Tasks from that place of the plan on, in its order."""
        rows = self._tx.all(
            f"SELECT {COLUMNS} FROM plan_tasks WHERE workflow_id = :id AND position >= :position"
            " ORDER BY position",
            id=workflow_id, position=position,
        )  # fmt: skip
        return [read_task(row) for row in rows]

    def untouched(self, workflow_id: str) -> list[Task]:
        """Tasks that nobody holds, has begun or noted anything on, in the order of the plan."""
        rows = self._tx.all(
            f"""
            SELECT {COLUMNS} FROM plan_tasks
             WHERE workflow_id = :id AND status = 'pending' AND claimed_by IS NULL AND attempts = 0
               AND (checkpoints = 0 OR NOT {_HAS_NOTES}) ORDER BY position
            """,
            id=workflow_id,
        )
        return [read_task(row) for row in rows]

    def was_begun(self, task: Task) -> bool:
        """Whether somebody holds it, has begun it or noted anything on it."""
        if task.status is not TaskStatus.PENDING or task.attempts or task.claimed_by:
            return True
        return bool(self._tx.value(f"SELECT {_HAS_NOTES} FROM plan_tasks WHERE id = :id", id=task.id))

    def remove(self, ids: Sequence[str]) -> None:
        """Forget tasks that were never begun, with their edges."""
        for part in parts(ids):
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
            workflow_id=workflow_id, open=OPEN,
        )  # fmt: skip

    def last_position(self, workflow_id: str) -> int:
        number: int | None = self._tx.value(
            "SELECT max(position) FROM plan_tasks WHERE workflow_id = :id", id=workflow_id
        )
        return number or 0


def _row(workflow_id: str, task: NewTask, now: int) -> Row:
    """Without the columns that are empty before anybody has touched the task."""
    outline = task.outline
    return {
        "id": task.id, "workflow_id": workflow_id, "position": task.position, "name": outline.name.strip(),
        "description": outline.description, "status": "pending", "sequence": outline.sequence,
        "parallel_group": outline.parallel_group, "is_explicit": outline.depends_on is not None,
        "open_dependencies": task.open_dependencies, "context": _context(outline),
        "attempts": 0, "checkpoints": 0, "created_at": now, "updated_at": now,
    }  # fmt: skip


def _context(outline: Outline) -> str:
    """What the outline says about the work itself; written so for up to 20,000 tasks at once."""
    hints = {
        "estimated_complexity": outline.estimated_complexity,
        "files_likely_affected": outline.files_likely_affected,
        "required_capabilities": outline.required_capabilities,
    }
    return to_json({name: value for name, value in hints.items() if value}).decode()
