"""Records what happens to tasks, tells agents, and asks people where an approval is required."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from deepwork.gates.approvals.models import (
    Approval,
    ApprovalKind,
    ApprovalRequest,
    ApprovalStatus,
    build_closed_error,
    find_current,
    may_pass,
    summarize,
)
from deepwork.gates.approvals.service import find_or_ask, use, withdraw
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.budgets.service import BudgetService
from deepwork.kernel.answers import Answer
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import Code, GateClosed
from deepwork.kernel.foreign_text import truncate_to_line
from deepwork.kernel.notices.models import (
    Notice,
    NoticeType,
    build_plan_change_text,
    build_plan_text,
    build_release_text,
    build_reopened_text,
    build_replan_text,
    build_retry_text,
    build_task_text,
)
from deepwork.kernel.notices.store import MAX_NOTICES, NoticeService, NoticeStore
from deepwork.kernel.user_settings import find_day_budget
from deepwork.kernel.values import copy_with, measure_duration
from deepwork.work.agents.presence import Presence
from deepwork.work.plans.models import (
    ApprovalTime,
    Checkpoint,
    PlanChange,
    PlanEvent,
    PlanStatus,
    Task,
    TaskStatus,
    Workflow,
    list_required_approvals,
)
from deepwork.work.plans.responses import CheckpointView, PlanTaskView, PlanView
from deepwork.work.plans.rules.transitions import count_active_time, derive_workflow_status
from deepwork.work.plans.stores.claim_store import ActiveStore, ClaimStore
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
        short_reason = truncate_to_line(reason, _MAX_REASON_LENGTH) if reason else None
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
    day = find_day_budget()
    if day and day.minutes is not None:
        BudgetService(tx).add_active_time_of_days(before.active_since, ended)


APPROVAL = "approval"
"""The value of `Task.waits_for` while a person has not decided about the work."""
_ALL_TASKS = 1_000_000
_PLANNED_KEYS = ("estimated_complexity", "files_likely_affected", "required_capabilities")


def build_plan_request(tx: Transaction, workflow: Workflow) -> ApprovalRequest:
    """Build the request to approve a plan: its tasks, their order and checks, and what it requires."""
    store = TaskStore(tx)
    tasks, _ = store.list_by_workflow(workflow.id, _ALL_TASKS)
    names = store.list_dependency_names([task.id for task in tasks if task.is_explicit])
    shown = {
        "name": workflow.name,
        "summary": workflow.plan_summary,
        "plan": dict(workflow.initial_plan or {}),
        "requires": _describe(workflow.requirements),
        "tasks": [_describe_task(task, names) for task in sorted(tasks, key=lambda task: task.position)],
    }
    return ApprovalRequest(ApprovalKind.PLAN, workflow.id, workflow.id, shown)


def build_start_request(tx: Transaction, workflow: Workflow, task: Task) -> ApprovalRequest:
    """Build the request to approve a task before it is handed out."""
    names = TaskStore(tx).list_dependency_names([task.id]) if task.is_explicit else {}
    shown = {"plan": workflow.name, **_describe_task(task, names)}
    return ApprovalRequest(ApprovalKind.TASK_BEFORE, task.id, workflow.id, shown)


def build_work_request(
    workflow: Workflow,
    task: Task,
    outcome: str | None,
    outcome_detail: Mapping[str, Any] | None,
    *,
    work: Mapping[str, Any] | None,
    proofs: Sequence[Mapping[str, Any]] = (),
) -> ApprovalRequest:
    """Build the request to approve the work on a task: what it is, what it did, and what proves it."""
    shown = {
        "plan": workflow.name,
        "name": task.name,
        "description": task.description,
        "outcome": outcome,
        "outcome_detail": dict(outcome_detail) if outcome_detail else None,
        "work": dict(work) if work is not None else None,
        "proofs": [dict(proof) for proof in proofs],
    }
    return ApprovalRequest(ApprovalKind.TASK, task.id, workflow.id, shown)


def needs_plan_approval(workflow: Workflow) -> bool:
    """Return whether a person must approve the plan before any of its tasks is handed out."""
    return workflow.requirements is not None and workflow.requirements.approve_plan


def needs_approval(workflow: Workflow, task: Task, time: ApprovalTime) -> bool:
    """Return whether a person must approve the task at this time."""
    return time in list_required_approvals(workflow.requirements, task.requirements)


def ask_for_plan(tx: Transaction, presence: Presence, workflow: Workflow) -> Approval | None:
    """Ask for the approval of a plan that was set or changed, if it needs one."""
    if not needs_plan_approval(workflow):
        return None
    agent = presence.find_unnamed_actor(tx)
    request = build_plan_request(tx, PlanStore(tx).get(workflow.id))
    return find_or_ask(tx, request, agent.id if agent else None)


def allow_parallel_tasks(tx: Transaction, workflow_id: str, tasks: int) -> None:
    """Let at least so many tasks of a plan run in parallel."""
    workflow = PlanStore(tx).get_for_update(workflow_id)
    if tasks <= workflow.max_parallel_tasks:
        return
    recorder = PlanRecorder(tx)
    recorder.save_workflow(workflow, copy_with(workflow, max_parallel_tasks=tasks))
    before, after = (f"{each} in parallel" for each in (workflow.max_parallel_tasks, tasks))
    recorder.record_history(workflow_id, None, "parallelism", before=before, after=after)


def withdraw_start_requests(tx: Transaction, workflow: Workflow, removed: Sequence[Task]) -> None:
    """Stop asking about tasks that are not in the plan any more."""
    for task in removed:
        if needs_approval(workflow, task, ApprovalTime.BEFORE):
            withdraw(tx, ApprovalKind.TASK_BEFORE, task.id)


def find_plan_obstacle(tx: Transaction, workflow: Workflow) -> Approval | None:
    """Return the approval that the plan waits for, from what was asked last; writes nothing."""
    if not needs_plan_approval(workflow):
        return None
    known = ApprovalStore(tx).list_of_subject(ApprovalKind.PLAN, workflow.id)
    counting = [each for each in known if each.status is not ApprovalStatus.STALE] or known
    return counting[0] if counting and counting[0].status is not ApprovalStatus.GIVEN else None


def check_plan(tx: Transaction, workflow: Workflow, agent_id: str | None) -> Approval | None:
    """Return the approval that the plan, as it is now, waits for; asks for it if nobody did."""
    if not needs_plan_approval(workflow):
        return None
    return _find_obstacle(tx, build_plan_request(tx, workflow), agent_id)


def check_start(tx: Transaction, workflow: Workflow, task: Task, agent_id: str | None) -> Approval | None:
    """Return the approval that the task waits for before it is handed out; asks for it if nobody did."""
    if not needs_approval(workflow, task, ApprovalTime.BEFORE):
        return None
    return _find_obstacle(tx, build_start_request(tx, workflow, task), agent_id)


def use_start_approval(tx: Transaction, workflow: Workflow, task: Task) -> None:
    """Use up the approval of a task that is handed out now."""
    if needs_approval(workflow, task, ApprovalTime.BEFORE):
        use(tx, build_start_request(tx, workflow, task))


def require_start_approved(tx: Transaction, workflow: Workflow, task: Task) -> None:
    """Raise if the task must not be started without a claim, which would have asked a person."""
    if needs_plan_approval(workflow):
        use(tx, build_plan_request(tx, workflow))
    if needs_approval(workflow, task, ApprovalTime.BEFORE):
        request = build_start_request(tx, workflow, task)
        known = ApprovalStore(tx).list_of_subject(request.kind, task.id)
        if find_current(known, request.digest, tx.now) is None:
            raise _build_unasked_error(task)
        use(tx, request)


def describe_obstacle(approval: Approval) -> str:
    """Describe, to an agent, the approval that something waits for."""
    return build_closed_error(approval).message


def summarize_obstacle(approval: Approval) -> dict[str, Any]:
    """Summarize, in an answer, the approval that something waits for."""
    return summarize(approval)


def withdraw_work_request(tx: Transaction, task: Task) -> None:
    """Stop asking about work that is not reported as done any more."""
    if task.waits_for == APPROVAL:
        withdraw(tx, ApprovalKind.TASK, task.id)


def _find_obstacle(tx: Transaction, request: ApprovalRequest, asked_by: str | None) -> Approval | None:
    approval = find_or_ask(tx, request, asked_by)
    return None if may_pass(approval, request.digest, tx.now) else approval


def _describe_task(task: Task, depends_on: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    described = {
        "name": task.name,
        "description": task.description,
        "sequence": task.sequence,
        "parallel_group": task.parallel_group,
        "depends_on": sorted(depends_on.get(task.id, ())) if task.is_explicit else None,
        "max_attempts": task.max_attempts,
        "requires": _describe(task.requirements),
        **{key: task.context[key] for key in _PLANNED_KEYS if key in task.context},
    }
    return {name: value for name, value in described.items() if value not in (None, {})}


def _describe(requirements: Any) -> dict[str, Any]:
    """Describe requirements as JSON values, without what is not required."""
    if requirements is None:
        return {}
    return {
        name: _to_json(value)
        for name, value in asdict(requirements).items()
        if value not in (None, False, (), [])
    }


def _to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: each for name, each in value.items() if each is not None}
    return [str(each) for each in value] if isinstance(value, tuple | list) else value


def _build_unasked_error(task: Task) -> GateClosed:
    return GateClosed(
        f"A person has to approve task {task.name!r} before work on it begins.",
        code=Code.NEEDS_APPROVAL,
        suggestion="Claim it with {tool:task_claim}: that asks for the approval.",
        evidence={"approval": {"subject": f"{ApprovalKind.TASK_BEFORE.value}:{task.id}"}},
    )


_PLAN_NOTICES = {PlanStatus.PAUSED: NoticeType.PAUSED, PlanStatus.IN_PROGRESS: NoticeType.RESUMED}


def find_notices_for_reader(
    tx: Transaction, presence: Presence, holder: str | None
) -> tuple[list[Notice], bool]:
    """Find the notices for the agent that reads about a task, and whether its answer carries them.

    A reader that is not a known agent may be the holder after a restart: it sees the holder's notices, but
    they still wait for the holder.
    """
    reader = presence.find_unnamed_actor(tx)
    agent_id = reader.id if reader else holder
    waiting = NoticeStore(tx).list_waiting([agent_id], [], MAX_NOTICES) if agent_id else []
    return waiting, reader is not None and presence.is_read_by_agent(reader)


def notify_of_plan_status(tx: Transaction, workflow: Workflow, reason: str | None) -> None:
    """Notify the agents that hold tasks of the workflow of its new status, each once."""
    notices = NoticeService(tx)
    if not notices.is_needed:
        return
    active = ActiveStore(tx).list_active(workflow.id)
    held = {task.claimed_by: task.id for task in reversed(active) if task.claimed_by}
    kind = _PLAN_NOTICES.get(workflow.status, NoticeType.ENDED)
    text = build_plan_text(workflow.name, workflow.status, reason)
    for agent_id, task_id in held.items():
        notices.notify_agents([agent_id], kind, text, workflow_id=workflow.id, task_id=task_id)


def notify_of_plan_change(tx: Transaction, workflow: Workflow, change: str) -> None:
    """Notify the agents that hold tasks of the workflow that other tasks or its limits changed, each once."""
    notices = NoticeService(tx)
    if notices.is_needed:
        active = ActiveStore(tx).list_active(workflow.id)
        holders = [task.claimed_by for task in active if task.claimed_by]
        text = build_plan_change_text(workflow.name, change)
        notices.notify_agents(holders, NoticeType.REPLANNED, text, workflow_id=workflow.id)


def notify_of_release(tx: Transaction, task: Task, holder: str, reason: str | None) -> None:
    """Notify an agent that its claim was released."""
    _notify(tx, task, holder, NoticeType.RELEASED, build_release_text(task.name, reason))


def notify_of_task_status(
    tx: Transaction, task: Task, holder: str | None, status: TaskStatus, reason: str | None
) -> None:
    """Notify the holder of a task of its new status; of a retry, the agent that held it last."""
    if not NoticeService(tx).is_needed:
        return
    if task.status is TaskStatus.FAILED and status is TaskStatus.PENDING:
        last = ClaimStore(tx).find_last_claimer(task.id)
        _notify(tx, task, last, NoticeType.RETRY, build_retry_text(task.name, reason))
    else:
        goes_on = status in (TaskStatus.PLANNING, TaskStatus.IN_PROGRESS)
        text = build_task_text(task.name, status, reason, goes_on=goes_on)
        _notify(tx, task, holder, NoticeType.STATUS, text)


def notify_of_replan(tx: Transaction, task: Task, holder: str | None, reason: str) -> None:
    """Notify the holder of a task that its plan was replaced."""
    _notify(tx, task, holder, NoticeType.REPLANNED, build_replan_text(task.name, reason))


def notify_of_reopening(tx: Transaction, task_id: str, why: str, by: str | None = None) -> None:
    """Notify the agent that completed a task that it is open again; `by` as in `NoticeService`."""
    task = TaskStore(tx).get(task_id)
    last = ClaimStore(tx).find_last_claimer(task_id)
    _notify(tx, task, last, NoticeType.RETRY, build_reopened_text(task.name, why), by)


def _notify(
    tx: Transaction, task: Task, agent_id: str | None, type: NoticeType, text: str, by: str | None = None
) -> None:
    agents = [agent_id] if agent_id else []
    NoticeService(tx, by).notify_agents(agents, type, text, workflow_id=task.workflow_id, task_id=task.id)
