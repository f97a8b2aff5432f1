"""Finds plans, job sessions and tracks, and the events of each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from deepwork.kernel.database.engine import Row, build_like_pattern, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import format_timestamp

MAX_REVIEWS = 500


class RunEventStore:
    """Reads the event log by run."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_page(
        self,
        run_id: str | None,
        *,
        types: Sequence[str] | None,
        before: int | None,
        after: int | None,
        limit: int,
    ) -> list[Row]:
        """List events in order: the first ones after `after`, or the last ones before `before`.

        `run_id`: None for those of everything.
        """
        direction = "ASC" if after is not None else "DESC"
        conditions = build_where(
            {
                "workflow_id = :id": run_id,
                "type IN :types": types,
                "seq < :before": before,
                "seq > :after": after,
            }
        )
        sql = (
            f"SELECT seq, type, ts, workflow_id, data FROM events {conditions}"
            f" ORDER BY seq {direction} LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, id=run_id, types=types, before=before, after=after, limit=limit)
        return sorted(map(_parse_event_row, rows), key=lambda event: event["seq"])

    def find_bounds(self, run_id: str, types: Sequence[str] | None) -> tuple[int | None, int]:
        """Return the oldest stored event number of a run, and the number of its events."""
        conditions = build_where({"workflow_id = :id": run_id, "type IN :types": types})
        sql = f"SELECT min(seq) AS oldest, count(*) AS total FROM events {conditions}"
        row = self._tx.fetch_one(sql, id=run_id, types=types)
        return (row["oldest"], row["total"]) if row else (None, 0)

    def list_reviews(self, session_ids: Sequence[str], limit: int) -> list[Row]:
        """List the newest review events of these sessions, oldest first."""
        sql = """
            SELECT seq, type, ts, workflow_id, data FROM events
             WHERE workflow_id IN :ids AND type IN ('review:failed', 'review:passed')
             ORDER BY seq DESC LIMIT :limit
        """
        rows = self._tx.fetch_all(sql, ids=list(session_ids), limit=limit)
        return [_parse_event_row(row) for row in reversed(rows)]


@row_parser
def _parse_event_row(row: Row) -> Row:
    return row | {"ts": format_timestamp(row["ts"]), "data": json.loads(row["data"])}


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
