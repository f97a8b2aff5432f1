"""Input models of the job tools."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from deepwork.gates.reviews.inputs import FindingInput
from deepwork.kernel.answers import Name


class CriterionVerdict(BaseModel):
    """Whether one criterion is met."""

    model_config = ConfigDict(extra="forbid")

    criterion: Name
    passed: bool
    feedback: str | None = None


class ReviewVerdict(BaseModel):
    """The verdict of one review."""

    model_config = ConfigDict(extra="forbid")

    review_run_each: Name
    target_file: str | None = None
    passed: bool
    feedback: str | None = None
    criteria_results: list[CriterionVerdict] = Field(default_factory=list)  # the schema shows no default
    findings: list[FindingInput] = Field(default_factory=list)
