"""What people have to approve of a plan and its tasks: asked, found, and used when a task is handed out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from deepwork.gates.approvals.models import Approval, ApprovalKind, ApprovalRequest, ApprovalStatus
from deepwork.gates.approvals.rules import build_closed_error, find_current, may_pass, summarize
from deepwork.gates.approvals.service import find_or_ask, use, withdraw
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import Code, GateClosed
from deepwork.work.agents.presence import Presence
from deepwork.work.plans.models import ApprovalTime, Task, Workflow, list_required_approvals
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore

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
