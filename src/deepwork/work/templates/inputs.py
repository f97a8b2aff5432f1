"""Input models of the template tools."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from deepwork.kernel.answers import Name
from deepwork.work.plans.inputs import PlannedTask


class TemplateVariable(BaseModel):
    """A variable of a template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    description: str = ""
    required: bool = True
    default: str | None = None


def _expand_name(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class Definition(BaseModel):
    """The definition of a template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tasks: list[PlannedTask]
    variables: (
        list[
            Annotated[
                TemplateVariable, BeforeValidator(_expand_name, json_schema_input_type=str | TemplateVariable)
            ]
        ]
        | None
    ) = Field(default=None)
