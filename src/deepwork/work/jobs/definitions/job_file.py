"""The format of job.yml, as pydantic models that convert themselves to a Job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from deepwork.gates.budgets.budget_file import BudgetDefinition
from deepwork.gates.reviews.rule_file import RoundsDefinition
from deepwork.kernel.files.definition_models import DefinitionModel, OneOf, Text, validate_data
from deepwork.kernel.files.problems import DefinitionProblem, Where
from deepwork.work.jobs.definitions import models
from deepwork.work.jobs.definitions.models import (
    IDENTIFIER,
    MAX_IDENTIFIER,
    HookAction,
    Job,
    JobWorkflow,
    Step,
    StepApproval,
)

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

    def to_model(self) -> models.UserInput:
        return models.UserInput(self.name, self.description)


class FileInputDefinition(DefinitionModel):
    """An output of an earlier step."""

    file: Text
    from_step: Text

    def to_model(self) -> models.FileInput:
        return models.FileInput(self.file, self.from_step)


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

    def to_model(self, name: str) -> models.OutputSpec:
        return models.OutputSpec(name, models.OutputType(self.type), self.description, self.required)


class StepReviewDefinition(RoundsDefinition):
    """Write a mapping with run_each and quality_criteria."""

    run_each: Text = Field(description="step to review all outputs together, or the name of one output.")
    quality_criteria: dict[str, Text] = Field(
        min_length=1, description="Questions that must be answered with yes, by name."
    )
    additional_review_guidance: str = Field("", description="What else the reviewer should know.")

    def to_model(self) -> models.StepReview:
        return models.StepReview(
            self.run_each,
            self.quality_criteria,
            self.additional_review_guidance or None,
            self.rounds or None,
            self.build_policy(),
        )


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

    def to_model(self) -> StepApproval:
        return StepApproval.parse(tuple(dict.fromkeys(self.of)), self.expires)


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

    def to_model(self) -> Step:
        return Step(
            id=self.id,
            name=self.name,
            description=self.description,
            instructions_file=self.instructions_file,
            inputs=tuple(given.to_model() for given in self.inputs),
            outputs=tuple(output.to_model(name) for name, output in self.outputs.items()),
            reviews=tuple(review.to_model() for review in self.reviews),
            dependencies=tuple(self.dependencies),
            agent=self.agent or None,
            exposed=self.exposed,
            hidden=self.hidden,
            hooks=self._convert_hooks(),
            checks=tuple(dict.fromkeys(self.checks)),
            approval=self.approval.to_model() if self.approval else None,
            budget=self.budget.to_model(),
        )

    def _convert_hooks(self) -> dict[str, tuple[HookAction, ...]]:
        """Return actions by event; those of the older key `stop_hooks` are appended to `after_agent`."""
        given = self.hooks.model_fields_set
        hooks = {event: _convert_actions(actions) for event, actions in self.hooks if event in given}
        if self.stop_hooks:
            hooks["after_agent"] = hooks.get("after_agent", ()) + _convert_actions(self.stop_hooks)
        return hooks


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

    def to_model(self) -> JobWorkflow:
        return JobWorkflow(self.name, self.summary, tuple(map(_convert_entry, self.steps)))


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

    def to_model(self, folder: Path) -> Job:
        return Job(
            name=self.name,
            version=self.version,
            summary=self.summary,
            description=self.description or None,
            common_job_info=self.common_job_info_provided_to_all_steps_at_runtime,
            steps=tuple(step.to_model() for step in self.steps),
            workflows=tuple(workflow.to_model() for workflow in self.workflows),
            folder=folder,
        )


def parse_job(data: dict[str, Any], folder: Path) -> tuple[Job, list[DefinitionProblem], set[Where]]:
    """Return the job, its problems and its malformed parts.

    A malformed part is reduced to what other parts refer to, so that these can be checked in the same run.
    """
    definition, problems = validate_data(JobDefinition, data)
    if definition is not None:
        return definition.to_model(folder), [], set()
    malformed: set[Where] = set()

    def parse(
        key: str, part: type[StepDefinition | WorkflowDefinition], reduce: Callable[[dict[str, Any]], Any]
    ) -> Iterator[Any]:
        items = data.get(key)
        for index, item in enumerate(items if isinstance(items, list) else ()):
            definition, _ = validate_data(part, item)
            if definition is None:
                malformed.add((key, index))
            yield definition.to_model() if definition else reduce(item if isinstance(item, dict) else {})

    steps = tuple(parse("steps", StepDefinition, _reduce_step))
    workflows = tuple(parse("workflows", WorkflowDefinition, _reduce_workflow))
    return Job("", "", "", None, "", steps, workflows, folder), problems, malformed


def _reduce_step(data: dict[str, Any]) -> Step:
    waits_for = data.get("dependencies")
    dependencies = tuple(filter(None, map(_to_text, waits_for))) if isinstance(waits_for, list) else ()
    id, instructions_file = _to_text(data.get("id")), _to_text(data.get("instructions_file"))
    return Step(id, "", "", instructions_file, (), (), (), dependencies, None, False, False, {})


def _reduce_workflow(data: dict[str, Any]) -> JobWorkflow:
    return JobWorkflow(_to_text(data.get("name")), "", ())


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _convert_actions(actions: list[_Action]) -> tuple[HookAction, ...]:
    return tuple(HookAction(kind, text) for action in actions for kind, text in action)


def _convert_entry(entry: str | list[str]) -> models.WorkflowEntry:
    if isinstance(entry, str):
        return models.WorkflowEntry((entry,), is_concurrent=False)
    return models.WorkflowEntry(tuple(entry), is_concurrent=True)
