"""Queries for issues and decisions, of one run or of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.statements import build_where
from deepwork.kernel.database.transaction import Transaction
from deepwork.views.overview.run_store import build_like_pattern

MAX_SEARCH_WORDS = 10


class IssueDecisionStore:
    """Reads pages of issues and decisions, newest first by default."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_issues(
        self,
        conditions: Mapping[str, Any],
        after: Sequence[Any] | None,
        limit: int,
        *,
        oldest_first: bool = False,
    ) -> tuple[list[Row], int]:
        """List a page of matching issues, and count all that match."""
        filters = {text: conditions.get(name) for name, text in _ISSUE_FILTERS.items()}
        return self._list_page("issues", filters, conditions, after, limit, oldest_first=oldest_first)

    def list_decisions(
        self, conditions: Mapping[str, Any], words: Sequence[str], after: Sequence[Any] | None, limit: int
    ) -> tuple[list[Row], int]:
        """List a page of decisions that match and contain every word, and count all that do."""
        patterns = {
            f"word_{place}": build_like_pattern(word.lower())
            for place, word in enumerate(words[:MAX_SEARCH_WORDS])
        }
        filters = {text: conditions.get(name) for name, text in _DECISION_FILTERS.items()}
        matches = {f"lower({_DECISION_TEXT_SQL}) LIKE :{name} ESCAPE '!'": True for name in patterns}
        return self._list_page("decisions", filters | matches, {**conditions, **patterns}, after, limit)

    def _list_page(
        self,
        table: str,
        filters: Mapping[str, Any],
        values: Mapping[str, Any],
        after: Sequence[Any] | None,
        limit: int,
        *,
        oldest_first: bool = False,
    ) -> tuple[list[Row], int]:
        total: int = self._tx.fetch_value(f"SELECT count(*) FROM {table} {build_where(filters)}", **values)
        sign, direction = (">", "ASC") if oldest_first else ("<", "DESC")
        conditions = build_where(
            {**filters, f"(created_at, created_seq) {sign} (:beyond_at, :beyond_seq)": after}
        )
        at, seq = after or (None, None)
        sql = (
            f"SELECT * FROM {table} {conditions}"
            f" ORDER BY created_at {direction}, created_seq {direction} LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, beyond_at=at, beyond_seq=seq, limit=limit, **values)
        return rows, total


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
_DECISION_TEXT_SQL = (
    "question || ' ' || chosen || ' ' || reasoning || ' ' || coalesce(trade_offs, '') || ' ' ||"
    " options_considered || ' ' || task_name"
)
