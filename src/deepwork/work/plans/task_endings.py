"""What comes after the end of a task."""

from __future__ import annotations

from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.notices.responses import NoticeView
from deepwork.work.plans.models import PlanStatus, TaskStatus, Workflow
from deepwork.work.plans.scheduling import Scheduler
from deepwork.work.plans.status_answers import TaskUpdated

_MAX_NEXT_TASKS = 3


def build_status_answer(
    tx: Transaction,
    workflow: Workflow,
    status: TaskStatus,
    notices: list[NoticeView] | None,
    checks: dict[str, str] | None = None,
) -> TaskUpdated:
    """Build the answer to a changed status; one that ends the task names the first tasks to claim next."""
    answer = TaskUpdated(notices=notices, checks=checks)
    if workflow.status is PlanStatus.COMPLETED:
        return answer.model_copy(update={"all_complete": True})
    is_over = status.is_done or status is TaskStatus.FAILED
    if not (is_over and workflow.status.hands_out_tasks):
        return answer
    return answer.model_copy(
        update={"next_tasks": Scheduler(tx).list_next_names(workflow, _MAX_NEXT_TASKS) or None}
    )
