"""The keys of job.yml and `.deepreview` that say when a review ends, as a pydantic model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from deepwork.gates.reviews.rounds import DEFAULT_ROUNDS, ReviewPolicy, ReviewScope, Severity
from deepwork.kernel.files.definition_models import DefinitionModel

_MAX_ROUNDS = 20


class RoundsDefinition(DefinitionModel):
    """What a definition of a review can say about its rounds."""

    rounds: int = Field(
        0, ge=1, le=_MAX_ROUNDS, description="How many rounds it may have before a person decides, 1 to 20."
    )
    blocks: list[Literal["blocker", "major", "minor"]] = Field(
        ["blocker", "major"],
        min_length=1,
        description="A list of the severities that send work back: blocker, major, minor.",
    )
    scope: Literal["delta", "whole"] = Field(
        "delta",
        description="delta to show what changed since the round before, whole to show everything again.",
    )
    by: Literal["anyone", "other"] = Field(
        "anyone", description="other if the author's own agent may not review; else anyone."
    )

    def build_policy(self) -> ReviewPolicy:
        """Return when the review ends."""
        return ReviewPolicy(
            self.rounds or DEFAULT_ROUNDS,
            tuple(dict.fromkeys(map(Severity, self.blocks))),
            ReviewScope(self.scope),
            by_other=self.by == "other",
        )
