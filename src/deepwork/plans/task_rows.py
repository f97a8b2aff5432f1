"""Planned tasks as rows: what is written of them, and how they are read back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from deepwork.database.engine import Row, stored
from deepwork.errors import NotFound
from deepwork.plans.models import Task, TaskStatus

COLUMNS = ", ".join(Task.__dataclass_fields__)

DONE = ("completed", "skipped")
OPEN = ("pending", "failed", "planning", "in_progress", "paused")
RUNNING = ("planning", "in_progress", "paused")

UNBLOCKED = "((is_explicit AND open_dependencies = 0) OR (NOT is_explicit AND sequence IN :levels))"
"""The condition of waiting for nothing; `:levels` are the sequences whose next lower one is done."""
LEVEL_BEFORE = (
    "(SELECT max(sequence) FROM plan_tasks WHERE workflow_id = :workflow_id AND sequence < :sequence)"
)
"""The next lower sequence of a plan."""

_JSON = ("plan", "context", "outcome_detail")
_MOST_AT_ONCE = 10_000
"""How many ids one statement names."""


@stored
def read_task(row: Row) -> Task:
    """The task that a row holds."""
    plan, detail = row["plan"], row["outcome_detail"]
    row["status"] = TaskStatus(row["status"])
    row["is_explicit"] = bool(row["is_explicit"])
    row["context"] = json.loads(row["context"])
    row["plan"] = json.loads(plan) if plan else None
    row["outcome_detail"] = json.loads(detail) if detail else None
    return Task(**row)


def changed_columns(before: Task, after: Task) -> Row:
    """The columns in which the two differ, as they are written."""
    old = vars(before)
    changed = {name: value for name, value in vars(after).items() if value != old[name]}
    return changed | {name: _dumped(changed[name]) for name in _JSON if name in changed}


def parts(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    """As many at a time as a statement should name."""
    return (ids[start : start + _MOST_AT_ONCE] for start in range(0, len(ids), _MOST_AT_ONCE))


def missing(id: str) -> NotFound:
    """The error of whoever asks for a task that is not there."""
    return NotFound("task", id, suggestion="See workflow_get with include_tasks for the tasks of a plan.")


def _dumped(value: Mapping[str, object] | None) -> str | None:
    return None if value is None else json.dumps(value)
