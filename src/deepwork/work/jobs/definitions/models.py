"""The definition of a job: steps with inputs, outputs and reviews, and workflows that order them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from deepwork.gates.budgets.models import Budget
from deepwork.gates.reviews.rounds import ReviewPolicy
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum

JOB_FILE = "job.yml"
IDENTIFIER = "^[a-z][a-z0-9_]*$"
MAX_IDENTIFIER = 200


def is_identifier(text: str) -> bool:
    """Whether the text is a valid name of a job, step or workflow."""
    # Not `match`: `$` would accept a trailing line break.
    return len(text) <= MAX_IDENTIFIER and re.fullmatch(IDENTIFIER, text) is not None


class OutputType(CaseInsensitiveEnum):
    FILE = "file"
    FILES = "files"


@dataclass(frozen=True)
class OutputSpec:
    """A file, or several files, that a step must write."""

    name: str
    type: OutputType
    description: str
    required: bool


@dataclass(frozen=True)
class UserInput:
    """A question for the user."""

    name: str
    description: str


@dataclass(frozen=True)
class FileInput:
    """An output of an earlier step."""

    file: str
    from_step: str


@dataclass(frozen=True)
class StepReview:
    """Quality criteria that the outputs of a step must meet."""

    run_each: str
    """`step` for all outputs together, or the name of one output."""
    quality_criteria: Mapping[str, str]
    additional_review_guidance: str | None
    rounds: int | None = None
    """How many rounds it may have before a person decides; None for the setting of the project."""
    policy: ReviewPolicy = field(default_factory=ReviewPolicy)

    def build_policy(self, default_rounds: int) -> ReviewPolicy:
        """Return when the review ends."""
        return replace(self.policy, rounds=self.rounds or default_rounds, is_explicit=self.rounds is not None)


@dataclass(frozen=True)
class HookAction:
    """An action of a hook; its kind is `prompt`, `prompt_file` or `script`."""

    kind: str
    value: str


@dataclass(frozen=True)
class StepApproval:
    """What of a step a person must approve before it counts as done, and how long that is good for."""

    of: tuple[str, ...] = ()
    """Names of outputs, else paths; empty: all outputs."""
    expires_ms: int | None = None

    @classmethod
    def parse(cls, of: tuple[str, ...], expires: str | None) -> StepApproval:
        """Parse what job.yml says; a duration that is malformed does not limit it."""
        known = expires is not None and expires[-1:] in _UNIT_MS and expires[:-1].isdigit()
        return cls(of, int(expires[:-1]) * _UNIT_MS[expires[-1]] if known and expires else None)

    def to_dict(self) -> dict[str, Any]:
        return {"of": list(self.of), "expires_ms": self.expires_ms}


_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True)
class Step:
    """One unit of work for an agent."""

    id: str
    name: str
    description: str
    instructions_file: str
    inputs: tuple[UserInput | FileInput, ...]
    outputs: tuple[OutputSpec, ...]
    reviews: tuple[StepReview, ...]
    dependencies: tuple[str, ...]
    agent: str | None
    exposed: bool
    hidden: bool
    hooks: Mapping[str, tuple[HookAction, ...]]
    checks: tuple[str, ...] = ()
    """Names of checks in .deepwork/checks.yml that must pass before the step counts as done."""
    approval: StepApproval | None = None
    budget: Budget | None = None
    """What a runner may spend on the step."""

    @property
    def user_inputs(self) -> tuple[UserInput, ...]:
        return tuple(given for given in self.inputs if isinstance(given, UserInput))

    @property
    def file_inputs(self) -> tuple[FileInput, ...]:
        return tuple(given for given in self.inputs if isinstance(given, FileInput))

    def find_output(self, name: str) -> OutputSpec | None:
        return self._outputs.get(name)

    @cached_property
    def _outputs(self) -> dict[str, OutputSpec]:
        return {output.name: output for output in self.outputs}


@dataclass(frozen=True)
class WorkflowEntry:
    """One position in a workflow: a single step, or a group of concurrent steps (possibly only one)."""

    steps: tuple[str, ...]
    is_concurrent: bool


@dataclass(frozen=True)
class JobWorkflow:
    """Some of a job's steps, in order."""

    name: str
    summary: str
    entries: tuple[WorkflowEntry, ...]

    @property
    def step_ids(self) -> tuple[str, ...]:
        return tuple(step for entry in self.entries for step in entry.steps)


@dataclass(frozen=True)
class Job:
    """A valid job.yml and the folder it is in."""

    name: str
    version: str
    summary: str
    description: str | None
    common_job_info: str
    steps: tuple[Step, ...]
    workflows: tuple[JobWorkflow, ...]
    folder: Path

    def find_step(self, id: str) -> Step | None:
        return self._steps.get(id)

    def find_workflow(self, name: str) -> JobWorkflow | None:
        return next((workflow for workflow in self.workflows if workflow.name == name), None)

    @cached_property
    def _steps(self) -> dict[str, Step]:
        return {step.id: step for step in self.steps}


@dataclass(frozen=True)
class LoadError:
    """A job that cannot be used, and why."""

    job_name: str
    job_dir: str
    error: str
