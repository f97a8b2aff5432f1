"""Adds the time for which a task was active to what its plan and the day have used."""

from __future__ import annotations

from deepwork.gates.budgets.service import BudgetService, load_day_budget
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.plans.models import Task, Workflow


def record_active_time(tx: Transaction, workflow: Workflow, before: Task, after: Task) -> None:
    """Add the time that ended with this change, where something limits it."""
    assert before.active_since is not None, "the task was active"
    ended = before.active_since + after.active_ms - before.active_ms
    budget = workflow.requirements.budget if workflow.requirements else None
    if budget and budget.minutes is not None:
        BudgetService(tx).add_active_time(workflow.id, before.active_since, ended)
    day = load_day_budget()
    if day and day.minutes is not None:
        BudgetService(tx).add_active_time_of_days(before.active_since, ended)
