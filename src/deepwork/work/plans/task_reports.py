"""What agents report about tasks, and what people decide about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from deepwork.gates.approvals.models import Approval, ApprovalKind, DecisionEffect
from deepwork.gates.approvals.service import notify_of_decision
from deepwork.kernel.call import PERSON_PREFIX, current_call, use_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.foreign_text import to_one_line
from deepwork.kernel.notices.models import NoticeType
from deepwork.kernel.notices.store import NoticeStore
from deepwork.kernel.operations import NotPrepared
from deepwork.kernel.values import copy_with
from deepwork.work.agents.presence import Presence
from deepwork.work.plans.claims import ClaimService, LockedTask
from deepwork.work.plans.interfaces import CompletedWork, WorkspaceProvider
from deepwork.work.plans.models import CheckpointType, Task, TaskStatus, Workflow
from deepwork.work.plans.recorder import APPROVAL, PlanRecorder, notify_of_task_status
from deepwork.work.plans.rules.transitions import require_open
from deepwork.work.plans.status_changes import DescribedWork, Report, WorkGate, apply_status, send_back
from deepwork.work.plans.stores.claim_store import ClaimStore
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.search_store import CheckpointStore, SearchEntry, SearchStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.plans.task_proofs import TaskProofs, TaskProver

_MAX_WORDS = 3


class TaskReports:
    """Reports about tasks: each passes the gates, and is saved with its consequences."""

    def __init__(
        self,
        database: Database,
        presence: Presence,
        prover: TaskProver,
        work_gate: WorkGate,
        workspaces: WorkspaceProvider | None = None,
    ) -> None:
        self._database, self._presence = database, presence
        self._prover, self._work_gate, self._workspaces = prover, work_gate, workspaces

    def complete_approved(self, task: Task) -> None:
        """Complete a task whose work a person approved, with what its agent reported when it began to wait.

        What that cost was counted then, and nobody reads an answer.
        """
        detail = dict(task.outcome_detail) if task.outcome_detail else None
        call = current_call()
        with use_call(copy_with(call, record=None)):
            prepared = self.prepare_completion(task.id, task.outcome, detail)
        with use_call(copy_with(call, prepared=prepared)):
            try:
                self._complete(task, detail)
            except NotPrepared as again:
                raise again.to_error() from again

    def _complete(self, task: Task, detail: dict[str, Any] | None) -> None:
        with self._database.transaction() as tx, ClaimService(tx, self._presence, self._workspaces) as claims:
            work = self.lock(claims, task.id, None, None, repeats=TaskStatus.COMPLETED)
            moved = apply_status(tx, work, TaskStatus.COMPLETED, outcome=task.outcome)
            if moved.status is not work.task.status:
                self.save_status(tx, claims, work, moved, task.outcome, detail)

    def prepare_completion(
        self,
        id: str,
        outcome: str | None = None,
        outcome_detail: dict[str, Any] | None = None,
        agent_id: str | None = None,
        claim_epoch: int | None = None,
        **_: Any,
    ) -> tuple[TaskProofs | None, CompletedWork, DescribedWork | None]:
        """Prove the checks first: people look only at work that passes them."""
        proofs = self._prover.prove(id, agent_id, claim_epoch)
        seen = self._prover.look(id, proofs)
        report = Report(outcome, outcome_detail, proofs.describe() if proofs else ())
        return proofs, seen, self._work_gate.ask(id, report, seen, agent_id, claim_epoch)

    def lock(
        self,
        claims: ClaimService,
        id: str,
        agent_id: str | None,
        claim_epoch: int | None,
        repeats: TaskStatus | None = None,
    ) -> LockedTask:
        """Lock the task for a change; its workflow must be open.

        Reporting the status that the task already has is allowed even when the workflow is over, so that
        repeated calls do not fail.
        """
        work = claims.lock_for_change(id, agent_id, claim_epoch)
        if repeats is None or work.task.status is not repeats:
            require_open(work.workflow)
        return work

    def save_status(
        self,
        tx: Transaction,
        claims: ClaimService,
        work: LockedTask,
        moved: Task,
        outcome: str | None,
        detail: dict[str, Any] | None,
        error: str | None = None,
    ) -> tuple[Workflow, Task, TaskProofs | None]:
        """Save a task with its new status and what was reported about it, and what follows from that."""
        proofs = self._prover.take(work.workflow, moved)
        report = Report(outcome, detail, proofs.describe() if proofs else ())
        seen = self._prover.take_work(moved)
        self._work_gate.pass_work(tx, work, moved.status, report)
        if moved.status is TaskStatus.PENDING and outcome:
            add_checkpoint(tx, work, CheckpointType.DECISION, outcome, detail={"by": tx.caller})
        if moved.status is TaskStatus.FAILED:
            moved = copy_with(moved, error=error, outcome_detail=detail)
        elif moved.status.is_done:
            moved = copy_with(
                moved,
                outcome=outcome,
                outcome_detail=detail,
                error=None,
                completed_tree=seen.tree,
                completed_head=seen.head,
            )
        reason = error or outcome
        workflow = self.save(tx, claims, work, moved, reason=reason)
        notify_of_task_status(tx, work.task, work.holder, moved.status, reason)
        if proofs:
            self._prover.record(tx, workflow, moved, proofs)
        if moved.status is TaskStatus.COMPLETED and self._workspaces:
            self._workspaces.finish_task(tx, work.workflow, moved)
        return workflow, moved, proofs

    def save(
        self,
        tx: Transaction,
        claims: ClaimService,
        work: LockedTask,
        changed: Task,
        reason: str | None = None,
    ) -> Workflow:
        """Save the change and its consequences for the claim, the dependents and the workflow it returns."""
        before, status = work.task, changed.status
        if status in (TaskStatus.PLANNING, TaskStatus.IN_PROGRESS):
            before = claims.claim_on_start(work, status)
            changed = copy_with(changed, claimed_by=before.claimed_by)
        is_over = status.is_done or status is TaskStatus.FAILED
        if is_over or status is TaskStatus.PENDING:
            claims.end_claim(before)
            changed = copy_with(changed, claimed_by=None)
        recorder = create_recorder(tx, work)
        recorder.save_task(before, changed, reason, workflow=work.workflow)
        if text := "\n".join(filter(None, [changed.outcome, changed.error] if is_over else [])):
            SearchStore(tx).add([SearchEntry(changed.id, changed.workflow_id, f"{changed.name}\n{text}")])
        workflow = work.workflow
        if status.is_done:
            TaskStore(tx).unblock_dependents(changed.id)
            workflow = recorder.record_completion(workflow, changed)
        starts = status not in (TaskStatus.PENDING, TaskStatus.SKIPPED)
        return recorder.update_workflow_status(workflow, any_started=starts, may_be_done=status.is_done)


def add_checkpoint(
    tx: Transaction, work: LockedTask, type: CheckpointType, summary: str, *, detail: dict[str, Any]
) -> str:
    """Add a checkpoint in the name of who acts; return its id."""
    agent_id = work.actor.id if work.actor else None
    checkpoint = CheckpointStore(tx).add(work.task, type, summary, detail=detail, agent_id=agent_id)
    PlanRecorder(tx).emit_checkpoint_event(work.task, checkpoint)
    return checkpoint.id


def create_recorder(tx: Transaction, work: LockedTask) -> PlanRecorder:
    """Create what records changes in the name of who acts."""
    return PlanRecorder(tx, work.actor.id if work.actor else None)


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
        with self._database.reading() as tx:
            unheard = _describe_unheard(tx, approval.subject_id)
        return DecisionEffect(" ".join(["The task is completed.", *unheard]))

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


def _describe_unheard(tx: Transaction, task_id: str) -> Iterator[str]:
    """Say whose words about the task nobody has heard, now that no agent works on it any more."""
    told = [
        each
        for each in NoticeStore(tx).list_words(task_id, _MAX_WORDS)
        if each.type is NoticeType.MESSAGE and each.carried_at is None
    ]
    if told:
        said = "; ".join(
            f"{each.by_whom.removeprefix(PERSON_PREFIX)}: {to_one_line(each.text)}" for each in told
        )
        yield f"No agent heard what was told about it ({said}). Tell it to another task."


def _record_refusal(tx: Transaction, approval: Approval, task: Task) -> None:
    """Add a checkpoint, which any agent that continues the task reads."""
    summary = f"{approval.decided_by} refused the work: {approval.comment or 'no comment'}"
    detail = {"by": approval.decided_by, "approval": approval.id, "outcome": task.outcome}
    checkpoint = CheckpointStore(tx).add(task, CheckpointType.DECISION, summary, detail=detail)
    PlanRecorder(tx).emit_checkpoint_event(task, checkpoint)
