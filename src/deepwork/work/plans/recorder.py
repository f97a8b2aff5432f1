"""Saves changes of plans: each is stored, emitted as an event and, where useful, added to the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from deepwork.gates.budgets.service import BudgetService, load_day_budget
from deepwork.kernel.answers import Answer
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import copy_with
from deepwork.kernel.text_budget.lines import truncate_to_line
from deepwork.kernel.timestamps import measure_duration
from deepwork.work.plans.models import Checkpoint, PlanChange, PlanEvent, Task, TaskStatus, Workflow
from deepwork.work.plans.responses import CheckpointView, PlanTaskView, PlanView
from deepwork.work.plans.rules.transitions import count_active_time, derive_workflow_status
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_MAX_REASON_LENGTH = 500


class PlanRecorder:
    """Saves workflows and tasks, and emits their events.

    `by_whom` is the agent the history names; without a known agent it is the caller.
    """

    def __init__(self, tx: Transaction, by_whom: str | None = None) -> None:
        self._tx = tx
        self._by_whom = by_whom or tx.caller
        self._plans = PlanStore(tx)

    def save_workflow(self, before: Workflow, after: Workflow, reason: str | None = None) -> Workflow:
        """Save a changed workflow; a change of status, or one with a reason, goes into the history."""
        after = copy_with(after, updated_at=self._tx.now)
        self._plans.save(before, after)
        if before.status != after.status or reason:
            self.record_history(
                after.id, None, "status", before=before.status, after=after.status, reason=reason
            )
        self.emit_workflow_event(PlanEvent.UPDATED, after)
        return after

    def save_task(
        self,
        before: Task,
        after: Task,
        reason: str | None = None,
        *,
        event: PlanEvent = PlanEvent.TASK_UPDATED,
        workflow: Workflow | None = None,
        ended_at: int | None = None,
    ) -> Task:
        """Save a changed task; a change of status, or another event than `updated`, is in the history.

        Pass the `workflow` if the change can end the time for which the task is active, and `ended_at` if
        that was not now.
        """
        after = count_active_time(before, after, ended_at or self._tx.now)
        after = copy_with(after, updated_at=self._tx.now)
        TaskStore(self._tx).save(before, after)
        if workflow and before.active_since is not None and after.active_since is None:
            record_active_time(self._tx, workflow, before, after)
        what = event.value.removeprefix("plan_task:")
        if before.status != after.status or event is not PlanEvent.TASK_UPDATED:
            self.record_history(
                after.workflow_id, after.id, what, before=before.status, after=after.status, reason=reason
            )
        self.emit_task_event(event, after)
        return after

    def update_workflow_status(self, workflow: Workflow, *, any_started: bool, may_be_done: bool) -> Workflow:
        """Derive the workflow's status from its tasks, and save it if it changes."""
        all_done = may_be_done and TaskStore(self._tx).are_all_done(workflow.id)
        status = derive_workflow_status(workflow.status, any_started=any_started, all_done=all_done)
        if status is workflow.status:
            return workflow
        reason = "every task is done" if all_done else "the first task was started"
        return self.save_workflow(workflow, copy_with(workflow, status=status), reason)

    def record_completion(self, workflow: Workflow, task: Task) -> Workflow:
        """Add the duration of a completed task to the workflow, and return it."""
        if task.status is not TaskStatus.COMPLETED:
            return workflow
        spent = measure_duration(task.started_at or self._tx.now, self._tx.now)
        counted = copy_with(
            workflow,
            completed_tasks=workflow.completed_tasks + 1,
            completed_ms=workflow.completed_ms + spent,
            updated_at=self._tx.now,
        )
        self._plans.save(workflow, counted)
        return counted

    def record_history(
        self,
        workflow_id: str,
        task_id: str | None,
        what: str,
        *,
        before: str | None = None,
        after: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Add an entry to the workflow's history; a long reason is cut to one line."""
        short_reason = truncate_to_line(reason, _MAX_REASON_LENGTH)
        self._plans.add_history(
            PlanChange(workflow_id, task_id, what, before, after, short_reason, self._by_whom)
        )

    def emit_workflow_event(self, event: PlanEvent, workflow: Workflow) -> None:
        self._tx.emit(event, _build_payload(_WORKFLOW_FIELDS, workflow), workflow.id)

    def emit_task_event(self, event: PlanEvent, task: Task) -> None:
        self._tx.emit(event, _build_task_payload(task), task.workflow_id)

    def emit_checkpoint_event(self, task: Task, checkpoint: Checkpoint) -> None:
        payload = {"task_id": task.id, **_build_payload(_CHECKPOINT_FIELDS, checkpoint)}
        self._tx.emit(PlanEvent.CHECKPOINT, payload, task.workflow_id)


def _pair_fields(
    view: type[Answer], record: type[DataclassInstance], renamed: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Pair the fields of a view with those of the record that it shows."""
    known = {field.name for field in fields(record)}
    shown = {name: renamed.get(name, name) for name in view.model_fields}
    return tuple((name, field) for name, field in shown.items() if field in known)


_WORKFLOW_FIELDS = _pair_fields(PlanView, Workflow, {"plan": "initial_plan"})
_TASK_FIELDS = _pair_fields(
    PlanTaskView,
    Task,
    {"assigned_agent_id": "claimed_by", "checkpoints": "", "failures": "", "max_attempts": ""},
)
_CHECKPOINT_FIELDS = _pair_fields(CheckpointView, Checkpoint, {})


def _build_task_payload(task: Task) -> dict[str, Any]:
    """Build the payload of a task's event; attempts matter only after a failure."""
    payload = _build_payload(_TASK_FIELDS, task)
    if task.failures:
        payload |= {"failures": task.failures, "max_attempts": task.max_attempts}
    if task.waits_for_person:
        payload["waits_for_person"] = True
    return payload


def _build_payload(pairs: tuple[tuple[str, str], ...], record: object) -> dict[str, Any]:
    """Build the payload of an event: what the view shows of the record, several times as fast."""
    values = vars(record)
    return {name: value for name, field in pairs if (value := values[field]) is not None}


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
