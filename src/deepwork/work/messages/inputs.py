"""Input models of the message tools."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from deepwork.work.agents.models import LivingStatus, Role


class RecipientFilter(BaseModel):
    """Which agents a broadcast reaches."""

    model_config = ConfigDict(extra="forbid")

    role: Role | None = None
    status: LivingStatus | None = None
    runtime: str | None = None
