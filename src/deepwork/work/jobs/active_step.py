"""Builds the part of an answer that describes an agent's current step."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.kernel.errors import Code, StateError
from deepwork.work.jobs.decisions import list_for_current_step, to_infos
from deepwork.work.jobs.definitions.catalog import read_instructions
from deepwork.work.jobs.definitions.models import Job, OutputSpec, OutputType, Step
from deepwork.work.jobs.responses import ActiveStep, ConcurrentStep, ExpectedOutput, ReviewInfo, StepInput
from deepwork.work.jobs.sessions.state import Session, format_now
from deepwork.work.jobs.step_rounds import compute_minutes_left

_SYNTAX_BY_OUTPUT_TYPE = {
    OutputType.FILE: "filepath",
    OutputType.FILES: "array of filepaths for all individual files",
}


def build_active_step(job: Job, session: Session) -> ActiveStep:
    """Build the current step of the session, with everything needed to do it."""
    step = require_step(job, session.current_step_id, session)
    group = [require_step(job, id, session) for id in session.current_entry.steps]
    return ActiveStep(
        session_id=session.session_id,
        step_id=step.id,
        job_dir=str(job.folder),
        step_expected_outputs=build_expected_outputs(step.outputs),
        step_reviews=[
            ReviewInfo.of(review, quality_criteria=dict(review.quality_criteria)) for review in step.reviews
        ],
        step_instructions=read_instructions(job, step)
        + (_format_concurrent_note(group) if len(group) > 1 else ""),
        common_job_info=job.common_job_info,
        step_inputs=build_step_inputs(step, session),
        concurrent_steps=_build_concurrent_steps(job, group) if session.current_entry.is_concurrent else None,
        decisions=to_infos(list_for_current_step(session)),
        step_checks=list(session.list_current_checks()) or None,
        minutes_left=compute_minutes_left(session, format_now()),
    )


def require_step(job: Job, id: str, session: Session) -> Step:
    """Return a step of the session; raise if it was removed from job.yml after the session started."""
    if (step := job.find_step(id)) is None:
        raise StateError(
            f"Step {id!r} of session {session.session_id} is no longer in job {job.name!r}.",
            code=Code.INVALID_STATE,
            suggestion="Restore the step in job.yml, or end the session with {tool:abort_workflow}.",
        )
    return step


def build_expected_outputs(outputs: Sequence[OutputSpec]) -> list[ExpectedOutput]:
    return [
        ExpectedOutput.of(output, syntax_for_finished_step_tool=_SYNTAX_BY_OUTPUT_TYPE[output.type])
        for output in outputs
    ]


def build_step_inputs(step: Step, session: Session) -> list[StepInput]:
    """Build the inputs of a step: questions for the user, and the files that earlier steps delivered."""
    questions = [StepInput(name=each.name, description=each.description) for each in step.user_inputs]
    files = [
        StepInput(
            name=each.file,
            from_step=each.from_step,
            paths=list_delivered_paths(session, each.from_step, each.file),
        )
        for each in step.file_inputs
    ]
    return questions + files


def list_delivered_paths(session: Session, step_id: str, output: str) -> list[str]:
    """List the paths that a step of this session delivered as this output."""
    value = session.get_progress(step_id).outputs.get(output, [])
    return [value] if isinstance(value, str) else list(value)


def _build_concurrent_steps(job: Job, group: Sequence[Step]) -> list[ConcurrentStep]:
    return [
        ConcurrentStep(
            step_id=step.id,
            step_instructions=read_instructions(job, step),
            step_expected_outputs=build_expected_outputs(step.outputs),
        )
        for step in group
    ]


def _format_concurrent_note(group: Sequence[Step]) -> str:
    ids = ", ".join(step.id for step in group)
    return (
        f"\n\n**CONCURRENT STEPS**: {len(group)} steps can run at the same time: {ids}. "
        "Use the Task tool to run them in parallel; `concurrent_steps` has the instructions for each. "
        f"Then call finished_step once, for {group[0].id}; you may submit the outputs of the others with it."
    )
