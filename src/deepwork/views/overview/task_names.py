"""Names of tasks of all kinds, by id."""

from __future__ import annotations

from collections.abc import Iterable

from deepwork.kernel.database.transaction import Transaction


def find_task_names(tx: Transaction, ids: Iterable[str]) -> dict[str, str]:
    """Return the names of planned tasks, and of steps of jobs, whose id is SESSION/STEP."""
    wanted = set(ids)
    names = {id: id.partition("/")[2] for id in wanted if "/" in id}
    planned = sorted(wanted - names.keys())
    if planned:
        rows = tx.fetch_all("SELECT id, name FROM plan_tasks WHERE id IN :ids", ids=planned)
        names |= {row["id"]: row["name"] for row in rows}
    return names
