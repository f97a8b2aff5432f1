"""Decisions, issues and changed files over one run or all of them, as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.dashboard.run_store import containing
from deepwork.database.engine import Row
from deepwork.database.statements import where
from deepwork.database.transaction import Transaction

MAX_WORDS = 10


class NotePages:
    """Notes of any run, newest first unless told otherwise."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def issues(
        self, conditions: Mapping[str, Any], beyond: Sequence[Any] | None, limit: int, *,
        oldest_first: bool = False,
    ) -> tuple[list[Row], int]:  # fmt: skip
        """Issues that match, and how many there are in all."""
        filters = {text: conditions.get(name) for name, text in _ISSUE_FILTERS.items()}
        return self._page("issues", filters, conditions, beyond, limit, oldest_first=oldest_first)

    def decisions(
        self, conditions: Mapping[str, Any], words: Sequence[str], beyond: Sequence[Any] | None, limit: int
    ) -> tuple[list[Row], int]:
        """Decisions that match and have each of the words somewhere, and how many there are in all."""
        patterns = {f"word_{place}": containing(word.lower()) for place, word in enumerate(words[:MAX_WORDS])}
        filters = {text: conditions.get(name) for name, text in _DECISION_FILTERS.items()}
        said = {f"lower({_SAID}) LIKE :{name} ESCAPE '!'": True for name in patterns}
        return self._page("decisions", filters | said, {**conditions, **patterns}, beyond, limit)

    def _page(
        self, table: str, filters: Mapping[str, Any], values: Mapping[str, Any], beyond: Sequence[Any] | None,
        limit: int, *, oldest_first: bool = False,
    ) -> tuple[list[Row], int]:  # fmt: skip
        total: int = self._tx.value(f"SELECT count(*) FROM {table} {where(filters)}", **values)
        sign, direction = (">", "ASC") if oldest_first else ("<", "DESC")
        conditions = where({**filters, f"(created_at, created_seq) {sign} (:beyond_at, :beyond_seq)": beyond})
        at, seq = beyond or (None, None)
        rows = self._tx.all(
            f"SELECT * FROM {table} {conditions}"
            f" ORDER BY created_at {direction}, created_seq {direction} LIMIT :limit",
            beyond_at=at, beyond_seq=seq, limit=limit, **values,
        )  # fmt: skip
        return rows, total


class FilePages:
    """Changed files of a run, by path."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def count(self, run_id: str) -> int:
        found: int = self._tx.value(
            "SELECT count(DISTINCT path) FROM changed_files WHERE workflow_id = :id", id=run_id
        )
        return found

    def of_task(self, task_id: str) -> int:
        """How many files a task changed."""
        found: int = self._tx.value("SELECT count(*) FROM changed_files WHERE task_id = :id", id=task_id)
        return found

    def paths(self, run_id: str, after: str | None, limit: int) -> list[str]:
        """The next paths."""
        conditions = where({"workflow_id = :id": run_id, "path > :after": after})
        rows = self._tx.all(
            f"SELECT DISTINCT path FROM changed_files {conditions} ORDER BY path LIMIT :limit",
            id=run_id, after=after, limit=limit,
        )  # fmt: skip
        return [row["path"] for row in rows]

    def changes(self, run_id: str, paths: Sequence[str]) -> list[Row]:
        """Who changed these files, and how."""
        return self._tx.all(
            """
            SELECT file.path, file.task_id, file.status, file.attribution, file.details,
                   coalesce(tracked.name, planned.name, file.task_id) AS task_name,
                   coalesce(tracked.started_at, planned.started_at, 0) AS started_at
              FROM changed_files AS file
              LEFT JOIN tracked_tasks AS tracked ON tracked.id = file.task_id
              LEFT JOIN plan_tasks AS planned ON planned.id = file.task_id
             WHERE file.workflow_id = :id AND file.path IN :paths
             ORDER BY file.path, started_at, coalesce(tracked.created_seq, planned.position), file.task_id
            """,
            id=run_id, paths=list(paths),
        )  # fmt: skip


_ISSUE_FILTERS = {
    "workflow_id": "workflow_id = :workflow_id",
    "task_id": "task_id = :task_id",
    "blockers": "requires_human_review",
    "open": "resolved_at IS NULL",
    "resolved": "resolved_at IS NOT NULL",
    "type": "type = :type",
    "agent": "agent_name = :agent",
}
_DECISION_FILTERS = {
    "workflow_id": "workflow_id = :workflow_id",
    "task_id": "task_id = :task_id",
    "category": "category = :category",
    "agent": "agent_name = :agent",
}
_SAID = (
    "question || ' ' || chosen || ' ' || reasoning || ' ' || coalesce(trade_offs, '') || ' ' ||"
    " options_considered || ' ' || task_name"
)
