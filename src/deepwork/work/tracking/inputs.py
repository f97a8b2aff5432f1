"""Input models of the tracking tools."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from deepwork.kernel.answers import Name, Text
from deepwork.work.tracking.models import TestsStatus

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_MILLISECOND = timedelta(milliseconds=1)

Count = Annotated[int, Field(ge=0)]


class Outcome(BaseModel):
    """The outcome of a task."""

    model_config = ConfigDict(extra="forbid")

    summary: Text
    achievements: list[str] = []
    limitations: list[str] = []
    next_steps: list[str] = []
    manual_review_needed: bool = False
    manual_review_reason: str | None = None


class Metadata(BaseModel):
    """How a task was done."""

    model_config = ConfigDict(extra="forbid")

    packages_added: list[str] = []
    packages_removed: list[str] = []
    commands_executed: list[str] = []
    tests_status: TestsStatus | None = None
    tokens_input: Count | None = None
    tokens_output: Count | None = None
    model: str | None = None
    cost_usd: Annotated[float, Field(ge=0)] | None = None


class Filter(BaseModel):
    """Which records to return."""

    model_config = ConfigDict(extra="forbid")

    phase: Annotated[int, Field(ge=1)] | None = None
    agent: Name | None = None
    since: datetime | None = None
    """ISO 8601; UTC if it has no time zone."""

    @field_validator("since")
    @classmethod
    def _convert_to_utc(cls, moment: datetime | None) -> datetime | None:
        if moment is None or moment.tzinfo is None:
            return moment and moment.replace(tzinfo=UTC)
        try:
            return moment.astimezone(UTC)
        except OverflowError:
            raise ValueError("is out of range") from None

    @property
    def since_ms(self) -> int | None:
        return None if self.since is None else (self.since - _EPOCH) // _ONE_MILLISECOND
