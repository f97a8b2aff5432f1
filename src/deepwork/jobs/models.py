"""What a job is: steps with inputs, outputs and reviews, and workflows that put them in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from deepwork.names import Word


class OutputType(Word):
    FILE = "file"
    FILES = "files"


@dataclass(frozen=True)
class OutputSpec:
    """A file, or several, that a step promises to write."""

    name: str
    type: OutputType
    description: str
    required: bool


@dataclass(frozen=True)
class UserInput:
    """Something the user is asked for."""

    name: str
    description: str


@dataclass(frozen=True)
class FileInput:
    """An output of an earlier step."""

    file: str
    from_step: str


@dataclass(frozen=True)
class Review:
    """Questions that a step's outputs must pass."""

    run_each: str
    """`step` for all outputs together, or the name of one output."""
    quality_criteria: Mapping[str, str]
    additional_review_guidance: str | None


@dataclass(frozen=True)
class HookAction:
    """What happens at a hook: the kind is `prompt`, `prompt_file` or `script`."""

    kind: str
    value: str


@dataclass(frozen=True)
class Step:
    """One piece of work, as it is told to an agent."""

    id: str
    name: str
    description: str
    instructions_file: str
    inputs: tuple[UserInput | FileInput, ...]
    outputs: tuple[OutputSpec, ...]
    reviews: tuple[Review, ...]
    dependencies: tuple[str, ...]
    agent: str | None
    exposed: bool
    hidden: bool
    hooks: Mapping[str, tuple[HookAction, ...]]

    @property
    def user_inputs(self) -> tuple[UserInput, ...]:
        return tuple(given for given in self.inputs if isinstance(given, UserInput))

    @property
    def file_inputs(self) -> tuple[FileInput, ...]:
        return tuple(given for given in self.inputs if isinstance(given, FileInput))

    def output(self, name: str) -> OutputSpec | None:
        return self._outputs.get(name)

    @cached_property
    def _outputs(self) -> dict[str, OutputSpec]:
        return {output.name: output for output in self.outputs}


@dataclass(frozen=True)
class Entry:
    """One place in a workflow's order: a step, or a group that may run at the same time, even of one."""

    steps: tuple[str, ...]
    is_concurrent: bool


@dataclass(frozen=True)
class Workflow:
    """Some of a job's steps, in order."""

    name: str
    summary: str
    entries: tuple[Entry, ...]

    @property
    def step_ids(self) -> tuple[str, ...]:
        return tuple(step for entry in self.entries for step in entry.steps)


@dataclass(frozen=True)
class Job:
    """A folder with a job.yml, read and found to be in order."""

    name: str
    version: str
    summary: str
    description: str | None
    common_job_info: str
    steps: tuple[Step, ...]
    workflows: tuple[Workflow, ...]
    folder: Path

    def step(self, id: str) -> Step | None:
        return self._steps.get(id)

    def workflow(self, name: str) -> Workflow | None:
        return next((workflow for workflow in self.workflows if workflow.name == name), None)

    @cached_property
    def _steps(self) -> dict[str, Step]:
        return {step.id: step for step in self.steps}


@dataclass(frozen=True)
class LoadError:
    """A job that cannot be offered, and why."""

    job_name: str
    job_dir: str
    error: str
