"""Ids and names of any kind of row, for shell completion."""

from __future__ import annotations

from typing import Any

from deepwork.database.transaction import Transaction

_LAST_CHARACTER = "\U0010ffff"
_TABLES_BY_KIND = {
    "plan": ("plans", "id", "name"),
    "task": ("plan_tasks", "id", "name"),
    "record": ("tracked_workflows", "id", "name"),
    "tracked_task": ("tracked_tasks", "id", "name"),
    "agent": ("agents", "id", "name"),
    "phase": ("phases", "id", "name"),
    "issue": ("issues", "id", "description"),
    "workspace": ("workspaces", "id", "path"),
    "message": ("messages", "id", "subject"),
    "template": ("templates", "name", "description"),
}
"""By kind: the table, and its columns for the id and the label."""


class IdentifierStore:
    """Finds ids by their beginning."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_starting_with(self, kind: str, begun: str, limit: int) -> list[tuple[str, Any]]:
        """List (id, label) of rows of a kind; empty for an unknown kind."""
        if kind not in _TABLES_BY_KIND:
            return []
        table, id, label = _TABLES_BY_KIND[kind]
        sql = (
            f"SELECT {id} AS id, {label} AS label FROM {table} WHERE {id} >= :begun AND {id} < :after"
            " LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, begun=begun, after=begun + _LAST_CHARACTER, limit=limit)
        return [(row["id"], row["label"]) for row in rows]
