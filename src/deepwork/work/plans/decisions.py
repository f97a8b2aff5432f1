"""What decisions of people about plans and their tasks lead to."""

from __future__ import annotations

from collections.abc import Callable

from deepwork.gates.approvals.models import Approval, ApprovalKind, DecisionEffect
from deepwork.gates.approvals.service import notify_of_decision
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError
from deepwork.work.plans.models import CheckpointType, Task
from deepwork.work.plans.recorder import APPROVAL, PlanRecorder
from deepwork.work.plans.stores.checkpoint_store import CheckpointStore
from deepwork.work.plans.stores.claim_store import ClaimStore
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.plans.work_gate import send_back

CompleteTask = Callable[[Task], None]
"""Reports a task as completed, with what its agent reported, in the name of the person who approved it."""


class PlanDecisions:
    """Carries out decisions about plans, tasks to hand out and work that is done."""

    def __init__(self, database: Database, complete: CompleteTask) -> None:
        self._database, self._complete = database, complete

    def lock(self, tx: Transaction, approval: Approval) -> None:
        """Lock the plan, as claims and reports do first."""
        PlanStore(tx).get_for_update(approval.workflow_id or "")

    def apply(self, tx: Transaction, approval: Approval) -> str | None:
        """Notify agents; send work back that was refused."""
        if approval.subject_kind is ApprovalKind.PLAN:
            done = "Its tasks can be claimed." if approval.was_given else "Change the plan; that asks again."
            notify_of_decision(tx, approval, done)
            return None
        task = TaskStore(tx).find_by_ids([approval.subject_id]).get(approval.subject_id)
        if approval.subject_kind is ApprovalKind.TASK_BEFORE:
            notify_of_decision(
                tx, approval, "Claim it now." if approval.was_given else "", task_id=approval.subject_id
            )
            return None
        return self._apply_to_work(tx, approval, task) if task else None

    def follow(self, approval: Approval) -> DecisionEffect | None:
        """Complete a task whose work waits, if nothing changed since the person looked at it."""
        if approval.subject_kind is not ApprovalKind.TASK or not approval.was_given:
            return None
        with self._database.reading() as tx:
            task = TaskStore(tx).find_by_ids([approval.subject_id]).get(approval.subject_id)
        if task is None or task.waits_for != APPROVAL:
            return DecisionEffect("The task does not wait any more; its agent reports it again.")
        try:
            self._complete(task)
        except DeepworkError as error:
            return DecisionEffect(f"The task is not completed yet: {error.message}", is_carried_out=False)
        return DecisionEffect("The task is completed.")

    def _apply_to_work(self, tx: Transaction, approval: Approval, task: Task) -> str | None:
        last = ClaimStore(tx).find_last_claimer(task.id)
        agents = [last] if last else []
        if approval.was_given:
            notify_of_decision(tx, approval, "", agents, task.id)
            return None
        next_step = "Claim the task, correct it and report it again."
        notify_of_decision(tx, approval, next_step, agents, task.id)
        if task.waits_for != APPROVAL:
            return None
        _record_refusal(tx, approval, task)
        send_back(tx, TaskStore(tx).get(task.id), tx.caller, approval.comment)
        return "The task was sent back."


def _record_refusal(tx: Transaction, approval: Approval, task: Task) -> None:
    """Add a checkpoint, which any agent that continues the task reads."""
    summary = f"{approval.decided_by} refused the work: {approval.comment or 'no comment'}"
    detail = {"by": approval.decided_by, "approval": approval.id, "outcome": task.outcome}
    checkpoint = CheckpointStore(tx).add(task, CheckpointType.DECISION, summary, detail=detail)
    PlanRecorder(tx).emit_checkpoint_event(task, checkpoint)
