"""Conversion between planned tasks and database rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.errors import NotFound
from deepwork.kernel.records import build_record
from deepwork.work.plans.models import (
    RelatedTask,
    Task,
    TaskStatus,
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

_JSON_COLUMNS = ("plan", "context", "outcome_detail", "stale_input")
_MAX_BATCH_SIZE = 10_000
"""How many ids one statement contains."""


@row_parser
def read_task(row: Row) -> Task:
    """Build a task from its row."""
    plan, detail = row["plan"], row["outcome_detail"]
    row["status"] = TaskStatus(row["status"])
    row["is_explicit"] = bool(row["is_explicit"])
    row["context"] = json.loads(row["context"])
    row["plan"] = json.loads(plan) if plan else None
    row["outcome_detail"] = json.loads(detail) if detail else None
    row["requirements"] = parse_task_requirements(row["requirements"])
    stale = row["stale_input"]
    row["stale_input"] = tuple(json.loads(stale)) if stale else None
    return build_record(Task, row)


@row_parser
def read_related_task(row: Row) -> RelatedTask:
    """Build a task, reduced to what is shown with another one, from its row."""
    detail = row["outcome_detail"]
    return RelatedTask(
        row["id"],
        row["name"],
        TaskStatus(row["status"]),
        row["description"],
        row["outcome"],
        json.loads(detail) if detail else None,
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
