"""What is told and remembered of a plan: an event for everybody, a line of history for whoever asks why."""

from __future__ import annotations

from dataclasses import replace

from deepwork.database.transaction import Transaction
from deepwork.plans.models import Change, Checkpoint, PlanEvent, Task, Workflow
from deepwork.plans.responses import CheckpointView, TaskView, WorkflowView, one_line
from deepwork.plans.store import PlanStore
from deepwork.plans.task_store import TaskStore
from deepwork.plans.transitions import workflow_after

_LONGEST_REASON = 500


class Chronicle:
    """Keeps changes and tells them; `by_whom` is the agent, or the caller where no agent is known."""

    def __init__(self, tx: Transaction, by_whom: str | None = None) -> None:
        self._tx = tx
        self._by_whom = by_whom or tx.caller
        self._plans = PlanStore(tx)

    def workflow_changed(self, before: Workflow, after: Workflow, reason: str | None = None) -> Workflow:
        """Keep the workflow as it is now."""
        after = replace(after, updated_at=self._tx.now)
        self._plans.keep(before, after)
        if before.status != after.status or reason:
            self._note(after.id, None, "status", before.status, after.status, reason)
        self.tell_workflow(PlanEvent.UPDATED, after)
        return after

    def task_changed(
        self,
        before: Task,
        after: Task,
        reason: str | None = None,
        *,
        event: PlanEvent = PlanEvent.TASK_UPDATED,
    ) -> Task:
        """Keep the task as it is now."""
        after = replace(after, updated_at=self._tx.now)
        TaskStore(self._tx).keep(before, after)
        what = event.value.removeprefix("plan_task:")
        if before.status != after.status or event is not PlanEvent.TASK_UPDATED:
            self._note(after.workflow_id, after.id, what, before.status, after.status, reason)
        self.tell_task(event, after)
        return after

    def follow_tasks(self, workflow: Workflow, *, any_begun: bool, may_be_done: bool) -> Workflow:
        """Let the workflow become what its tasks make of it."""
        all_done = may_be_done and TaskStore(self._tx).all_done(workflow.id)
        status = workflow_after(workflow.status, any_begun=any_begun, all_done=all_done)
        if status is workflow.status:
            return workflow
        reason = "every task is done" if all_done else "the first task was begun"
        return self.workflow_changed(workflow, replace(workflow, status=status), reason)

    def note(
        self,
        workflow_id: str,
        task_id: str | None,
        what: str,
        before: str | None,
        reason: str | None,
        after: str | None = None,
    ) -> None:
        """Remember something that is no change of status."""
        self._note(workflow_id, task_id, what, before, after, reason)

    def tell_workflow(self, event: PlanEvent, workflow: Workflow) -> None:
        self._tx.emit(event, WorkflowView.of(workflow).model_dump(mode="json"), workflow.id)

    def tell_task(self, event: PlanEvent, task: Task) -> None:
        self._tx.emit(event, TaskView.of(task).model_dump(mode="json"), task.workflow_id)

    def tell_checkpoint(self, task: Task, checkpoint: Checkpoint) -> None:
        told = {"task_id": task.id, **CheckpointView.of(checkpoint).model_dump(mode="json")}
        self._tx.emit(PlanEvent.CHECKPOINT, told, task.workflow_id)

    def _note(
        self,
        workflow_id: str,
        task_id: str | None,
        what: str,
        before: str | None,
        after: str | None,
        reason: str | None,
    ) -> None:
        self._plans.note(
            Change(
                workflow_id, task_id, what, before, after, one_line(reason, _LONGEST_REASON), self._by_whom
            )
        )
