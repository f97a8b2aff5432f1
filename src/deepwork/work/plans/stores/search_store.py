"""Full-text index of plans, tasks, outcomes and checkpoints.

Entries are only ever added: a task stays searchable by its earlier texts, and entries of deleted tasks are
filtered out when searching.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from deepwork.kernel.database.transaction import Transaction
from deepwork.work.plans.stores.search_words import parse_query, split_words


class SearchEntry(NamedTuple):
    """Text by which a workflow, task or checkpoint can be found."""

    id: str
    workflow_id: str
    text: str


class SearchStore:
    """Adds texts to the index and searches it."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, entries: Iterable[SearchEntry]) -> None:
        """Index these texts."""
        rows = [
            {"id": entry.id, "workflow_id": entry.workflow_id, "words": " ".join(found)}
            for entry in entries
            if (found := split_words(entry.text))
        ]
        sql = (
            "INSERT INTO plan_words (id, workflow_id, words)"
            f" VALUES (:id, :workflow_id, {self._tx.full_text.stored})"
        )
        self._tx.execute_many(sql, rows)

    def find(self, query: str, workflow_id: str | None, limit: int) -> tuple[list[str], int]:
        """Return the distinct ids that match the query, best first, and how many match in all."""
        full_text = self._tx.full_text
        if not (wanted := parse_query(query)):
            return [], 0
        within = "AND workflow_id = :workflow_id" if workflow_id else ""
        sql = f"""
            WITH found AS MATERIALIZED (
                SELECT id, {full_text.rank} AS score FROM plan_words WHERE {full_text.matches} {within}
            )
            SELECT id, count(*) OVER () AS total FROM found
             WHERE EXISTS (SELECT 1 FROM plans WHERE plans.id = found.id)
                OR EXISTS (SELECT 1 FROM plan_tasks WHERE plan_tasks.id = found.id)
                OR EXISTS (SELECT 1 FROM checkpoints WHERE checkpoints.id = found.id)
             GROUP BY id ORDER BY min(score), id LIMIT :limit
        """
        rows = self._tx.fetch_all(
            sql, query=full_text.build_query(wanted), workflow_id=workflow_id, limit=limit
        )
        return [row["id"] for row in rows], rows[0]["total"] if rows else 0
