"""What only people can do about budgets: raise them. Lowering is free, but nobody else needs to do it.

Described like tools, so that calls are checked and recorded in the same way, but no server offers them to
agents: the command line and the dashboard call them in a person's name.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from deepwork.gates.approvals.acts import require_proven
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from deepwork.gates.approvals.service import record_unasked
from deepwork.gates.budgets.models import Budget, BudgetEvent, SubjectKind
from deepwork.gates.budgets.rules import describe_budget, is_raised
from deepwork.gates.budgets.service import BudgetService
from deepwork.kernel.answers import Answer
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.records import copy_with
from deepwork.kernel.tool_types import Field, Id
from deepwork.work.plans.models import PlanRequirements, Task, TaskRequirements, Workflow
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


class BudgetActions:
    """Decisions of people about what work may cost."""

    traits: ClassVar = Traits(toolset="plans", people_only=True)

    def __init__(self, database: Database) -> None:
        self._database = database

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
            if raised:
                about = {"before": _to_dict(before), "after": _to_dict(after)}
                method = require_proven(tx, name=subject.name, **about)
                _record_raise(tx, subject, before, after, method)
            if after != before:
                _save(tx, subject, before, after)
            return BudgetSet(
                id=id, name=subject.name, budget=_to_dict(after), before=_to_dict(before), raised=raised
            )


def _save(tx: Transaction, subject: Subject, before: Budget | None, after: Budget | None) -> None:
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
    payload = {
        "kind": kind.value,
        "id": subject.id,
        "name": subject.name,
        "before": _to_dict(before),
        "after": _to_dict(after),
    }
    tx.emit(BudgetEvent.CHANGED, payload, plan)


def _record_raise(
    tx: Transaction, subject: Subject, before: Budget | None, after: Budget | None, method: str
) -> None:
    """Record a raise with the other approvals, and its digest in the audit log."""
    plan = subject.id if isinstance(subject, Workflow) else subject.workflow_id
    shown = {"name": subject.name, "before": _to_dict(before), "after": _to_dict(after)}
    approval = record_unasked(tx, ApprovalRequest(ApprovalKind.BUDGET, subject.id, plan, shown), method)
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


def _to_dict(budget: Budget | None) -> dict[str, Any] | None:
    if budget is None:
        return None
    return {name: value for name, value in vars(budget).items() if value is not None}
