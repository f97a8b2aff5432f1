"""What an agent may not do to a plan: drop or loosen what it or its tasks require.

A person may, with their proof: callers put these rules into a block of `allow_person`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from deepwork.gates.budgets.rules import is_raised
from deepwork.kernel.errors import Code, NotAllowed
from deepwork.work.plans.models import (
    DEFAULT_MAX_ATTEMPTS,
    Outline,
    PlanRequirements,
    Task,
    TaskRequirements,
    TaskStatus,
    Workflow,
    list_required_approvals,
    list_required_checks,
)
from deepwork.work.plans.rules.graph import Graph

_NOTHING = TaskRequirements()


def require_same_strength(
    removed: Sequence[Task],
    outlines: Sequence[Outline],
    plan: PlanRequirements | None,
    *,
    default_attempts: int,
) -> None:
    """Raise if a plan drops tasks that require something, or replaces them by ones that require less.

    A task without requirements, in a plan without any, is replaced as before.
    """
    new = {outline.name.strip(): outline for outline in outlines}
    for task in removed:
        if task.requirements is None and plan is None:
            continue
        after = new.get(task.name)
        if after is None and not _has_gate(plan, task):
            continue
        lost = list(_list_losses(task, after, default_attempts)) if after else ["drops it"]
        if lost:
            raise build_weakening_error(task, f"the new plan {' and '.join(lost)}", "Keep what it requires")


def list_own_gates(tasks: Iterable[Task]) -> set[str]:
    """List the names of the tasks that have checks or approvals of their own."""
    return {task.name for task in tasks if has_own_gate(task)}


def require_same_order(before: Graph, after: Graph, gates: Collection[str]) -> None:
    """Raise if a task would no longer wait for one of these, which have gates, that it waited for before."""
    waited, waits = before.map_waits(gates), after.map_waits(gates)
    for name, old in waited.items():
        if lost := old - waits.get(name, old):
            raise NotAllowed(
                f"Task {name!r} would start before {min(lost)!r}, which has to pass checks or be approved. "
                "Only a person may do this.",
                code=Code.UNAUTHORIZED,
                suggestion="Keep it in `depends_on`, or ask a person: they can do it on the dashboard, or at "
                "a shell with `--as-person`.",
                recoverable=True,
            )


def require_still_asked(workflow: Workflow, count_left: Callable[[], int]) -> None:
    """Raise if nothing is left to be handed out of a plan that a person has to approve.

    They are asked again about the changed plan when its next task is handed out; without one it would be
    done as they never saw it.
    """
    if workflow.requirements and workflow.requirements.approve_plan and not count_left():
        raise NotAllowed(
            f"A person has to approve each change of {workflow.name!r}, and this leaves nothing to be handed "
            "out. Only a person may do this.",
            code=Code.UNAUTHORIZED,
            suggestion="Complete its tasks, or ask a person: they can do it on the dashboard, or at a shell "
            "with `--as-person`.",
            recoverable=True,
        )


def require_removable(task: Task, workflow: Workflow) -> None:
    """Raise if a task that is to be removed has to pass checks or needs an approval, as one of its plan."""
    if has_gate(workflow, task):
        raise build_weakening_error(task, "removing it drops its checks and approvals", "Complete it")


def require_skippable(task: Task, status: TaskStatus, workflow: Workflow) -> None:
    """Raise if a task that is to be skipped has to pass checks or needs an approval, as one of its plan."""
    if status is not TaskStatus.SKIPPED:
        return
    if has_gate(workflow, task) or (workflow.requirements and workflow.requirements.approve_plan):
        raise build_weakening_error(task, "skipping it passes its checks and approvals", "Complete it")


def require_no_open_gates(workflow: Workflow, open_count: int) -> None:
    """Raise if a workflow is completed with open tasks that require something: it would never be."""
    if open_count:
        raise NotAllowed(
            f"Workflow {workflow.name!r} requires checks or approvals, and {open_count} tasks are open.",
            code=Code.UNAUTHORIZED,
            suggestion="Complete its tasks. A person can end it on the dashboard or with "
            f"`deepwork plans update-status {workflow.id} completed --force --as-person`.",
        )


def has_gate(workflow: Workflow, task: Task) -> bool:
    """Whether the task must pass a check or be approved, by its own requirements or by its plan's."""
    return _has_gate(workflow.requirements, task)


def _has_gate(plan: PlanRequirements | None, task: Task) -> bool:
    own = task.requirements
    return bool(list_required_checks(plan, own) or list_required_approvals(plan, own))


def has_own_gate(task: Task) -> bool:
    """Whether the task itself names checks or approvals."""
    return bool(task.requirements and (task.requirements.checks or task.requirements.approval))


def build_weakening_error(task: Task, problem: str, instead: str) -> NotAllowed:
    """Build the error for a change that only a person may make."""
    return NotAllowed(
        f"Task {task.name!r} requires more than that: {problem}. Only a person may do this.",
        code=Code.UNAUTHORIZED,
        suggestion=f"{instead}, or ask a person: they can do it on the dashboard, or at a shell with "
        "`--as-person`.",
        recoverable=True,
    )


def _list_losses(task: Task, after: Outline, default_attempts: int) -> Iterator[str]:
    """List what a task would no longer require."""
    old = task.requirements or _NOTHING
    new = after.requirements or _NOTHING
    yield from (f"drops its check {name}" for name in old.checks if name not in new.checks)
    yield from (f"drops its approval {time}" for time in old.approval if time not in new.approval)
    if is_raised(old.budget, new.budget):
        yield "raises its budget"
    if new.changes == "none" and old.changes != "none":
        yield "lets it change nothing"
    if (after.max_attempts or default_attempts or DEFAULT_MAX_ATTEMPTS) > task.max_attempts:
        yield "raises its max_attempts"
