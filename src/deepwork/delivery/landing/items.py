"""Landings together with the plan and the task whose rules apply to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deepwork.delivery.landing.models import Landing
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.plans.models import (
    ApprovalTime,
    Task,
    Workflow,
    list_required_approvals,
    list_required_checks,
)
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.workspaces.repositories import RepositoryLocator


@dataclass(frozen=True)
class LandingItem:
    """A landing of a task, and what the plan and the task require of it."""

    landing: Landing
    task: Task
    workflow: Workflow
    checks: tuple[str, ...]
    needs_approval: bool

    @property
    def project(self) -> Path:
        """The folder of the project, whose checks run."""
        return Path(self.workflow.repository_path or self.landing.repository_path)


def load_items(
    tx: Transaction, repositories: RepositoryLocator, landings: Sequence[Landing]
) -> list[LandingItem]:
    """Load what is required of these landings; those whose task was removed are left out."""
    tasks = TaskStore(tx).find_by_ids([each.task_id for each in landings if each.task_id])
    plans = {id: PlanStore(tx).get(id) for id in {task.workflow_id for task in tasks.values()}}
    workflows = {id: repositories.localize(tx, plan) for id, plan in plans.items()}
    return [
        _build_item(landing, task, workflows[task.workflow_id])
        for landing in landings
        if (task := tasks.get(landing.task_id or ""))
    ]


def _build_item(landing: Landing, task: Task, workflow: Workflow) -> LandingItem:
    approvals = list_required_approvals(workflow.requirements, task.requirements)
    checks = list_required_checks(workflow.requirements, task.requirements)
    return LandingItem(landing, task, workflow, checks, ApprovalTime.LANDING in approvals)
