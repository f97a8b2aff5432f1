"""Words of plans, tasks, outcomes and checkpoints, and what they lead to.

Words are only ever added: whatever was once said of a task still leads to it, and what is gone is left out
when somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from deepwork.database.transaction import Transaction
from deepwork.plans.words import asked, words


class Said(NamedTuple):
    """Something that was said about a thing."""

    id: str
    workflow_id: str
    text: str


class SearchStore:
    """What was said, as words."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, said: Iterable[Said]) -> None:
        """Make these findable."""
        rows = [
            {"id": each.id, "workflow_id": each.workflow_id, "words": " ".join(found)}
            for each in said
            if (found := words(each.text))
        ]
        self._tx.run_all(
            "INSERT INTO plan_words (id, workflow_id, words)"
            f" VALUES (:id, :workflow_id, {self._tx.full_text.stored})",
            rows,
        )

    def find(self, query: str, workflow_id: str | None, limit: int) -> tuple[list[str], int]:
        """The ids of what these words lead to, the best first and each once; how many there are in all."""
        full_text = self._tx.full_text
        if not (wanted := asked(query)):
            return [], 0
        within = "AND workflow_id = :workflow_id" if workflow_id else ""
        rows = self._tx.all(
            f"""
            WITH found AS MATERIALIZED (
                SELECT id, {full_text.rank} AS score FROM plan_words WHERE {full_text.matches} {within}
            )
            SELECT id, count(*) OVER () AS total FROM found
             WHERE EXISTS (SELECT 1 FROM plans WHERE plans.id = found.id)
                OR EXISTS (SELECT 1 FROM plan_tasks WHERE plan_tasks.id = found.id)
                OR EXISTS (SELECT 1 FROM checkpoints WHERE checkpoints.id = found.id)
             GROUP BY id ORDER BY min(score), id LIMIT :limit
            """,
            query=full_text.query(wanted), workflow_id=workflow_id, limit=limit,
        )  # fmt: skip
        return [row["id"] for row in rows], rows[0]["total"] if rows else 0
