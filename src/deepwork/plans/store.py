"""What is kept of plans: the workflows themselves, and the history of what became of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deepwork.database.engine import Row, stored
from deepwork.database.statements import where
from deepwork.database.transaction import Transaction
from deepwork.errors import NotFound
from deepwork.plans.models import Change, FileConflicts, SourceType, Workflow, WorkflowStatus
from deepwork.plans.task_rows import missing


class PlanStore:
    """Workflows, as rows."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, workflow: Workflow) -> None:
        """Keep a new workflow."""
        self._tx.insert("plans", _row(workflow))

    def get(self, id: str) -> Workflow:
        """The workflow with this id."""
        return self._one(id, "")

    def hold(self, id: str) -> Workflow:
        """The workflow with this id; nobody else changes it or its tasks until we are done."""
        return self._one(id, self._tx.row_lock)

    def hold_of(self, task_id: str) -> Workflow:
        """The workflow of this task; nobody else changes it or its tasks until we are done."""
        row = self._tx.one(
            f"SELECT {_COLUMNS} FROM plans"
            f" WHERE id = (SELECT workflow_id FROM plan_tasks WHERE id = :task_id){self._tx.row_lock}",
            task_id=task_id,
        )
        if row is None:
            raise missing(task_id)
        return _workflow(row)

    def keep(self, before: Workflow, after: Workflow) -> None:
        """Keep what changed."""
        old = vars(before)
        changed = {name: value for name, value in vars(after).items() if value != old[name]}
        self._tx.update("plans", after.id, _written(changed))

    def matching(
        self,
        *,
        statuses: Sequence[WorkflowStatus] | None,
        repository_path: str | None,
        limit: int,
        offset: int,
    ) -> tuple[list[Workflow], int]:
        """Workflows that match every filter, newest first, and how many there are in all."""
        conditions = where(
            {"status IN :statuses": statuses or None, "repository_path = :repository_path": repository_path}
        )
        values = {"statuses": statuses, "repository_path": repository_path}
        total = self._tx.value(f"SELECT count(*) FROM plans {conditions}", **values)
        rows = self._tx.all(
            f"SELECT {_COLUMNS} FROM plans {conditions}"
            " ORDER BY created_at DESC, created_seq DESC LIMIT :limit OFFSET :offset",
            limit=limit, offset=offset, **values,
        )  # fmt: skip
        return [_workflow(row) for row in rows], total

    def named(self, ids: Sequence[str]) -> dict[str, Workflow]:
        """These workflows, by their ids."""
        rows = self._tx.all(f"SELECT {_COLUMNS} FROM plans WHERE id IN :ids", ids=list(ids))
        return {row["id"]: _workflow(row) for row in rows}

    def note(self, change: Change) -> None:
        """Add to the workflow's history. Only whoever holds the workflow may: entries are numbered."""
        self._tx.run(
            """
            INSERT INTO plan_history (workflow_id, number, task_id, what, before, after, reason, by_whom, at)
            SELECT :workflow_id, coalesce(max(number), 0) + 1, :task_id, :what, :before, :after, :reason,
                   :by_whom, :at
              FROM plan_history WHERE workflow_id = :workflow_id
            """,
            at=self._tx.now, **vars(change),
        )  # fmt: skip

    def history(self, workflow_id: str, limit: int) -> list[Row]:
        """The newest changes of the workflow and its tasks, newest first."""
        return self._tx.all(
            "SELECT task_id, what, before, after, reason, by_whom, at FROM plan_history"
            " WHERE workflow_id = :id ORDER BY number DESC LIMIT :limit",
            id=workflow_id, limit=limit,
        )  # fmt: skip

    def _one(self, id: str, lock: str) -> Workflow:
        if (row := self._tx.one(f"SELECT {_COLUMNS} FROM plans WHERE id = :id{lock}", id=id)) is None:
            raise NotFound("workflow", id, suggestion="See workflow_list for the workflows there are.")
        return _workflow(row)


_COLUMNS = ", ".join(Workflow.__dataclass_fields__)


def _row(workflow: Workflow) -> Row:
    return _written(vars(workflow))


def _written(values: Row) -> Row:
    plan = values.get("initial_plan")
    return values if plan is None else values | {"initial_plan": json.dumps(plan)}


@stored
def _workflow(row: Row) -> Workflow:
    plan = row["initial_plan"]
    read = {
        "source_type": SourceType(row["source_type"]),
        "status": WorkflowStatus(row["status"]),
        "file_conflicts": FileConflicts(row["file_conflicts"]),
        "auto_create_workspaces": bool(row["auto_create_workspaces"]),
        "initial_plan": None if plan is None else json.loads(plan),
    }
    return Workflow(**(row | read))
