"""Counts what agents report as used with a tracked task: its tokens, model and cost."""

from __future__ import annotations

from deepwork.gates.budgets.models import MICROS_PER_USD, Entry
from deepwork.gates.budgets.service import BudgetService
from deepwork.gates.budgets.usage import build_usage
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.tracking.models import TrackedTask


def record_usage(tx: Transaction, task: TrackedTask) -> None:
    """Add the metadata of a task that ended to the ledger, if it has any figures."""
    given = task.metadata
    cost = given.get("cost_usd")
    if cost is None and not task.tokens:
        return
    usage = build_usage(
        input=int(given.get("tokens_input") or 0),
        output=int(given.get("tokens_output") or 0),
        usd_micros=None if cost is None else round(cost * MICROS_PER_USD),
        model=given.get("model"),
    )
    BudgetService(tx).record(Entry(f"result:{task.id}", 1, usage, task.workflow_id, task.id))
