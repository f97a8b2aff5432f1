"""Input models of the review tools."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class FindingInput(BaseModel):
    """A problem that a review found."""

    model_config = ConfigDict(extra="forbid")

    severity: Literal["blocker", "major", "minor"]
    file: str | None = None
    line: int | None = None
    claim: str
    failure: str | None = None
