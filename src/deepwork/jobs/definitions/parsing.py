"""Parses the plain data of a job.yml into a Job.

A value of the wrong type becomes empty instead of an error: the schema check reports it, and the rest of the
file can still be checked in the same run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deepwork.jobs.definitions.models import (
    FileInput,
    HookAction,
    Job,
    JobWorkflow,
    OutputSpec,
    OutputType,
    Step,
    StepReview,
    UserInput,
    WorkflowEntry,
)


def parse_job(data: Any, folder: Path) -> Job:
    """Parse a job; complete if the data conforms to the schema."""
    job = _to_mapping(data)
    return Job(
        name=_to_text(job.get("name")),
        version=_to_text(job.get("version")),
        summary=_to_text(job.get("summary")),
        description=_to_text(job.get("description")) or None,
        common_job_info=_to_text(job.get("common_job_info_provided_to_all_steps_at_runtime")),
        steps=tuple(map(_parse_step, _to_list(job.get("steps")))),
        workflows=tuple(map(_parse_workflow, _to_list(job.get("workflows")))),
        folder=folder,
    )


def _parse_step(data: Any) -> Step:
    step = _to_mapping(data)
    return Step(
        id=_to_text(step.get("id")),
        name=_to_text(step.get("name")),
        description=_to_text(step.get("description")),
        instructions_file=_to_text(step.get("instructions_file")),
        inputs=tuple(map(_parse_input, _to_list(step.get("inputs")))),
        outputs=tuple(
            _parse_output(name, output) for name, output in _to_mapping(step.get("outputs")).items()
        ),
        reviews=tuple(map(_parse_review, _to_list(step.get("reviews")))),
        dependencies=tuple(map(_to_text, _to_list(step.get("dependencies")))),
        agent=_to_text(step.get("agent")) or None,
        exposed=step.get("exposed") is True,
        hidden=step.get("hidden") is True,
        hooks=_parse_hooks(step),
    )


def _parse_input(data: Any) -> UserInput | FileInput:
    given = _to_mapping(data)
    if "from_step" in given:
        return FileInput(_to_text(given.get("file")), _to_text(given["from_step"]))
    return UserInput(_to_text(given.get("name")), _to_text(given.get("description")))


def _parse_output(name: str, data: Any) -> OutputSpec:
    output = _to_mapping(data)
    type = OutputType.FILES if output.get("type") == "files" else OutputType.FILE
    return OutputSpec(name, type, _to_text(output.get("description")), output.get("required") is True)


def _parse_review(data: Any) -> StepReview:
    review = _to_mapping(data)
    return StepReview(
        run_each=_to_text(review.get("run_each")),
        quality_criteria={
            name: _to_text(ask) for name, ask in _to_mapping(review.get("quality_criteria")).items()
        },
        additional_review_guidance=_to_text(review.get("additional_review_guidance")) or None,
    )


def _parse_hooks(step: dict[str, Any]) -> dict[str, tuple[HookAction, ...]]:
    """Parse actions by event; those of the older key `stop_hooks` are appended to `after_agent`."""
    hooks = {event: _parse_actions(actions) for event, actions in _to_mapping(step.get("hooks")).items()}
    if stopping := _parse_actions(step.get("stop_hooks")):
        hooks["after_agent"] = (*hooks.get("after_agent", ()), *stopping)
    return hooks


def _parse_actions(data: Any) -> tuple[HookAction, ...]:
    return tuple(
        HookAction(kind, _to_text(value))
        for action in _to_list(data)
        for kind, value in _to_mapping(action).items()
    )


def _parse_workflow(data: Any) -> JobWorkflow:
    workflow = _to_mapping(data)
    return JobWorkflow(
        name=_to_text(workflow.get("name")),
        summary=_to_text(workflow.get("summary")),
        entries=tuple(map(_parse_entry, _to_list(workflow.get("steps")))),
    )


def _parse_entry(data: Any) -> WorkflowEntry:
    if isinstance(data, list):
        return WorkflowEntry(tuple(map(_to_text, data)), is_concurrent=True)
    return WorkflowEntry((_to_text(data),), is_concurrent=False)


def _to_mapping(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _to_list(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []


def _to_text(data: Any) -> str:
    return data if isinstance(data, str) else ""
