"""Lists attempts of agents page by page."""

from __future__ import annotations

from deepwork.delivery.runner.models import Attempt, AttemptStage
from deepwork.delivery.runner.store import AttemptStore
from deepwork.kernel.database.statements import build_where
from deepwork.kernel.database.transaction import Transaction


class AttemptListStore:
    """Reads pages of attempts."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_page(
        self,
        *,
        is_current: bool | None = None,
        stage: AttemptStage | None = None,
        run_id: str | None = None,
        workflow_id: str | None = None,
        task_id: str | None = None,
        after: tuple[int, str] | None = None,
        limit: int,
    ) -> tuple[list[Attempt], int]:
        """List attempts after this time and id, the newest first, and how many match in all."""
        conditions = {
            "ended_at IS NULL": is_current or None,
            "ended_at IS NOT NULL": True if is_current is False else None,
            "stage = :stage": stage,
            "run_id = :run": run_id,
            "workflow_id = :workflow": workflow_id,
            "task_id = :task": task_id,
        }
        values = {"stage": stage, "run": run_id, "workflow": workflow_id, "task": task_id}
        later = {"(created_at < :at OR (created_at = :at AND id < :id))": after}
        at, id = after or (0, "")
        sql = f"""
            SELECT id FROM attempts {build_where({**conditions, **later})}
             ORDER BY created_at DESC, id DESC LIMIT :limit
        """
        ids = [row["id"] for row in self._tx.fetch_all(sql, at=at, id=id, limit=limit, **values)]
        total = self._tx.fetch_value(f"SELECT count(*) FROM attempts {build_where(conditions)}", **values)
        found = AttemptStore(self._tx).find_by_ids(ids) if ids else {}
        return [found[each] for each in ids], int(total)
