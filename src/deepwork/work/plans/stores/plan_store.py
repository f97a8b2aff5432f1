"""The rows of plans, and how rows of tasks are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from deepwork.kernel.database.engine import Row, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound
from deepwork.kernel.values import build_record, decode, index_members
from deepwork.work.plans.models import (
    FileConflicts,
    PlanChange,
    PlanStatus,
    RelatedTask,
    SourceType,
    Task,
    TaskStatus,
    Workflow,
    parse_plan_requirements,
    parse_task_requirements,
    serialize_requirements,
)

COLUMNS = ", ".join(Task.__dataclass_fields__)
RELATED_COLUMNS = ", ".join(RelatedTask._fields)

DONE = ("completed", "skipped")
OPEN = ("pending", "failed", "planning", "in_progress", "paused")
RUNNING = ("planning", "in_progress", "paused")

UNBLOCKED = "((is_explicit AND open_dependencies = 0) OR (NOT is_explicit AND sequence IN :levels))"
"""SQL condition: the task waits for nothing. `:levels` are the sequences whose next lower one is done."""
LEVEL_BEFORE = (
    "(SELECT max(sequence) FROM plan_tasks WHERE workflow_id = :workflow_id AND sequence < :sequence)"
)
"""SQL expression: the next lower sequence of a plan."""

_STATUSES = index_members(TaskStatus)
_JSON_COLUMNS = ("plan", "context", "outcome_detail", "stale_input")
_MAX_BATCH_SIZE = 10_000
"""How many ids one statement contains."""


@row_parser
def read_task(row: Row) -> Task:
    """Build a task from its row."""
    plan, detail = row["plan"], row["outcome_detail"]
    row["status"] = _STATUSES[row["status"]]
    row["is_explicit"] = bool(row["is_explicit"])
    row["context"] = decode(row["context"])
    row["plan"] = decode(plan) if plan else None
    row["outcome_detail"] = decode(detail) if detail else None
    row["requirements"] = parse_task_requirements(row["requirements"])
    stale = row["stale_input"]
    row["stale_input"] = tuple(decode(stale)) if stale else None
    return build_record(Task, row)


@row_parser
def read_related_task(row: Row) -> RelatedTask:
    """Build a task, reduced to what is shown with another one, from its row."""
    detail = row["outcome_detail"]
    return RelatedTask(
        row["id"],
        row["name"],
        _STATUSES[row["status"]],
        row["description"],
        row["outcome"],
        decode(detail) if detail else None,
        row["error"],
        row["finished_at"],
    )


def diff_columns(before: Task, after: Task) -> Row:
    """Return the columns in which the two differ, serialized."""
    old = vars(before)
    changed = {name: value for name, value in vars(after).items() if value != old[name]}
    if "requirements" in changed:
        changed["requirements"] = serialize_requirements(changed["requirements"])
    return changed | {name: _serialize(changed[name]) for name in _JSON_COLUMNS if name in changed}


def build_capability_rows(task_id: str, capabilities: Iterable[str]) -> list[Row]:
    """Build the rows of `plan_capabilities` for a task."""
    return [
        {"task_id": task_id, "number": number, "capability": capability}
        for number, capability in enumerate(sorted(capabilities))
    ]


def batch_ids(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    """Split ids into batches small enough for one statement."""
    return (ids[start : start + _MAX_BATCH_SIZE] for start in range(0, len(ids), _MAX_BATCH_SIZE))


def build_not_found(id: str) -> NotFound:
    """Build the error for a task that does not exist."""
    return NotFound("task", id, suggestion="List a plan's tasks with {tool:workflow_get} and include_tasks.")


def _serialize(value: Mapping[str, object] | Sequence[object] | None) -> str | None:
    return None if value is None else json.dumps(value)


class PlanStore:
    """Reads and writes workflows and their history."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, workflow: Workflow) -> None:
        """Store a new workflow."""
        self._tx.insert("plans", _to_row(workflow))

    def get(self, id: str) -> Workflow:
        """Return the workflow with this id."""
        return self._get(id, "")

    def get_for_update(self, id: str) -> Workflow:
        """Return the workflow with this id, locked with its tasks until the transaction ends."""
        return self._get(id, self._tx.row_lock)

    def get_for_update_by_task(self, task_id: str) -> Workflow:
        """Return the workflow of this task, locked with its tasks until the transaction ends."""
        sql = (
            f"SELECT {_COLUMNS} FROM plans"
            f" WHERE id = (SELECT workflow_id FROM plan_tasks WHERE id = :task_id){self._tx.row_lock}"
        )
        row = self._tx.fetch_one(sql, task_id=task_id)
        if row is None:
            raise build_not_found(task_id)
        return _read_workflow(row)

    def save(self, before: Workflow, after: Workflow) -> None:
        """Write the columns that changed."""
        old = vars(before)
        changed = {name: value for name, value in vars(after).items() if value != old[name]}
        self._tx.update("plans", after.id, _serialize_columns(changed))

    def list_matching(
        self, *, statuses: Sequence[PlanStatus] | None, repository_path: str | None, limit: int, offset: int
    ) -> tuple[list[Workflow], int]:
        """Return the workflows that match every filter, newest first, and how many match in all."""
        conditions = build_where(
            {"status IN :statuses": statuses or None, "repository_path = :repository_path": repository_path}
        )
        values = {"statuses": statuses, "repository_path": repository_path}
        found, order = f"plans {conditions}", "created_at DESC, created_seq DESC"
        rows, total = self._tx.list_first(_COLUMNS, found, order, limit, offset=offset, **values)
        return [_read_workflow(row) for row in rows], total

    def find_by_ids(self, ids: Sequence[str]) -> dict[str, Workflow]:
        """Return the workflows with these ids, by id; ids that do not exist are left out."""
        rows = self._tx.fetch_all(f"SELECT {_COLUMNS} FROM plans WHERE id IN :ids", ids=list(ids))
        return {row["id"]: _read_workflow(row) for row in rows}

    def find_over(self, before: int) -> set[str]:
        """Return the ids of the workflows that were completed or abandoned before a moment."""
        sql = "SELECT id FROM plans WHERE status IN ('completed', 'abandoned') AND updated_at < :before"
        return {row["id"] for row in self._tx.fetch_all(sql, before=before)}

    def add_history(self, change: PlanChange) -> None:
        """Add an entry to the workflow's history. Entries are numbered, so the workflow must be locked."""
        sql = """
            INSERT INTO plan_history (workflow_id, number, task_id, what, before, after, reason, by_whom, at)
            VALUES (:workflow_id,
                    (SELECT coalesce(max(number), 0) + 1 FROM plan_history WHERE workflow_id = :workflow_id),
                    :task_id, :what, :before, :after, :reason, :by_whom, :at)
        """
        self._tx.execute(sql, at=self._tx.now, **vars(change))

    def list_history(self, workflow_id: str, limit: int) -> list[Row]:
        """Return the latest changes of the workflow and its tasks, newest first."""
        sql = (
            "SELECT task_id, what, before, after, reason, by_whom, at FROM plan_history"
            " WHERE workflow_id = :id ORDER BY number DESC LIMIT :limit"
        )
        return self._tx.fetch_all(sql, id=workflow_id, limit=limit)

    def find_pause(self, workflow_id: str) -> Row | None:
        """Return who paused the workflow last, as `by_whom`, and the `reason`."""
        return self.find_last_change_to(workflow_id, PlanStatus.PAUSED)

    def find_last_change_to(self, workflow_id: str, status: PlanStatus) -> Row | None:
        """Return who last gave the workflow this status, as `by_whom`, and the `reason`."""
        sql = """
            SELECT by_whom, reason FROM plan_history
             WHERE workflow_id = :id AND task_id IS NULL AND what = 'status' AND after = :status
             ORDER BY number DESC LIMIT 1
        """
        return self._tx.fetch_one(sql, id=workflow_id, status=status)

    def _get(self, id: str, lock: str) -> Workflow:
        if (row := self._tx.fetch_one(f"SELECT {_COLUMNS} FROM plans WHERE id = :id{lock}", id=id)) is None:
            raise NotFound("workflow", id, suggestion="List workflows with {tool:workflow_list}.")
        return _read_workflow(row)


_COLUMNS = ", ".join(Workflow.__dataclass_fields__)


def _to_row(workflow: Workflow) -> Row:
    return _serialize_columns(vars(workflow))


def _serialize_columns(values: Row) -> Row:
    serialized = dict(values)
    if serialized.get("initial_plan") is not None:
        serialized["initial_plan"] = json.dumps(serialized["initial_plan"])
    if serialized.get("requirements") is not None:
        serialized["requirements"] = serialize_requirements(serialized["requirements"])
    return serialized


@row_parser
def _read_workflow(row: Row) -> Workflow:
    plan = row["initial_plan"]
    row["source_type"] = _SOURCES[row["source_type"]]
    row["status"] = _PLAN_STATUSES[row["status"]]
    row["file_conflicts"] = _FILE_CONFLICTS[row["file_conflicts"]]
    row["auto_create_workspaces"] = bool(row["auto_create_workspaces"])
    row["initial_plan"] = None if plan is None else decode(plan)
    row["requirements"] = parse_plan_requirements(row["requirements"])
    return build_record(Workflow, row)


_SOURCES, _PLAN_STATUSES = index_members(SourceType), index_members(PlanStatus)
_FILE_CONFLICTS = index_members(FileConflicts)
