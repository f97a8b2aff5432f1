"""What people read and decide about plans: drawings, and budgets, which only they can raise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from deepwork.gates.approvals.acts import require_proven
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from deepwork.gates.approvals.service import record_unasked
from deepwork.gates.budgets.models import Budget, BudgetEvent, SubjectKind
from deepwork.gates.budgets.rules import describe_budget, is_raised
from deepwork.gates.budgets.service import BudgetService
from deepwork.kernel.answers import Answer, Field, Id
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.values import copy_with
from deepwork.work.plans.diagrams import render_mermaid, render_text
from deepwork.work.plans.models import PlanRequirements, PlanStatus, Task, TaskRequirements, Workflow
from deepwork.work.plans.recorder import PlanRecorder
from deepwork.work.plans.stores.claim_store import ActiveStore
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore

Amount = Annotated[float | None, Field(gt=0)]
Tokens = Annotated[int | None, Field(gt=0)]
Subject = Workflow | Task


class BudgetSet(Answer):
    """The budget that a plan or a task has now."""

    id: str
    name: str
    budget: dict[str, Any] | None = None
    before: dict[str, Any] | None = None
    raised: bool


class PlanDrawing(Answer):
    id: str
    name: str
    status: PlanStatus
    drawing: str


class PlanOperations:
    """Drawings of plans, and decisions about what work may cost."""

    traits: ClassVar = Traits(toolset="plans", people_only=True)

    def __init__(self, database: Database) -> None:
        self._database = database

    @operation("read")
    def draw_plan(self, id: Id, as_text: bool = False) -> PlanDrawing:
        """The tasks of a plan and what they wait for, as a Mermaid diagram or as text."""
        with self._database.reading() as tx:
            workflow, nodes = PlanStore(tx).get(id), TaskStore(tx).list_nodes(id)
        return PlanDrawing.of(workflow, drawing=render_text(nodes) if as_text else render_mermaid(nodes))

    @operation("work", for_people=True)
    def set_budget(
        self,
        id: Id,
        usd: Amount = None,
        tokens: Tokens = None,
        minutes: Amount = None,
        remove_others: Annotated[bool, Field(description="Remove the limits that are not given")] = False,
    ) -> BudgetSet:
        """Set what a plan or a task may cost; limits that are not given stay."""
        given = Budget(usd, tokens, minutes)
        if not given.units and not remove_others:
            raise InvalidInput("Give at least one of usd, tokens and minutes, or remove all limits.")
        with self._database.transaction() as tx:
            subject = _load_for_update(tx, id)
            before = _get_budget(subject)
            after = _merge(before, given, remove_others=remove_others)
            raised = is_raised(before, after)
            change: dict[str, Any] = {
                "name": subject.name,
                "before": before.to_dict() if before else None,
                "after": after.to_dict() if after else None,
            }
            if raised:
                _record_raise(tx, subject, change, require_proven(tx, **change))
            if after != before:
                _save(tx, subject, before, after, change)
            return BudgetSet(
                id=id, name=subject.name, budget=change["after"], before=change["before"], raised=raised
            )


def _save(
    tx: Transaction, subject: Subject, before: Budget | None, after: Budget | None, change: Mapping[str, Any]
) -> None:
    recorder = PlanRecorder(tx)
    if isinstance(subject, Workflow):
        kind, plan, task_id = SubjectKind.PLAN, subject.id, None
        required = subject.requirements or PlanRequirements()
        recorder.save_workflow(subject, copy_with(subject, requirements=copy_with(required, budget=after)))
        if after and after.minutes is not None and (before is None or before.minutes is None):
            BudgetService(tx).set_active_time(plan, ActiveStore(tx).sum_active_time(plan))
    else:
        kind, plan, task_id = SubjectKind.TASK, subject.workflow_id, subject.id
        own = subject.requirements or TaskRequirements()
        recorder.save_task(subject, copy_with(subject, requirements=copy_with(own, budget=after)))
    texts = [describe_budget(each) if each else "none" for each in (before, after)]
    recorder.record_history(plan, task_id, "budget", before=texts[0], after=texts[1])
    BudgetService(tx).clear_reached(kind, subject.id)
    tx.emit(BudgetEvent.CHANGED, {"kind": kind.value, "id": subject.id, **change}, plan)


def _record_raise(tx: Transaction, subject: Subject, change: Mapping[str, Any], method: str) -> None:
    """Record a raise with the other approvals, and its digest in the audit log."""
    plan = subject.id if isinstance(subject, Workflow) else subject.workflow_id
    approval = record_unasked(tx, ApprovalRequest(ApprovalKind.BUDGET, subject.id, plan, change), method)
    current_call().note_outcome(f"{approval.status.value}:{approval.digest}")


def _load_for_update(tx: Transaction, id: str) -> Subject:
    """Lock the plan first, as claims do."""
    if not id.startswith("tk_"):
        return PlanStore(tx).get_for_update(id)
    PlanStore(tx).get_for_update_by_task(id)
    return TaskStore(tx).get_for_update(id)


def _get_budget(subject: Subject) -> Budget | None:
    return subject.requirements.budget if subject.requirements else None


def _merge(before: Budget | None, given: Budget, *, remove_others: bool) -> Budget | None:
    old = Budget() if before is None or remove_others else before
    merged = Budget(
        old.usd if given.usd is None else given.usd,
        old.tokens if given.tokens is None else given.tokens,
        old.minutes if given.minutes is None else given.minutes,
    )
    return merged if merged.units else None
