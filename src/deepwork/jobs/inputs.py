"""Input models of the job tools."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from deepwork.tool_types import Name


class CriterionVerdict(BaseModel):
    """Whether one criterion is met."""

    model_config = ConfigDict(extra="forbid")

    criterion: Name
    passed: bool
    feedback: str | None = None


class FindingInput(BaseModel):
    """A problem that a review found."""

    model_config = ConfigDict(extra="forbid")

    severity: Literal["blocker", "major", "minor"]
    file: str | None = None
    line: int | None = None
    claim: str
    failure: str | None = None


class ReviewVerdict(BaseModel):
    """The verdict of one review."""

    model_config = ConfigDict(extra="forbid")

    review_run_each: Name
    target_file: str | None = None
    passed: bool
    feedback: str | None = None
    criteria_results: list[CriterionVerdict] = Field(default_factory=list)  # the schema shows no default
    findings: list[FindingInput] = Field(default_factory=list)
