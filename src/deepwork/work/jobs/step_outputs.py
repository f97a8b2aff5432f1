"""Checks the outputs that an agent submits, and divides them among concurrent steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deepwork.kernel.errors import Code, InvalidInput
from deepwork.kernel.files.paths import confine
from deepwork.work.jobs.active_step import require_step
from deepwork.work.jobs.definitions.models import Job, OutputSpec, Step
from deepwork.work.jobs.definitions.output_rules import find_output_problems
from deepwork.work.jobs.sessions import state
from deepwork.work.jobs.sessions.state import Outputs, Session


@dataclass(frozen=True)
class StepOutputs:
    """The outputs submitted for one step."""

    step: Step
    outputs: Outputs


def split_outputs(root: Path, job: Job, session: Session, outputs: Mapping[str, Any]) -> list[StepOutputs]:
    """Divide the outputs among the current steps; raise one error that names every problem."""
    problems, code = find_problems(root, job, session, outputs)
    if problems:
        raise InvalidInput(
            " ".join(problems),
            code=code,
            suggestion="Correct the outputs and call {tool:finished_step} again.",
        )
    return _split_by_step(_list_current_steps(job, session), outputs)


def find_problems(
    root: Path, job: Job, session: Session, outputs: Mapping[str, Any]
) -> tuple[list[str], Code]:
    """Find all problems of the outputs, and the error code of the worst."""
    codes: set[Code] = set()

    def find_path_problem(path: str) -> str | None:
        try:
            resolved = confine(root, path, must_exist=False, kind="file")
        except InvalidInput as error:
            codes.add(error.code)
            return error.message
        return None if resolved.exists() else f"file not found at '{path}'."

    specs = _list_declared(_list_current_steps(job, session))
    problems = list(find_output_problems(outputs, specs, find_path_problem))
    worst = Code.PATH_OUTSIDE_PROJECT if Code.PATH_OUTSIDE_PROJECT in codes else Code.INVALID_INPUT
    return problems, worst


def complete_steps(session: Session, step_outputs: list[StepOutputs], notes: str | None, now: str) -> Session:
    """Mark the steps as completed with their outputs."""
    for part in step_outputs:
        session = state.complete_step(session, part.step.id, part.outputs, notes, now)
    return session


def _list_declared(group: list[Step]) -> list[OutputSpec]:
    """List the outputs of the group; those of the concurrent steps are optional."""
    declared = {
        spec.name: replace(spec, required=False) for step in reversed(group[1:]) for spec in step.outputs
    }
    return list((declared | {spec.name: spec for spec in group[0].outputs}).values())


def _list_current_steps(job: Job, session: Session) -> list[Step]:
    """List the current step, followed by the steps concurrent with it."""
    others = [id for id in session.current_entry.steps if id != session.current_step_id]
    return [require_step(job, id, session) for id in (session.current_step_id, *others)]


def _split_by_step(group: list[Step], outputs: Mapping[str, Any]) -> list[StepOutputs]:
    """Divide the outputs among the steps that declare them; the first step takes precedence."""
    step_outputs, left = [], dict(outputs)
    for step in group:
        own = {spec.name: left.pop(spec.name) for spec in step.outputs if spec.name in left}
        if own or step is group[0]:
            step_outputs.append(StepOutputs(step, own))
    return step_outputs
