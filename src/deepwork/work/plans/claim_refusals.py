"""Why a task cannot be claimed now: the order of the reasons, each with what would free it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deepwork.gates.approvals.models import Approval, ApprovalKind
from deepwork.gates.approvals.service import add_waiting
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.plans.admission import Admission
from deepwork.work.plans.approval_gate import (
    APPROVAL,
    check_plan,
    check_start,
    describe_obstacle,
    summarize_obstacle,
)
from deepwork.work.plans.models import FileConflicts, PlanStatus, Task, Workflow
from deepwork.work.plans.responses import Claimed, RefusalReason
from deepwork.work.plans.rules.attempts import describe_used_up_attempts
from deepwork.work.plans.rules.claim_warnings import MAX_NAMED, format_names
from deepwork.work.plans.rules.file_overlaps import ActiveTask, build_path_query, find_overlapping
from deepwork.work.plans.rules.transitions import describe_pause
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.queue_store import QueueStore
from deepwork.work.plans.stores.task_store import TaskStore


@dataclass(frozen=True)
class ActiveTasks:
    """The other tasks of the workflow that are claimed or running."""

    count: int
    overlapping: list[ActiveTask]
    """Those likely to change the same files; empty if the workflow ignores file conflicts."""


class ClaimRefusals:
    """Finds out why tasks cannot be claimed; the caller has locked the workflow."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._plans = PlanStore(tx)
        self._tasks = TaskStore(tx)
        self._queue = QueueStore(tx)

    def find_active_tasks(self, workflow: Workflow, task: Task) -> ActiveTasks:
        """Find the other active tasks; files are read only of those that can conflict with this one."""
        if not task.files or workflow.file_conflicts is FileConflicts.IGNORE:
            return ActiveTasks(self._queue.count_active(workflow.id, excluding=task.id), [])
        if wanted := build_path_query(task.files):
            others, count = self._queue.find_active_with_paths(workflow.id, wanted, excluding=task.id)
        else:
            others = self._queue.list_active_files(workflow.id, excluding=task.id)
            count = len(others)
        return ActiveTasks(count, find_overlapping(task.files, others))

    def find_refusal(
        self, workflow: Workflow, task: Task, others: ActiveTasks, agent_id: str, *, has_begun: bool = False
    ) -> Claimed | None:
        """Return why the agent cannot claim the task now; asks for the approvals that it needs.

        `has_begun`: the approval to begin the task was used by the same call.
        """
        if refusal := self._find_lasting_refusal(workflow, task, agent_id):
            return refusal
        open_ones, count = self._tasks.list_open_dependencies(task, MAX_NAMED)
        if count:
            return build_refusal("blocked", f"It waits for {format_names(open_ones, count)}.")
        if not has_begun and (waits_for := check_start(self._tx, workflow, task, agent_id)):
            add_waiting(self._tx, waits_for, agent_id)
            return _build_approval_refusal(waits_for)
        if others.count >= workflow.max_parallel_tasks:
            running = "1 task is" if others.count == 1 else f"{others.count} tasks are"
            limit = workflow.max_parallel_tasks
            return build_refusal("limit", f"{running} active and the workflow's limit is {limit}.")
        if others.overlapping and workflow.file_conflicts is FileConflicts.REFUSE:
            names = format_names(others.overlapping, len(others.overlapping))
            message = f"Its files overlap with those of {names}."
            return build_refusal("files", message, conflicts_with=[other.id for other in others.overlapping])
        return self.find_budget_refusal(workflow, task)

    def find_budget_refusal(self, workflow: Workflow, task: Task) -> Claimed | None:
        """Return which budget is used up, or that too many results wait for a person."""
        refusal = Admission(self._tx, workflow, is_claim=True).find_refusal(task)
        return build_refusal(refusal.reason, refusal.message) if refusal else None

    def _find_lasting_refusal(self, workflow: Workflow, task: Task, agent_id: str) -> Claimed | None:
        """Return why the task is not handed out until a person acts."""
        if task.waits_for_person:
            return build_refusal("attempts", describe_used_up_attempts(task))
        if not workflow.status.hands_out_tasks:
            return build_refusal(
                "workflow", f"{self._describe_status(workflow)} Its tasks cannot be claimed."
            )
        if waits_for := self._find_waiting_work(task):
            return _build_approval_refusal(waits_for)
        if waits_for := check_plan(self._tx, workflow, agent_id):
            add_waiting(self._tx, waits_for, agent_id)
            return _build_approval_refusal(waits_for)
        return None

    def _find_waiting_work(self, task: Task) -> Approval | None:
        """Return the approval that decides about work which is done."""
        if task.waits_for != APPROVAL:
            return None
        return next(iter(ApprovalStore(self._tx).list_of_subject(ApprovalKind.TASK, task.id)), None)

    def _describe_status(self, workflow: Workflow) -> str:
        if workflow.status is PlanStatus.PAUSED:
            return describe_pause(workflow, self._plans.find_pause(workflow.id))
        return f"Workflow {workflow.name!r} is {workflow.status}."


def _build_approval_refusal(approval: Approval) -> Claimed:
    return build_refusal("approval", describe_obstacle(approval), approval=summarize_obstacle(approval))


def build_refusal(reason: RefusalReason, message: str, **more: Any) -> Claimed:
    """Build the answer of a claim that was refused."""
    return Claimed(success=False, reason=reason, message=message, **more)
