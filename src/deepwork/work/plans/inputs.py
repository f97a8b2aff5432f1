"""Input models of the plan tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from deepwork.kernel.answers import MAX_NAME, Name
from deepwork.work.plans.models import ApprovalTime, Complexity, Outline, PlanRequirements, read_requirements

Sequence = Annotated[int, Field(ge=0, le=1_000_000)]
Attempts = Annotated[int, Field(ge=1, le=1000)]


ApprovalTimes = Annotated[
    list[ApprovalTime], BeforeValidator(lambda given: [given] if isinstance(given, str) else given)
]
"""One word, or a list of them."""


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BudgetInput(_Input):
    """What work may cost."""

    usd: Annotated[float | None, Field(gt=0)] = None
    tokens: Annotated[int | None, Field(gt=0)] = None
    minutes: Annotated[float | None, Field(gt=0)] = None


class PlannedTask(_Input):
    """A planned task, identified by name."""

    name: Annotated[str, Field(max_length=MAX_NAME)]
    description: str = ""
    sequence: Annotated[Sequence, Field(description="Equal ones may run in parallel")] = 1
    parallel_group: Name | None = None
    depends_on: Annotated[
        list[str] | None, Field(description="Task names; default: the next lower sequence")
    ] = None
    estimated_complexity: Complexity | None = None
    files_likely_affected: Annotated[list[str] | None, Field(description="Globs")] = None
    required_capabilities: list[Name] | None = None
    max_attempts: Attempts | None = None
    checks: list[Name] | None = None
    approval: ApprovalTimes | None = None
    budget: BudgetInput | None = None
    changes: Literal["none"] | None = None

    def to_outline(self, after: list[str] | None = None) -> Outline:
        """Convert to an outline; `after` adds further tasks that it waits for."""
        depends_on = self.depends_on if after is None else [*(self.depends_on or ()), *after]
        return Outline.read(_get_fields(self) | {"depends_on": depends_on})


class Plan(_Input):
    """A whole plan."""

    summary: Annotated[str, Field(min_length=1)]
    approach: str = ""
    tasks: list[PlannedTask]
    risks: list[str] | None = None
    assumptions: list[str] | None = None
    max_attempts: Annotated[Attempts, Field(description="Failures before a task waits for a person")] = 3
    commit: Annotated[bool, Field(description="Commit what completed tasks left")] = False
    checks: Annotated[list[Name] | None, Field(description="Of .deepwork/checks.yml")] = None
    approve_plan: bool = False
    approval: ApprovalTimes | None = None
    budget: BudgetInput | None = None
    max_unreviewed: Annotated[int | None, Field(ge=1)] = None

    def to_requirements(self) -> PlanRequirements | None:
        """Return what the plan requires; None if nothing."""
        return read_requirements(PlanRequirements, _get_fields(self))


class TaskPlan(_Input):
    """How a task will be done."""

    approach: str = ""
    steps: list[str]
    files_to_modify: list[str] | None = None
    files_to_create: list[str] | None = None
    context_needed: list[str] | None = None


class ContextParts(_Input):
    """What a task's context includes."""

    workflow_plan: bool = True
    workflow_summary: bool = True
    prior_task_outcomes: bool = True
    prior_task_full: bool = False
    sibling_status: bool = True
    dependency_outcomes: bool = True
    all_checkpoints: bool = False
    recent_checkpoints: Annotated[int, Field(ge=0, le=1000)] = 5


def _get_fields(given: PlannedTask | Plan) -> dict[str, Any]:
    return vars(given) | {"budget": given.budget and vars(given.budget)}
