"""What shows that work is done as required: budget and spending, checks with their proofs, open approvals."""

from __future__ import annotations

from typing import Any

from deepwork.gates.approvals.models import ApprovalStatus
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.checks.models import ProofSubject
from deepwork.gates.checks.responses import CheckLine
from deepwork.gates.checks.store import ProofStore
from deepwork.kernel.answers import Answer
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.values import format_optional_timestamp
from deepwork.views.overview.spending import Amounts, build_plan_spending, build_task_spending
from deepwork.work.plans.models import Task, Workflow, list_required_checks
from deepwork.work.plans.stores.plan_store import PlanStore

_MAX_APPROVALS = 20


class OpenApproval(Answer):
    id: str
    kind: str
    subject_id: str
    asked_at: str


class Evidence(Answer):
    budget: Amounts | None = None
    spent: Amounts | None = None
    sources: dict[str, float] | None = None
    """Dollars by where the figures come from: reported, priced, estimated, unverified."""
    reached_at: str | None = None
    reason: str | None = None
    """Why no task of the plan is handed out."""
    max_unreviewed: int | None = None
    checks: list[CheckLine] | None = None
    approvals: list[OpenApproval] | None = None


def read_plan_evidence(tx: Transaction, workflow: Workflow) -> Evidence | None:
    """Read the evidence of a plan; None if it requires nothing, and nothing was reported."""
    names = workflow.requirements.checks if workflow.requirements else ()
    checks = [CheckLine(name=name) for name in names]
    found = build_plan_spending(tx, workflow)
    return _build(found, checks, _list_approvals(tx, workflow.id, None))


def read_task_evidence(tx: Transaction, task: Task) -> Evidence | None:
    """Read the evidence of a planned task; None if it requires nothing, and nothing was reported."""
    plan = PlanStore(tx).get(task.workflow_id).requirements
    proofs = {proof.check_name: proof for proof in ProofStore(tx).list_used_by(ProofSubject("task", task.id))}
    names = dict.fromkeys((*list_required_checks(plan, task.requirements), *proofs))
    checks = [CheckLine.of_proof(proofs[name]) if name in proofs else CheckLine(name=name) for name in names]
    return _build(build_task_spending(tx, task), checks, _list_approvals(tx, task.workflow_id, task.id))


def _build(
    spending: dict[str, Any], checks: list[CheckLine], approvals: list[OpenApproval]
) -> Evidence | None:
    names = ("budget", "sources", "reached_at", "reason", "max_unreviewed")
    known = {name: spending[name] for name in names if spending.get(name)}
    has_spent = spending["spent"]["usd"] or spending["spent"]["tokens"]
    if has_spent or "budget" in known:
        known["spent"] = spending["spent"]
    if not (known or checks or approvals):
        return None
    known |= {name: Amounts(**known[name]) for name in ("budget", "spent") if name in known}
    return Evidence(**known, checks=checks or None, approvals=approvals or None)


def _list_approvals(tx: Transaction, workflow_id: str, task_id: str | None) -> list[OpenApproval]:
    pending, _ = ApprovalStore(tx).list_matching(
        statuses=[ApprovalStatus.PENDING], workflow_id=workflow_id, limit=_MAX_APPROVALS
    )
    return [
        OpenApproval(
            id=each.id,
            kind=each.subject_kind.value,
            subject_id=each.subject_id,
            asked_at=format_optional_timestamp(each.asked_at) or "",
        )
        for each in pending
        if task_id is None or each.subject_id == task_id
    ]
