"""Reported work: it waits for the person who has to approve it, and what it used is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepwork.gates.approvals.models import Approval, ApprovalRequest, ApprovalStatus
from deepwork.gates.approvals.rules import build_closed_error, may_pass
from deepwork.gates.approvals.service import find_or_ask, use
from deepwork.gates.budgets.models import Entry
from deepwork.gates.budgets.service import BudgetService
from deepwork.gates.budgets.usage import read_usage
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.operations import NotPrepared
from deepwork.kernel.records import copy_with
from deepwork.work.agents.presence import Presence
from deepwork.work.plans.admission import Admission
from deepwork.work.plans.claims import ClaimService, LockedTask
from deepwork.work.plans.interfaces import WorkDescriber
from deepwork.work.plans.models import ApprovalTime, Checkpoint, Task, TaskStatus, Workflow
from deepwork.work.plans.recorder import (
    APPROVAL,
    PlanRecorder,
    build_work_request,
    needs_approval,
    withdraw_work_request,
)
from deepwork.work.plans.rules.transitions import require_open
from deepwork.work.plans.stores.claim_store import ClaimStore
from deepwork.work.plans.stores.plan_store import PlanStore
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
        self, task_id: str, report: Report, agent_id: str | None, claim_epoch: int | None
    ) -> DescribedWork | None:
        """Return the work if a person approved it; else let the task wait for that, and raise GateClosed.

        Not in a transaction: the working tree is looked at first, and what waits stays stored.
        """
        with self._database.reading() as tx:
            task = TaskStore(tx).get(task_id)
            workflow = PlanStore(tx).get(task.workflow_id)
        if not needs_approval(workflow, task, ApprovalTime.AFTER):
            return None
        described = DescribedWork(self._get_describer().describe(task_id))
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
