"""Queries for the review of finished tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction

RECENT_MS = 30 * 24 * 3600 * 1000
"""Work that was done longer ago is not listed."""
ReviewFilter = Literal["waiting", "reviewed", "landed", "all"]

# As `find_review`, but for the digest, which only another completion changes, and that is later.
_REVIEWED = """EXISTS (SELECT 1 FROM approvals WHERE approvals.subject_kind IN ('task', 'review')
    AND approvals.subject_id = task.id AND approvals.status = 'used'
    AND approvals.used_at >= coalesce(task.finished_at, 0) AND task.waits_for IS NULL)"""
_LANDED = """(EXISTS (SELECT 1 FROM landings WHERE landings.task_id = task.id
    AND landings.status = 'landed' AND landings.done_at = task.finished_at)
    OR EXISTS (SELECT 1 FROM workspaces WHERE workspaces.id = task.workspace_id
    AND workspaces.status = 'merged'))"""
# Planning and final reviews change nothing, so there is nothing to review; the ids are in a JSON list.
_IS_READING = """EXISTS (SELECT 1 FROM wishes WHERE wishes.planning_id = task.workflow_id
    OR (wishes.plan_id = task.workflow_id
        AND replace(wishes.review_tasks, task.id, '') <> wishes.review_tasks))"""
_FINISHED = f"""plan_tasks AS task WHERE task.updated_at >= :since
    AND (task.waits_for = 'approval' OR (task.status = 'completed'
         AND EXISTS (SELECT 1 FROM changed_files WHERE changed_files.task_id = task.id)))
    AND NOT {_IS_READING}"""
_FILTERS = {
    "waiting": f" AND NOT {_REVIEWED} AND NOT {_LANDED}",
    "reviewed": f" AND {_REVIEWED} AND NOT {_LANDED}",
    "landed": f" AND {_LANDED}",
    "all": "",
}
# What waits for a decision first: agents wait, too. Then what was done first.
_ORDER = (
    "CASE WHEN task.waits_for IS NULL THEN 1 ELSE 0 END, coalesce(task.finished_at, task.updated_at), task.id"
)


class ReviewStore:
    """Finds finished tasks for those who review them."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_page(
        self, which: ReviewFilter, workflow_id: str | None, limit: int, offset: int
    ) -> tuple[list[str], int]:
        """List finished tasks, and how many there are in all."""
        rows, total = self._tx.list_first(
            "task.id",
            self._build(which, workflow_id),
            _ORDER,
            limit,
            offset=offset,
            **self._values(workflow_id),
        )
        return [row["id"] for row in rows], total

    def count(self, which: ReviewFilter, workflow_id: str | None) -> int:
        """Count finished tasks."""
        sql = f"SELECT count(*) FROM {self._build(which, workflow_id)}"
        number: int = self._tx.fetch_value(sql, **self._values(workflow_id))
        return number

    def list_landed(self, task_ids: Sequence[str]) -> set[str]:
        """Return those of these tasks whose work has landed."""
        if not task_ids:
            return set()
        sql = f"SELECT task.id FROM plan_tasks AS task WHERE task.id IN :ids AND {_LANDED}"
        return {row["id"] for row in self._tx.fetch_all(sql, ids=list(task_ids))}

    def _build(self, which: ReviewFilter, workflow_id: str | None) -> str:
        only = "" if workflow_id is None else " AND task.workflow_id = :workflow_id"
        return f"{_FINISHED}{_FILTERS[which]}{only}"

    def _values(self, workflow_id: str | None) -> Row:
        return {"since": self._tx.now - RECENT_MS} | ({"workflow_id": workflow_id} if workflow_id else {})
