"""What a plan and its tasks require before they are handed out or count as done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from deepwork.gates.budgets.models import Budget
from deepwork.kernel.names import CaseInsensitiveEnum

_TASK_KEYS = ("checks", "approval", "budget", "changes")


class ApprovalTime(CaseInsensitiveEnum):
    """When a person must approve a task: before it is handed out, after its work is done, before it lands."""

    BEFORE = "before"
    AFTER = "after"
    LANDING = "landing"


@dataclass(frozen=True)
class TaskRequirements:
    """What one task requires, beside what its plan does."""

    checks: tuple[str, ...] = ()
    approval: tuple[ApprovalTime, ...] = ()
    budget: Budget | None = None
    changes: str | None = None
    """`none`: its work need not change any file."""


@dataclass(frozen=True)
class PlanRequirements:
    """What a plan requires of all its tasks together, and of each of them."""

    checks: tuple[str, ...] = ()
    approval: tuple[ApprovalTime, ...] = ()
    budget: Budget | None = None
    approve_plan: bool = False
    max_unreviewed: int | None = None


def serialize_requirements(required: PlanRequirements | TaskRequirements | None) -> str | None:
    """Return the JSON text that is stored; None if nothing is required."""
    if required is None:
        return None
    given = {name: value for name, value in asdict(required).items() if value not in (None, False, ())}
    return json.dumps(given, separators=(",", ":")) if given else None


def requirements_to_dict(required: PlanRequirements | TaskRequirements | None) -> dict[str, Any]:
    """Return what is required in the form in which a plan is written; empty if nothing is."""
    found: dict[str, Any] = json.loads(serialize_requirements(required) or "{}")
    if budget := found.get("budget"):
        found["budget"] = {name: amount for name, amount in budget.items() if amount is not None}
    return found


def read_task_requirements(written: Mapping[str, Any]) -> TaskRequirements | None:
    """Read what a task requires from its form in a template; None if nothing."""
    given = {key: written[key] for key in _TASK_KEYS if written.get(key)}
    if isinstance(given.get("approval"), str):
        given["approval"] = [given["approval"]]
    return parse_task_requirements(json.dumps(given)) if given else None


def parse_plan_requirements(text: str | None) -> PlanRequirements | None:
    """Parse what is stored with a plan."""
    return PlanRequirements(**_parse(text)) if text else None


def parse_task_requirements(text: str | None) -> TaskRequirements | None:
    """Parse what is stored with a task."""
    return TaskRequirements(**_parse(text)) if text else None


def list_required_checks(plan: PlanRequirements | None, task: TaskRequirements | None) -> tuple[str, ...]:
    """Return the checks of a task: those of its plan, then its own."""
    named = (*(plan.checks if plan else ()), *(task.checks if task else ()))
    return tuple(dict.fromkeys(named))


def list_required_approvals(
    plan: PlanRequirements | None, task: TaskRequirements | None
) -> frozenset[ApprovalTime]:
    """Return when a person must approve a task."""
    return frozenset((*(plan.approval if plan else ()), *(task.approval if task else ())))


def _parse(text: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(text)
    values["checks"] = tuple(values.get("checks", ()))
    values["approval"] = tuple(ApprovalTime(time) for time in values.get("approval", ()))
    values["budget"] = Budget(**values["budget"]) if values.get("budget") else None
    return values
