"""Changes of status, and what has to hold before one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deepwork.gates.approvals.acts import allow_person, require_proven
from deepwork.gates.approvals.models import (
    Approval,
    ApprovalRequest,
    ApprovalStatus,
    build_closed_error,
    may_pass,
)
from deepwork.gates.approvals.service import find_or_ask, use
from deepwork.gates.budgets.models import Entry
from deepwork.gates.budgets.service import BudgetService
from deepwork.gates.budgets.store import read_usage
from deepwork.kernel.call import current_call, is_person
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.notices.responses import NoticeView
from deepwork.kernel.operations import NotPrepared
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import copy_with
from deepwork.work.agents.presence import Presence
from deepwork.work.plans.admission import Admission
from deepwork.work.plans.claims import ClaimService, LockedTask
from deepwork.work.plans.interfaces import CompletedWork, WorkDescriber
from deepwork.work.plans.models import (
    ApprovalTime,
    Checkpoint,
    CheckpointType,
    PlanStatus,
    Task,
    TaskStatus,
    Workflow,
)
from deepwork.work.plans.queue_responses import TaskUpdated
from deepwork.work.plans.recorder import (
    APPROVAL,
    PlanRecorder,
    build_work_request,
    needs_approval,
    notify_of_reopening,
    require_start_approved,
    withdraw_work_request,
)
from deepwork.work.plans.rules.transitions import (
    check_task_transition,
    count_attempts,
    is_tried_again,
    require_attempts_left,
    require_open,
)
from deepwork.work.plans.rules.weakening import require_skippable
from deepwork.work.plans.scheduling import Scheduler
from deepwork.work.plans.stores.claim_store import ClaimStore
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.search_store import CheckpointStore
from deepwork.work.plans.stores.task_store import TaskStore

_WHAT_NOW = "Finish what you can, then release the task."


@dataclass(frozen=True)
class Report:
    """What is reported about a task that is done."""

    outcome: str | None
    detail: Mapping[str, Any] | None
    proofs: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class DescribedWork:
    """The changed files of a task, as they were just before the transaction that completes it."""

    files: Mapping[str, Any] | None


class WorkGate:
    """Lets a task be completed only with the approval of exactly this work."""

    def __init__(
        self, database: Database, presence: Presence, get_describer: Callable[[], WorkDescriber]
    ) -> None:
        self._database, self._presence, self._get_describer = database, presence, get_describer

    def pass_work(self, tx: Transaction, work: LockedTask, wanted: TaskStatus, report: Report) -> None:
        """Use the approval of work that is completed now; raises NotPrepared if nobody was asked yet."""
        if wanted is not TaskStatus.COMPLETED:
            withdraw_work_request(tx, work.task)
        elif needs_approval(work.workflow, work.task, ApprovalTime.AFTER):
            described = current_call().find_prepared(DescribedWork)
            if described is None:
                raise NotPrepared
            use(tx, _build_request(work, report, described))

    def ask(
        self, task_id: str, report: Report, seen: CompletedWork, agent_id: str | None, claim_epoch: int | None
    ) -> DescribedWork | None:
        """Return the work if a person approved it; else let the task wait for that, and raise GateClosed.

        Not in a transaction: the working tree is looked at first, and what waits stays stored.
        """
        with self._database.reading() as tx:
            task = TaskStore(tx).get(task_id)
            workflow = PlanStore(tx).get(task.workflow_id)
        if not needs_approval(workflow, task, ApprovalTime.AFTER):
            return None
        described = DescribedWork(self._get_describer().describe(task_id, seen))
        with self._database.transaction() as tx, ClaimService(tx, self._presence) as claims:
            work = claims.lock_for_change(task_id, agent_id, claim_epoch)
            require_open(work.workflow)
            approval = self._find_or_hold(tx, claims, work, report, described)
        if approval is None:
            return described
        raise build_closed_error(approval)

    def _find_or_hold(
        self,
        tx: Transaction,
        claims: ClaimService,
        work: LockedTask,
        report: Report,
        described: DescribedWork,
    ) -> Approval | None:
        request = _build_request(work, report, described)
        approval = find_or_ask(tx, request, work.actor.id if work.actor else None)
        if may_pass(approval, request.digest, tx.now):
            return None
        if approval.status is ApprovalStatus.PENDING:
            _hold(tx, claims, work, report)
        return approval


def _build_request(work: LockedTask, report: Report, described: DescribedWork) -> ApprovalRequest:
    return build_work_request(
        work.workflow, work.task, report.outcome, report.detail, work=described.files, proofs=report.proofs
    )


def _hold(tx: Transaction, claims: ClaimService, work: LockedTask, report: Report) -> None:
    """Let the task wait: it has no holder, is not handed out, and keeps what was reported."""
    task = work.task
    claims.end_claim(task)
    waiting = copy_with(
        task,
        status=TaskStatus.IN_PROGRESS,
        waits_for=APPROVAL,
        claimed_by=None,
        outcome=report.outcome,
        outcome_detail=report.detail,
        error=None,
        attempts=task.attempts + task.status.can_start,
        started_at=task.started_at or ClaimStore(tx).find_claim_time(task.id) or tx.now,
    )
    if waiting == task:
        return
    recorder = PlanRecorder(tx, work.actor.id if work.actor else None)
    recorder.save_task(task, waiting, "its work waits for the approval of a person", workflow=work.workflow)
    # Counted now: a refusal clears the report. The same report counts once, also when the task is completed.
    record_result_usage(tx, work.workflow, waiting, work.actor.id if work.actor else None)
    recorder.update_workflow_status(work.workflow, any_started=True, may_be_done=False)


def send_back(tx: Transaction, task: Task, by_whom: str, comment: str | None) -> Task:
    """Hand a task out again whose work a person refused."""
    again = copy_with(task, status=TaskStatus.PENDING, waits_for=None, outcome=None, outcome_detail=None)
    return PlanRecorder(tx, by_whom).save_task(task, again, comment or "its work was refused")


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


_MAX_NAMED_TASKS = 3

_MAX_NEXT_TASKS = 3


def apply_status(
    tx: Transaction,
    work: LockedTask,
    wanted: TaskStatus,
    *,
    outcome: str | None = None,
    error: str | None = None,
) -> Task:
    """Return the task with this status, or raise an error if the transition is not allowed."""
    task = work.task
    open_ones, count = (
        TaskStore(tx).list_open_dependencies(task, _MAX_NAMED_TASKS) if task.status.can_start else ([], 0)
    )
    status = check_task_transition(
        task,
        wanted,
        open_dependencies=[other.name for other in open_ones],
        open_count=count,
        outcome=outcome,
        error=error,
    )
    if status is None:
        return task
    with allow_person(tx):
        require_attempts_left(task, status)
        require_skippable(task, status, work.workflow)
    begins = task.status.can_start and status not in (TaskStatus.SKIPPED, TaskStatus.PENDING)
    if begins and work.holder is None and not work.was_last_holder:
        require_start_approved(tx, work.workflow, task)
    changed = copy_with(
        task,
        status=status,
        waits_for=None,
        attempts=task.attempts + begins,
        started_at=_compute_start_time(tx, work, status) if begins else task.started_at,
        finished_at=tx.now if status.is_done or status is TaskStatus.FAILED else None,
    )
    return count_attempts(task, changed, may_forget=may_give_attempts(tx, task, status))


def may_give_attempts(tx: Transaction, task: Task, wanted: TaskStatus) -> bool:
    """Whether a task that failed gets new attempts: if a person tries it again, with their proof."""
    if not is_person(tx.caller) or not is_tried_again(task, wanted):
        return False
    require_proven(tx)
    return True


def _compute_start_time(tx: Transaction, work: LockedTask, status: TaskStatus) -> int:
    """Return when work started: now, or at the claim if the first report is that the task has ended."""
    was_held = work.holder is not None or work.was_last_holder
    if status.is_running or not was_held:
        return tx.now
    return ClaimStore(tx).find_claim_time(work.task.id) or tx.now


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


def reopen_task(
    tx: Transaction, task_id: str, summary: str, *, reason: str, detail: Mapping[str, Any] | None = None
) -> Task:
    """Hand a completed task out again; the checkpoint with the summary is in the context of its next agent.

    Its outcome is kept in that checkpoint. Tasks that depend on it wait for it again, unless they have begun.
    A plan whose last task it was is in progress again. A task that is not done stays as it is.
    """
    # The plan first, as claims and reports do, so that no two calls wait for each other.
    workflow = PlanStore(tx).get_for_update(TaskStore(tx).get(task_id).workflow_id)
    task = TaskStore(tx).get_for_update(task_id)
    recorder = PlanRecorder(tx)
    kept = {**(detail or {}), "outcome": task.outcome} if task.outcome else dict(detail or {})
    checkpoint = CheckpointStore(tx).add(task, CheckpointType.ERROR, summary, detail=kept)
    task = TaskStore(tx).get(task_id)
    recorder.emit_checkpoint_event(task, checkpoint)
    if not task.status.is_done:
        return task
    again = copy_with(
        task, status=TaskStatus.PENDING, outcome=None, outcome_detail=None, finished_at=None, claimed_by=None
    )
    saved = recorder.save_task(task, again, reason)
    TaskStore(tx).block_dependents(task_id)
    if workflow.status is PlanStatus.COMPLETED:
        recorder.save_workflow(workflow, copy_with(workflow, status=PlanStatus.IN_PROGRESS), reason)
    return saved


def reopen_by_person(tx: Transaction, task_id: str, why: str | None) -> bool:
    """Open a completed task again if a person asks for it; False if it is not completed, or no person does.

    Its checks and approvals count again when it is completed, so this passes no gate.
    """
    if not is_person(tx.caller) or TaskStore(tx).get(task_id).status is not TaskStatus.COMPLETED:
        return False
    reason = f"{tx.caller} opened it again"
    reopen_task(tx, task_id, why or f"{reason}.", reason=reason)
    notify_of_reopening(tx, task_id, why or reason)
    return True
