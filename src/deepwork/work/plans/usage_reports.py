"""Counts what agents report as used, and warns them at the end of a budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepwork.gates.budgets.models import Entry
from deepwork.gates.budgets.service import BudgetService
from deepwork.gates.budgets.usage import read_usage
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.plans.admission import Admission
from deepwork.work.plans.models import Checkpoint, Task, Workflow

_WHAT_NOW = "Finish what you can, then release the task."


def record_checkpoint_usage(
    tx: Transaction, workflow: Workflow, task: Task, checkpoint: Checkpoint
) -> str | None:
    """Count the usage in a checkpoint's detail; return a warning for the agent, if there is one."""
    remark = _record(
        tx, task, checkpoint.detail, f"checkpoint:{task.id}", checkpoint.sequence, checkpoint.agent_id
    )
    return " ".join(filter(None, [remark, _warn_of_end(tx, workflow, task)])) or None


def record_result_usage(tx: Transaction, workflow: Workflow, task: Task, agent_id: str | None) -> str | None:
    """Count the usage in the detail of a task's result; return a warning for the agent, if there is one."""
    remark = _record(tx, task, task.outcome_detail, f"result:{task.id}", task.attempts, agent_id)
    Admission(tx, workflow, is_claim=True).find_overrun(task)
    return remark


def _record(
    tx: Transaction,
    task: Task,
    detail: Mapping[str, Any] | None,
    stream: str,
    number: int,
    agent_id: str | None,
) -> str | None:
    found = read_usage(detail)
    if found.usage:
        entry = Entry(stream, number, found.usage, task.workflow_id, task.id, agent_id)
        BudgetService(tx).record(entry)
    return found.problem


def _warn_of_end(tx: Transaction, workflow: Workflow, task: Task) -> str | None:
    overrun = Admission(tx, workflow, is_claim=True).find_overrun(task)
    return f"{overrun.message} {_WHAT_NOW}" if overrun else None
