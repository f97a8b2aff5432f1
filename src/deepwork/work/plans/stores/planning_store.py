"""Storage operations that create or change a plan as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from deepwork.kernel.database.transaction import Transaction
from deepwork.work.plans.models import Outline, Task, TaskStatus, Workflow, serialize_requirements
from deepwork.work.plans.stores.plan_store import COLUMNS, OPEN, batch_ids, build_capability_rows, read_task

_HAS_NOTES_CONDITION = (  # recovery checkpoints do not count: deepwork adds them itself
    "EXISTS (SELECT 1 FROM checkpoints c WHERE c.task_id = plan_tasks.id AND c.type <> 'recovery')"
)
# A task with requirements keeps the time that it has used: a new one in its place would begin at zero.
_KEEPS_NO_TIME_CONDITION = "(requirements IS NULL OR active_ms = 0)"
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class NewTask(NamedTuple):
    """An outline with its id and position in the plan."""

    id: str
    position: int
    outline: Outline
    open_dependencies: int


class PlanningStore:
    """Adds and removes the tasks of a plan and their edges."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add_tasks(
        self,
        workflow_id: str,
        tasks: Sequence[NewTask],
        edges: Iterable[tuple[str, str]],
        *,
        max_attempts: int,
    ) -> None:
        """Store new tasks and their edges: pairs of a task and one it waits for."""
        now = self._tx.now
        rows = [_to_values(workflow_id, it, now, max_attempts) for it in tasks]
        self._tx.insert_tuples("plan_tasks", _NEW_COLUMNS, rows)
        able = [task for task in tasks if task.outline.required_capabilities]
        needs = [build_capability_rows(task.id, task.outline.required_capabilities) for task in able]
        self._tx.insert_many("plan_capabilities", [row for rows in needs for row in rows])
        self.add_edges(edges)

    def add_edges(self, edges: Iterable[tuple[str, str]]) -> None:
        """Store edges: pairs of a task and one it waits for."""
        self._tx.insert_tuples("plan_dependencies", ("task_id", "depends_on_id"), list(edges))

    def list_from_position(self, workflow_id: str, position: int) -> list[Task]:
        """Return the tasks from this position on, in plan order."""
        sql = (
            f"SELECT {COLUMNS} FROM plan_tasks WHERE workflow_id = :id AND position >= :position"
            " ORDER BY position"
        )
        rows = self._tx.fetch_all(sql, id=workflow_id, position=position)
        return [read_task(row) for row in rows]

    def list_unstarted(self, workflow_id: str) -> list[Task]:
        """Return the tasks that were never claimed, started or given checkpoints, in plan order."""
        sql = f"""
            SELECT {COLUMNS} FROM plan_tasks
             WHERE workflow_id = :id AND status = 'pending' AND claimed_by IS NULL AND attempts = 0
               AND {_KEEPS_NO_TIME_CONDITION}
               AND (checkpoints = 0 OR NOT {_HAS_NOTES_CONDITION}) ORDER BY position
        """
        rows = self._tx.fetch_all(sql, id=workflow_id)
        return [read_task(row) for row in rows]

    def was_started(self, task: Task) -> bool:
        """Whether the task is claimed, was started or has checkpoints of an agent."""
        has_used_time = task.requirements is not None and task.active_ms > 0
        if has_used_time or task.status is not TaskStatus.PENDING or task.attempts or task.claimed_by:
            return True
        return bool(
            self._tx.fetch_value(f"SELECT {_HAS_NOTES_CONDITION} FROM plan_tasks WHERE id = :id", id=task.id)
        )

    def remove(self, ids: Sequence[str]) -> None:
        """Delete tasks that were never started, with their edges."""
        for part in batch_ids(ids):
            sql = "DELETE FROM plan_dependencies WHERE task_id IN :ids OR depends_on_id IN :ids"
            self._tx.execute(sql, ids=part)
            self._tx.execute("DELETE FROM plan_capabilities WHERE task_id IN :ids", ids=part)
            self._tx.execute("DELETE FROM plan_claims WHERE task_id IN :ids", ids=part)
            self._tx.execute("DELETE FROM checkpoints WHERE task_id IN :ids", ids=part)
            self._tx.execute("DELETE FROM plan_tasks WHERE id IN :ids", ids=part)

    def recount_dependencies(self, workflow_id: str) -> None:
        """Recompute how many open dependencies every task has, after the plan has changed."""
        sql = """
            UPDATE plan_tasks SET open_dependencies =
                   (SELECT count(*) FROM plan_dependencies d
                      JOIN plan_tasks other ON other.id = d.depends_on_id
                     WHERE d.task_id = plan_tasks.id AND other.status IN :open)
             WHERE workflow_id = :workflow_id
        """
        self._tx.execute(sql, workflow_id=workflow_id, open=OPEN)

    def count_open_gates(self, workflow: Workflow) -> int:
        """Count the open tasks that require something, by themselves or because the plan does."""
        own = "" if workflow.requirements else " AND requirements IS NOT NULL"
        sql = f"SELECT count(*) FROM plan_tasks WHERE workflow_id = :id AND status IN :open{own}"
        number: int = self._tx.fetch_value(sql, id=workflow.id, open=OPEN)
        return number

    def list_open_requirements(self, workflow_id: str) -> list[Task]:
        """List the open tasks that require something by themselves."""
        sql = (
            f"SELECT {COLUMNS} FROM plan_tasks"
            " WHERE workflow_id = :id AND status IN :open AND requirements IS NOT NULL"
        )
        return [read_task(row) for row in self._tx.fetch_all(sql, id=workflow_id, open=OPEN)]

    def get_last_position(self, workflow_id: str) -> int:
        sql = "SELECT max(position) FROM plan_tasks WHERE workflow_id = :id"
        number: int | None = self._tx.fetch_value(sql, id=workflow_id)
        return number or 0


_NEW_COLUMNS = (
    *("id", "workflow_id", "position", "name", "description", "sequence", "parallel_group", "is_explicit"),
    *("open_dependencies", "context", "status", "attempts", "checkpoints", "created_at", "updated_at"),
    *("max_attempts", "requirements"),
)
"""The columns of a new task, without those that start empty."""


def _to_values(workflow_id: str, task: NewTask, now: int, max_attempts: int) -> tuple[Any, ...]:
    outline = task.outline
    return (
        task.id,
        workflow_id,
        task.position,
        outline.name.strip(),
        outline.description,
        outline.sequence,
        outline.parallel_group,
        outline.depends_on is not None,
        task.open_dependencies,
        _serialize_context(outline),
        "pending",
        0,
        0,
        now,
        now,
        outline.max_attempts or max_attempts,
        serialize_requirements(outline.requirements) if outline.requirements else None,
    )


def _serialize_context(outline: Outline) -> str:
    """Serialize the hints of the outline."""
    hints: dict[str, Any] = {}
    if outline.estimated_complexity:
        hints["estimated_complexity"] = outline.estimated_complexity
    if outline.files_likely_affected:
        hints["files_likely_affected"] = outline.files_likely_affected
    if outline.required_capabilities:
        hints["required_capabilities"] = outline.required_capabilities
    return _ENCODER.encode(hints) if hints else "{}"
