"""What was noted while a task was worked on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.database.engine import Row, stored
from deepwork.database.statements import where
from deepwork.database.transaction import Transaction
from deepwork.names import new_id
from deepwork.plans.models import Checkpoint, CheckpointType, Task
from deepwork.plans.search import Said, SearchStore
from deepwork.plans.task_store import TaskStore


class CheckpointStore:
    """Checkpoints, as rows; those of a task are numbered from 1 without a gap."""

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
        """Note something; it can be found by its words from now on."""
        checkpoint = Checkpoint(
            id=new_id("cp"), task_id=task.id, sequence=TaskStore(self._tx).next_checkpoint(task.id),
            type=type, summary=summary, detail=detail, files_changed=tuple(files_changed),
            agent_id=agent_id, created_at=self._tx.now,
        )  # fmt: skip
        self._tx.insert("checkpoints", _row(checkpoint))
        SearchStore(self._tx).add([Said(checkpoint.id, task.workflow_id, summary)])
        return checkpoint

    def after(
        self, task_id: str, sequence: int, types: Sequence[CheckpointType] | None, limit: int
    ) -> tuple[list[Checkpoint], int]:
        """The first checkpoints after that number, and how many there are."""
        conditions = where(
            {
                "task_id = :task_id": task_id,
                "sequence > :after": sequence,
                "type IN :types": types or None,
            }
        )
        values = {"task_id": task_id, "after": sequence, "types": types}
        rows = self._tx.all(
            f"SELECT {_COLUMNS} FROM checkpoints {conditions} ORDER BY sequence LIMIT :limit",
            limit=limit, **values,
        )  # fmt: skip
        total = len(rows)
        if total == limit:
            total = self._tx.value(f"SELECT count(*) FROM checkpoints {conditions}", **values)
        return [_checkpoint(row) for row in rows], total

    def newest(self, task_id: str, limit: int) -> list[Checkpoint]:
        """The last checkpoints of a task, in order."""
        rows = self._tx.all(
            f"SELECT {_COLUMNS} FROM checkpoints WHERE task_id = :id ORDER BY sequence DESC LIMIT :limit",
            id=task_id, limit=limit,
        )  # fmt: skip
        return [_checkpoint(row) for row in reversed(rows)]

    def named(self, ids: Sequence[str]) -> dict[str, Checkpoint]:
        """These checkpoints, by their ids."""
        rows = self._tx.all(f"SELECT {_COLUMNS} FROM checkpoints WHERE id IN :ids", ids=list(ids))
        return {row["id"]: _checkpoint(row) for row in rows}


_COLUMNS = ", ".join(Checkpoint.__dataclass_fields__)


def _row(checkpoint: Checkpoint) -> Row:
    detail = checkpoint.detail
    return vars(checkpoint) | {
        "detail": None if detail is None else json.dumps(detail),
        "files_changed": json.dumps(checkpoint.files_changed),
    }


@stored
def _checkpoint(row: Row) -> Checkpoint:
    detail = row["detail"]
    read = {
        "type": CheckpointType(row["type"]),
        "detail": None if detail is None else json.loads(detail),
        "files_changed": tuple(json.loads(row["files_changed"])),
    }
    return Checkpoint(**(row | read))
