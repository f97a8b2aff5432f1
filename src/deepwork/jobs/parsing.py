"""From the plain data of a job.yml to a job.

What has the wrong shape becomes nothing here, not an error: the schema has named it, and the rest can still
be checked in the same round.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deepwork.jobs.models import (
    Entry,
    FileInput,
    HookAction,
    Job,
    OutputSpec,
    OutputType,
    Review,
    Step,
    UserInput,
    Workflow,
)


def as_job(data: Any, folder: Path) -> Job:
    """The job that this data describes; whole if the data has the shape of the schema."""
    job = _mapping(data)
    return Job(
        name=_text(job.get("name")),
        version=_text(job.get("version")),
        summary=_text(job.get("summary")),
        description=_text(job.get("description")) or None,
        common_job_info=_text(job.get("common_job_info_provided_to_all_steps_at_runtime")),
        steps=tuple(map(_step, _list(job.get("steps")))),
        workflows=tuple(map(_workflow, _list(job.get("workflows")))),
        folder=folder,
    )


def _step(data: Any) -> Step:
    step = _mapping(data)
    return Step(
        id=_text(step.get("id")),
        name=_text(step.get("name")),
        description=_text(step.get("description")),
        instructions_file=_text(step.get("instructions_file")),
        inputs=tuple(map(_input, _list(step.get("inputs")))),
        outputs=tuple(_output(name, output) for name, output in _mapping(step.get("outputs")).items()),
        reviews=tuple(map(_review, _list(step.get("reviews")))),
        dependencies=tuple(map(_text, _list(step.get("dependencies")))),
        agent=_text(step.get("agent")) or None,
        exposed=step.get("exposed") is True,
        hidden=step.get("hidden") is True,
        hooks=_hooks(step),
    )


def _input(data: Any) -> UserInput | FileInput:
    given = _mapping(data)
    if "from_step" in given:
        return FileInput(_text(given.get("file")), _text(given["from_step"]))
    return UserInput(_text(given.get("name")), _text(given.get("description")))


def _output(name: str, data: Any) -> OutputSpec:
    output = _mapping(data)
    type = OutputType.FILES if output.get("type") == "files" else OutputType.FILE
    return OutputSpec(name, type, _text(output.get("description")), output.get("required") is True)


def _review(data: Any) -> Review:
    review = _mapping(data)
    return Review(
        run_each=_text(review.get("run_each")),
        quality_criteria={name: _text(ask) for name, ask in _mapping(review.get("quality_criteria")).items()},
        additional_review_guidance=_text(review.get("additional_review_guidance")) or None,
    )


def _hooks(step: dict[str, Any]) -> dict[str, tuple[HookAction, ...]]:
    """Actions by event; the older `stop_hooks` come after those of `after_agent`."""
    hooks = {event: _actions(actions) for event, actions in _mapping(step.get("hooks")).items()}
    if stopping := _actions(step.get("stop_hooks")):
        hooks["after_agent"] = (*hooks.get("after_agent", ()), *stopping)
    return hooks


def _actions(data: Any) -> tuple[HookAction, ...]:
    return tuple(
        HookAction(kind, _text(value)) for action in _list(data) for kind, value in _mapping(action).items()
    )


def _workflow(data: Any) -> Workflow:
    workflow = _mapping(data)
    return Workflow(
        name=_text(workflow.get("name")),
        summary=_text(workflow.get("summary")),
        entries=tuple(map(_entry, _list(workflow.get("steps")))),
    )


def _entry(data: Any) -> Entry:
    if isinstance(data, list):
        return Entry(tuple(map(_text, data)), is_concurrent=True)
    return Entry((_text(data),), is_concurrent=False)


def _mapping(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _list(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []


def _text(data: Any) -> str:
    return data if isinstance(data, str) else ""
