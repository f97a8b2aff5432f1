"""The format of job.yml, as pydantic models.

A default here only says that a key may be left out: `parsing` has the values.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from deepwork.gates.budgets.budget_file import BudgetDefinition
from deepwork.gates.reviews.rule_file import RoundsDefinition
from deepwork.kernel.files.definition_models import DefinitionModel, OneOf, Text
from deepwork.work.jobs.definitions.models import IDENTIFIER, MAX_IDENTIFIER

_Identifier = Annotated[
    str,
    Field(
        max_length=MAX_IDENTIFIER,
        pattern=IDENTIFIER,
        description="Lower-case letters, digits and underscores, beginning with a letter.",
    ),
]
_Summary = Annotated[
    str,
    Field(
        min_length=1, max_length=200, description="One line that says what it is for, at most 200 characters."
    ),
]
_Name = Annotated[str, Field(min_length=1)]


class UserInputDefinition(DefinitionModel):
    """A question for the user."""

    name: Text
    description: Text


class FileInputDefinition(DefinitionModel):
    """An output of an earlier step."""

    file: Text
    from_step: Text


_Input = Annotated[
    UserInputDefinition | FileInputDefinition,
    OneOf(),
    Field(
        description="Either name and description (asked of the user), or file and from_step (an output of an "
        "earlier step), each text of at least one character."
    ),
]


class OutputDefinition(DefinitionModel):
    """Write a mapping with type, description and required."""

    type: Literal["file", "files"] = Field(description="file for one path, files for a list of paths.")
    description: Text
    required: bool = Field(description="Whether the step must deliver it.")


class StepReviewDefinition(RoundsDefinition):
    """Write a mapping with run_each and quality_criteria."""

    run_each: Text = Field(description="step to review all outputs together, or the name of one output.")
    quality_criteria: dict[str, Text] = Field(
        min_length=1, description="Questions that must be answered with yes, by name."
    )
    additional_review_guidance: str = Field("", description="What else the reviewer should know.")


class PromptAction(DefinitionModel):
    prompt: Text


class PromptFileAction(DefinitionModel):
    prompt_file: Text


class ScriptAction(DefinitionModel):
    script: Text


_Action = Annotated[
    PromptAction | PromptFileAction | ScriptAction,
    OneOf(),
    Field(description="Exactly one of prompt, prompt_file and script, with text of at least one character."),
]


class HooksDefinition(DefinitionModel):
    """Write a mapping of events to lists of actions."""

    after_agent: list[_Action] = Field(default=[])
    before_tool: list[_Action] = Field(default=[])
    before_prompt: list[_Action] = Field(default=[])


class StepApprovalDefinition(DefinitionModel):
    """Write a mapping with of and expires, or {} for all outputs."""

    of: list[Text] = Field([], description="Names of outputs, else paths; all outputs if it is left out.")
    expires: str | None = Field(
        None,
        pattern=r"^[1-9][0-9]{0,5}[smhd]$",
        description="How long the approval is good for, from the decision: such as 30m, 24h or 7d.",
    )


class StepDefinition(DefinitionModel):
    """Write a mapping with id, name, description, instructions_file, outputs and reviews."""

    id: _Identifier
    name: Text
    description: Text
    instructions_file: Text = Field(
        description="The file with the agent's instructions: a path inside the job's folder, such as "
        "steps/write.md."
    )
    inputs: list[_Input] = Field([], description="Inputs from the user or from earlier steps.")
    outputs: dict[_Name, OutputDefinition] = Field(
        description="The files the step must write, by name; {} if there are none."
    )
    reviews: list[StepReviewDefinition] = Field(
        description="Reviews that the outputs must pass; [] if nothing is reviewed."
    )
    checks: list[_Name] = Field(
        [], description="Names of checks in .deepwork/checks.yml that must pass before the step is done."
    )
    approval: StepApprovalDefinition | None = Field(
        None, description="What a person must approve before the step is done."
    )
    budget: BudgetDefinition = Field(
        default_factory=BudgetDefinition,
        description="What may be spent on the step; without the runner only minutes bind.",
    )
    dependencies: list[str] = Field([], description="Ids of the steps that must come before.")
    agent: Text = Field("", description="The kind of agent that should do the step.")
    exposed: bool = False
    hidden: bool = False
    hooks: HooksDefinition = Field(default_factory=HooksDefinition)
    stop_hooks: list[_Action] = Field(default=[])


class WorkflowDefinition(DefinitionModel):
    """Write a mapping with name, summary and steps."""

    name: _Identifier
    summary: _Summary
    steps: list[
        Annotated[
            str | Annotated[list[str], Field(min_length=1)],
            OneOf(),
            Field(description="Either a step id, or a list of step ids that may run at the same time."),
        ]
    ] = Field(
        min_length=1, description="The order: step ids, or lists of step ids that may run at the same time."
    )


class JobDefinition(DefinitionModel):
    """Steps with instructions, outputs and reviews, and workflows that put them in order."""

    model_config = ConfigDict(title="A deepwork job (job.yml)")

    name: _Identifier
    version: str = Field(
        pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$",
        description='Three numbers with dots, in quotes, such as "1.0.0".',
    )
    summary: _Summary
    description: str = Field("", description="What the job is for, in detail; shown when choosing a job.")
    common_job_info_provided_to_all_steps_at_runtime: Text = Field(
        description="Information that every step needs; sent with its instructions."
    )
    steps: list[StepDefinition] = Field(min_length=1, description="The units of work.")
    workflows: list[WorkflowDefinition] = Field(
        [], description="Ordered lists of steps; a job without a workflow cannot be started."
    )
