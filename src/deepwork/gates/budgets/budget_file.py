"""A budget as files write it: in job.yml, in a plan and in a template."""

from __future__ import annotations

from pydantic import Field

from deepwork.kernel.files.definition_models import DefinitionModel


class BudgetDefinition(DefinitionModel):
    """Write a mapping with at least one of usd, tokens and minutes."""

    usd: float = Field(default=0, gt=0, description="Dollars above 0.")
    tokens: int = Field(default=0, gt=0, description="A whole number above 0.")
    minutes: float = Field(default=0, gt=0, description="Minutes above 0.")
