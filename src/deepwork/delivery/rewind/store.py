"""Storage of the journal of rewinds, and of the tasks that they changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from deepwork.delivery.rewind.models import (
    Dependents,
    Revert,
    Rewind,
    RewindResults,
    RewindRole,
    RewindStage,
    RewindTask,
    SetAside,
    Steps,
)
from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound
from deepwork.kernel.git.tree_restores import FileMove, IndexEntry, TreeRestore


class RewindStore:
    """Reads and writes rewinds."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, rewind: Rewind, tasks: Sequence[RewindTask]) -> bool:
        """Insert a new rewind with its tasks; False if the task has one that is not done."""
        if not self._tx.insert_new("rewinds", _to_row(rewind)):
            return False
        of = {"rewind_id": rewind.id}
        self._tx.insert_many("rewind_tasks", [of | _task_to_row(task) for task in tasks])
        return True

    def save(self, before: Rewind, after: Rewind) -> bool:
        """Store a changed rewind; False if its stage is not what it was, because another process goes on."""
        return self._tx.save_change("rewinds", _to_row(before), _to_row(after), "stage")

    def save_task(self, rewind_id: str, task: RewindTask) -> None:
        """Store how a task was before and after."""
        sql = """
            UPDATE rewind_tasks SET state_before = :state_before, state_after = :state_after
             WHERE rewind_id = :rewind_id AND task_id = :task_id
        """
        self._tx.execute(sql, rewind_id=rewind_id, **_task_to_row(task))

    def get(self, id: str) -> Rewind:
        """Return the rewind with this id; raises NotFound."""
        row = self._tx.fetch_one(f"SELECT {_COLUMNS} FROM rewinds WHERE id = :id", id=id)
        if row is None:
            raise NotFound("rewind", id, suggestion="List them with `deepwork rewinds list`.")
        return _read_rewind(row)

    def find_open_of_task(self, task_id: str) -> Rewind | None:
        """Return the rewind of a task that is not done."""
        sql = f"SELECT {_COLUMNS} FROM rewinds WHERE task_id = :id AND ended_at IS NULL"
        row = self._tx.fetch_one(sql, id=task_id)
        return None if row is None else _read_rewind(row)

    def find_last_of_task(self, task_id: str) -> Rewind | None:
        """Return the newest rewind of a task that was not cancelled."""
        sql = f"""
            SELECT {_COLUMNS} FROM rewinds WHERE task_id = :id AND stage <> 'cancelled'
             ORDER BY number DESC LIMIT 1
        """
        row = self._tx.fetch_one(sql, id=task_id)
        return None if row is None else _read_rewind(row)

    def count_of_task(self, task_id: str) -> int:
        """Count the rewinds of a task, whatever became of them."""
        return int(self._tx.fetch_value("SELECT count(*) FROM rewinds WHERE task_id = :id", id=task_id))

    def list_page(
        self,
        *,
        workflow_id: str | None,
        task_id: str | None,
        is_open: bool,
        after: tuple[int, str] | None,
        limit: int,
    ) -> tuple[list[Rewind], int]:
        """List rewinds after this time and id, the newest first, and the total of all pages."""
        conditions = {
            "workflow_id = :workflow": workflow_id,
            "task_id = :task": task_id,
            "ended_at IS NULL": is_open or None,
        }
        given = {"workflow": workflow_id, "task": task_id}
        rows, total = self._tx.list_newest("rewinds", _COLUMNS, conditions, after, limit, **given)
        return [_read_rewind(row) for row in rows], total

    def list_tasks(self, rewind_id: str) -> list[RewindTask]:
        """List the tasks that a rewind changes, the rewound one first."""
        sql = f"""
            SELECT {_TASK_COLUMNS} FROM rewind_tasks WHERE rewind_id = :id
             ORDER BY CASE role WHEN 'rewound' THEN 0 WHEN 'reset' THEN 1 ELSE 2 END, task_id
        """
        return [_read_task(row) for row in self._tx.fetch_all(sql, id=rewind_id)]

    def list_effective_of_tasks(self, task_ids: Sequence[str]) -> dict[str, list[RewindTask]]:
        """Map tasks to how they were rewound or reset, without what was undone, the oldest first."""
        columns = ", ".join(f"rewind_tasks.{name}" for name in _TASK_NAMES)
        sql = f"""
            SELECT {columns} FROM rewind_tasks JOIN rewinds ON rewinds.id = rewind_tasks.rewind_id
             WHERE rewind_tasks.task_id IN :ids AND role <> 'stale' AND stage = 'done'
               AND undoes IS NULL AND undone_by IS NULL
             ORDER BY rewinds.created_at, rewinds.number, rewinds.id
        """
        found: dict[str, list[RewindTask]] = {}
        for row in self._tx.fetch_all(sql, ids=list(task_ids)):
            found.setdefault(row["task_id"], []).append(_read_task(row))
        return found

    def list_needed(self, host: str) -> list[Rewind]:
        """List the rewinds on a host that are not over, or that nobody undid."""
        sql = f"""
            SELECT {_COLUMNS} FROM rewinds WHERE host = :host
               AND (ended_at IS NULL OR (stage = 'done' AND undoes IS NULL AND undone_by IS NULL))
             ORDER BY created_at, number, id
        """
        return [_read_rewind(row) for row in self._tx.fetch_all(sql, host=host)]

    def list_reverted_landings(self, task_ids: Sequence[str]) -> set[str]:
        """List the landings of these tasks that rewinds undid, without what was undone again."""
        sql = """
            SELECT DISTINCT rewinds.id, steps FROM rewinds
              JOIN rewind_tasks ON rewind_tasks.rewind_id = rewinds.id
             WHERE rewind_tasks.task_id IN :ids AND stage = 'done' AND undoes IS NULL AND undone_by IS NULL
        """
        rows = self._tx.fetch_all(sql, ids=list(task_ids))
        return {each["landing_id"] for row in rows for each in json.loads(row["steps"])["reverts"]}

    def find_later_of_tasks(self, rewind: Rewind, task_ids: Sequence[str]) -> str | None:
        """Return a later rewind that changed one of these tasks and was not undone or cancelled."""
        sql = """
            SELECT rewinds.id FROM rewind_tasks JOIN rewinds ON rewinds.id = rewind_tasks.rewind_id
             WHERE rewind_tasks.task_id IN :ids AND stage <> 'cancelled' AND undoes IS NULL
               AND undone_by IS NULL AND role <> 'stale' AND rewinds.id <> :id
               AND (rewinds.created_at > :at OR (rewinds.task_id = :task AND number > :number))
             LIMIT 1
        """
        values = {"id": rewind.id, "at": rewind.created_at, "task": rewind.task_id, "number": rewind.number}
        row = self._tx.fetch_one(sql, ids=list(task_ids), **values)
        return None if row is None else row["id"]


_NAMES = tuple(field.name for field in fields(Rewind))
_COLUMNS = ", ".join(_NAMES)
_TASK_NAMES = tuple(field.name for field in fields(RewindTask))
_TASK_COLUMNS = ", ".join(_TASK_NAMES)


def _to_row(rewind: Rewind) -> dict[str, Any]:
    row = {name: getattr(rewind, name) for name in _NAMES}
    # Names of files may be any bytes, which JSON escapes.
    return row | {"steps": json.dumps(asdict(rewind.steps)), "results": json.dumps(asdict(rewind.results))}


@row_parser
def _read_rewind(row: Row) -> Rewind:
    read = {
        "dependents": Dependents(row["dependents"]),
        "stage": RewindStage(row["stage"]),
        "steps": _read_steps(json.loads(row["steps"])),
        "results": _read_results(json.loads(row["results"])),
    }
    return Rewind(**(row | read))


def _read_steps(stored: Mapping[str, Any]) -> Steps:
    return Steps(
        tuple(_read_restore(each) for each in stored["restores"]),
        tuple(SetAside(**each) for each in stored["asides"]),
        tuple(Revert(**each) for each in stored["reverts"]),
    )


def _read_restore(stored: Mapping[str, Any]) -> TreeRestore:
    moves = tuple(FileMove(**each) for each in stored["moves"])
    entries = tuple(IndexEntry(**each) for each in stored["entries"])
    return TreeRestore(**{**stored, "moves": moves, "entries": entries})


def _read_results(stored: Mapping[str, Any]) -> RewindResults:
    lists = {name: tuple(stored[name]) for name in ("rescue_branches", "kept")}
    reverted = tuple(Revert(**each) for each in stored["reverted"])
    return RewindResults(**{**stored, **lists, "reverted": reverted})


def _task_to_row(task: RewindTask) -> dict[str, Any]:
    row = {name: getattr(task, name) for name in _TASK_NAMES}
    states = {name: row[name] for name in ("state_before", "state_after")}
    return row | {name: None if state is None else json.dumps(state) for name, state in states.items()}


@row_parser
def _read_task(row: Row) -> RewindTask:
    states = {name: json.loads(row[name]) if row[name] else None for name in ("state_before", "state_after")}
    return RewindTask(**(row | states | {"role": RewindRole(row["role"])}))
