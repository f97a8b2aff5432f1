"""Queries that search runs, tasks, decisions and issues for words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deepwork.kernel.database.engine import Row, build_like_pattern
from deepwork.kernel.database.transaction import Transaction


@dataclass(frozen=True)
class _SearchTable:
    """A table to search, with its columns as SQL."""

    kind: str
    table: str
    title: str
    texts: str
    run_id: str = "workflow_id"
    task_id: str = "NULL"
    order: str = "created_at"


_SEARCH_TABLES = (
    _SearchTable("run", "tracked_workflows", "name", "name || ' ' || objective", run_id="id"),
    _SearchTable("run", "plans", "name", "name || ' ' || source_content", run_id="id"),
    _SearchTable(
        "run",
        "job_sessions",
        "job_name || '/' || workflow_name",
        "job_name || '/' || workflow_name",
        run_id="id",
        order="updated_at",
    ),
    _SearchTable("task", "tracked_tasks", "name", "name || ' ' || goal", task_id="id", order="started_at"),
    _SearchTable(
        "decision",
        "decisions",
        "question",
        "question || ' ' || chosen || ' ' || reasoning || ' ' || coalesce(trade_offs, '')",
        task_id="task_id",
    ),
    _SearchTable("issue", "issues", "description", "description || ' ' || resolution", task_id="task_id"),
)


class RunSearchStore:
    """Searches runs, tracked tasks, decisions and issues; plans search their tasks by a full-text index."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def find(self, words: Sequence[str], limit: int) -> Iterator[tuple[str, Row]]:
        """Find rows that contain all words, each with its kind; at most `limit` of a table, newest first."""
        for table in _SEARCH_TABLES:
            yield from ((table.kind, row) for row in self._search_table(table, words, limit))

    def _search_table(self, table: _SearchTable, words: Sequence[str], limit: int) -> list[Row]:
        patterns = {f"word_{number}": build_like_pattern(word.lower()) for number, word in enumerate(words)}
        conditions = " AND ".join(f"lower({table.texts}) LIKE :{name} ESCAPE '!'" for name in patterns)
        sql = (
            f"SELECT id, {table.title} AS title, {table.texts} AS said, {table.run_id} AS run_id,"
            f" {table.task_id} AS task_id FROM {table.table} WHERE {conditions}"
            f" ORDER BY {table.order} DESC, created_seq DESC LIMIT :limit"
        )
        return self._tx.fetch_all(sql, limit=limit, **patterns)
