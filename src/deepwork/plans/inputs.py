"""Input models of the plan tools."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from deepwork.plans.models import Complexity, Outline
from deepwork.tool_types import MAX_NAME, Name

Sequence = Annotated[int, Field(ge=0, le=1_000_000)]
Attempts = Annotated[int, Field(ge=1, le=1000)]


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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

    def to_outline(self, after: list[str] | None = None) -> Outline:
        """Convert to an outline; `after` adds further tasks that it waits for."""
        depends_on = self.depends_on if after is None else [*(self.depends_on or ()), *after]
        return Outline(
            self.name,
            self.description,
            self.sequence,
            self.parallel_group,
            None if depends_on is None else tuple(depends_on),
            self.estimated_complexity,
            tuple(self.files_likely_affected or ()),
            tuple(self.required_capabilities or ()),
            self.max_attempts,
        )


class Plan(_Input):
    """A whole plan."""

    summary: Annotated[str, Field(min_length=1)]
    approach: str = ""
    tasks: list[PlannedTask]
    risks: list[str] | None = None
    assumptions: list[str] | None = None
    max_attempts: Annotated[Attempts, Field(description="Failures before a task waits for a person")] = 3
    commit: Annotated[bool, Field(description="Commit what completed tasks left")] = False


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
