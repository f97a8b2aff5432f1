"""Storage of checkpoints: what agents recorded while working on a task."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.kernel.database.engine import Row, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.names import new_id
from deepwork.work.plans.models import Checkpoint, CheckpointType, Task
from deepwork.work.plans.stores.search_store import SearchEntry, SearchStore
from deepwork.work.plans.stores.task_store import TaskStore


class CheckpointStore:
    """Reads and writes checkpoints; those of a task are numbered from 1 without gaps."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(
        self,
        task: Task,
        type: CheckpointType,
        summary: str,
        *,
        detail: Mapping[str, Any] | None = None,
        files_changed: Sequence[str] = (),
        agent_id: str | None = None,
    ) -> Checkpoint:
        """Add a checkpoint and index its summary for search."""
        checkpoint = Checkpoint(
            id=new_id("cp"),
            task_id=task.id,
            sequence=TaskStore(self._tx).take_checkpoint_number(task.id),
            type=type,
            summary=summary,
            detail=detail,
            files_changed=tuple(files_changed),
            agent_id=agent_id,
            created_at=self._tx.now,
        )
        self._tx.insert("checkpoints", _to_row(checkpoint))
        SearchStore(self._tx).add([SearchEntry(checkpoint.id, task.workflow_id, summary)])
        return checkpoint

    def list_after(
        self, task_id: str, sequence: int, types: Sequence[CheckpointType] | None, limit: int
    ) -> tuple[list[Checkpoint], int]:
        """Return the first checkpoints after a sequence number, and how many match in all."""
        conditions = build_where(
            {"task_id = :task_id": task_id, "sequence > :after": sequence, "type IN :types": types or None}
        )
        values = {"task_id": task_id, "after": sequence, "types": types}
        sql = f"SELECT {_COLUMNS} FROM checkpoints {conditions} ORDER BY sequence LIMIT :limit"
        rows = self._tx.fetch_all(sql, limit=limit, **values)
        total = len(rows)
        if total == limit:
            total = self._tx.fetch_value(f"SELECT count(*) FROM checkpoints {conditions}", **values)
        return [_read_checkpoint(row) for row in rows], total

    def list_newest(self, task_id: str, limit: int) -> list[Checkpoint]:
        """Return the last checkpoints of a task, oldest first."""
        sql = f"SELECT {_COLUMNS} FROM checkpoints WHERE task_id = :id ORDER BY sequence DESC LIMIT :limit"
        rows = self._tx.fetch_all(sql, id=task_id, limit=limit)
        return [_read_checkpoint(row) for row in reversed(rows)]

    def find_by_ids(self, ids: Sequence[str]) -> dict[str, Checkpoint]:
        """Return the checkpoints with these ids, by id; ids that do not exist are left out."""
        rows = self._tx.fetch_all(f"SELECT {_COLUMNS} FROM checkpoints WHERE id IN :ids", ids=list(ids))
        return {row["id"]: _read_checkpoint(row) for row in rows}


_COLUMNS = ", ".join(Checkpoint.__dataclass_fields__)


def _to_row(checkpoint: Checkpoint) -> Row:
    detail = checkpoint.detail
    return vars(checkpoint) | {
        "detail": None if detail is None else json.dumps(detail),
        "files_changed": json.dumps(checkpoint.files_changed),
    }


@row_parser
def _read_checkpoint(row: Row) -> Checkpoint:
    detail = row["detail"]
    read = {
        "type": CheckpointType(row["type"]),
        "detail": None if detail is None else json.loads(detail),
        "files_changed": tuple(json.loads(row["files_changed"])),
    }
    return Checkpoint(**(row | read))
