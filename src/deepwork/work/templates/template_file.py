"""The format of template files, as pydantic models.

A default here only says that a key may be left out: `Outline.read` and `parse_variable` have the values.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from deepwork.gates.budgets.budget_file import BudgetDefinition
from deepwork.kernel.files.definition_models import DefinitionModel, OneOf
from deepwork.work.plans.models import ApprovalTime

_Text = Annotated[str, Field(description="Write a string.")]
_Name = Annotated[
    str, Field(min_length=1, max_length=200, description="Write a name of at most 200 characters.")
]
_VariableName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        pattern=r"^\w+$",
        description="A variable's name has letters, digits and underscores.",
    ),
]


class VariableDefinition(DefinitionModel):
    """Write a mapping with name, description, required and default."""

    name: _VariableName
    description: _Text = ""
    required: bool = Field(
        default=True, description="Whether a value must be given; if not, and without a default, it is empty."
    )
    default: _Text = ""


_TIMES = ", ".join(ApprovalTime)
_ApprovalTime = Annotated[
    str, Field(pattern=f"^({'|'.join(ApprovalTime)})$", description=f"Write one of {_TIMES}.")
]


class TaskDefinition(DefinitionModel):
    """Write a mapping with name and description."""

    name: _Name
    description: _Text = ""
    sequence: int = Field(
        1,
        ge=0,
        le=1_000_000,
        description="Write a whole number; tasks with the same one may run at the same time.",
    )
    parallel_group: _Name = ""
    depends_on: list[_Name] = Field(
        [], description="Write a list of task names; default: all tasks of the next lower sequence."
    )
    estimated_complexity: Literal["low", "medium", "high"] = Field(
        "low", description="Write low, medium or high."
    )
    files_likely_affected: list[_Text] = Field([], description='Write a list of patterns, such as "src/**".')
    required_capabilities: list[_Name] = Field([], description="Write a list of names.")
    max_attempts: int = Field(
        3, ge=1, le=1000, description="Write how often it may fail before it waits for a person."
    )
    checks: list[_Name] = Field(
        [], description="Write a list of names of checks in .deepwork/checks.yml that it must pass."
    )
    approval: Annotated[_ApprovalTime | list[_ApprovalTime], OneOf()] = Field(
        [], description=f"Write one or a list of {_TIMES}: when a person must approve it."
    )
    budget: BudgetDefinition = Field(
        default_factory=BudgetDefinition.model_construct, description="Write what it may cost."
    )
    changes: Literal["none"] = Field("none", description="Write none if it need not change any file.")


class TemplateDefinition(DefinitionModel):
    """Write a mapping with tasks, and with variables if the texts have placeholders."""

    model_config = ConfigDict(title="A plan template of deepwork (.deepwork/templates/*.yml)")

    name: _Name = Field(
        "",
        pattern=r"^\S(?:.*\S)?$",
        description="The template's name; default: the file name without its extension.",
    )
    description: _Text = ""
    version: int = Field(1, ge=1, description="Write a whole number, from 1.")
    variables: list[
        Annotated[
            _VariableName | VariableDefinition,
            OneOf(),
            Field(description="Write a name, or a mapping with name, description, required and default."),
        ]
    ] = Field([], description="Write a list of variables.")
    tasks: list[TaskDefinition] = Field(min_length=1, description="Write a list of tasks.")
