"""Queries for the files that runs and tasks changed."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.statements import build_where
from deepwork.kernel.database.transaction import Transaction


class ChangedFileStore:
    """Reads changed files by run, path and task."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def count_paths(self, run_id: str) -> int:
        sql = "SELECT count(DISTINCT path) FROM changed_files WHERE workflow_id = :id"
        found: int = self._tx.fetch_value(sql, id=run_id)
        return found

    def count_of_task(self, task_id: str) -> int:
        """Count the files that a task changed."""
        sql = "SELECT count(*) FROM changed_files WHERE task_id = :id"
        found: int = self._tx.fetch_value(sql, id=task_id)
        return found

    def list_paths(self, run_id: str, after: str | None, limit: int) -> list[str]:
        """List the next changed paths after a path."""
        conditions = build_where({"workflow_id = :id": run_id, "path > :after": after})
        sql = f"SELECT DISTINCT path FROM changed_files {conditions} ORDER BY path LIMIT :limit"
        rows = self._tx.fetch_all(sql, id=run_id, after=after, limit=limit)
        return [row["path"] for row in rows]

    def list_changes(self, run_id: str, paths: Sequence[str]) -> list[Row]:
        """List the changes to these files with the task that made each."""
        sql = """
            SELECT file.path, file.task_id, file.status, file.attribution, file.details,
                   coalesce(tracked.name, planned.name, file.task_id) AS task_name,
                   coalesce(tracked.started_at, planned.started_at, 0) AS started_at
              FROM changed_files AS file
              LEFT JOIN tracked_tasks AS tracked ON tracked.id = file.task_id
              LEFT JOIN plan_tasks AS planned ON planned.id = file.task_id
             WHERE file.workflow_id = :id AND file.path IN :paths
             ORDER BY file.path, started_at, coalesce(tracked.created_seq, planned.position), file.task_id
        """
        return self._tx.fetch_all(sql, id=run_id, paths=list(paths))
