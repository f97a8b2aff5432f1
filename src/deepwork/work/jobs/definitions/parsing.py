"""Builds a Job from the data of a job.yml; a key that is left out has the value that it gets here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deepwork.gates.budgets.models import Budget
from deepwork.gates.reviews.rounds import ReviewPolicy
from deepwork.kernel.files.problems import DefinitionProblem, Where
from deepwork.kernel.files.schema_check import is_surely_valid
from deepwork.work.jobs.definitions.models import (
    FileInput,
    HookAction,
    Job,
    JobWorkflow,
    OutputSpec,
    OutputType,
    Step,
    StepApproval,
    StepReview,
    UserInput,
    WorkflowEntry,
)

SCHEMA_FILE = Path(__file__).parents[1] / "job.schema.json"

_Data = Mapping[str, Any]


def parse_job(data: _Data, folder: Path) -> tuple[Job, list[DefinitionProblem], set[Where]]:
    """Return the job, its problems and its malformed parts.

    A malformed part is reduced to what other parts refer to, so that these can be checked in the same run.
    """
    if is_surely_valid(SCHEMA_FILE, data):
        return _build_job(data, folder), [], set()
    # Imported here, because building the models takes longer than reading a valid job.
    from deepwork.kernel.files.definition_models import validate_data  # noqa: PLC0415
    from deepwork.work.jobs.definitions.job_file import (  # noqa: PLC0415
        JobDefinition,
        StepDefinition,
        WorkflowDefinition,
    )

    definition, problems = validate_data(JobDefinition, data)
    if definition is not None:
        return _build_job(data, folder), [], set()
    malformed: set[Where] = set()

    def parse(
        key: str,
        part: type[StepDefinition | WorkflowDefinition],
        build: Callable[[_Data], Any],
        reduce: Callable[[_Data], Any],
    ) -> Iterator[Any]:
        items = data.get(key)
        for index, item in enumerate(items if isinstance(items, list) else ()):
            if validate_data(part, item)[0] is None:
                malformed.add((key, index))
                yield reduce(item if isinstance(item, dict) else {})
            else:
                yield build(item)

    steps = tuple(parse("steps", StepDefinition, _build_step, _reduce_step))
    workflows = tuple(parse("workflows", WorkflowDefinition, _build_workflow, _reduce_workflow))
    return Job("", "", "", None, "", steps, workflows, folder), problems, malformed


def _reduce_step(data: _Data) -> Step:
    waits_for = data.get("dependencies")
    dependencies = tuple(filter(None, map(_to_text, waits_for))) if isinstance(waits_for, list) else ()
    id, instructions_file = _to_text(data.get("id")), _to_text(data.get("instructions_file"))
    return Step(id, "", "", instructions_file, (), (), (), dependencies, None, False, False, {})


def _reduce_workflow(data: _Data) -> JobWorkflow:
    return JobWorkflow(_to_text(data.get("name")), "", ())


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _build_job(data: _Data, folder: Path) -> Job:
    return Job(
        name=data["name"],
        version=data["version"],
        summary=data["summary"],
        description=data.get("description") or None,
        common_job_info=data["common_job_info_provided_to_all_steps_at_runtime"],
        steps=tuple(map(_build_step, data["steps"])),
        workflows=tuple(map(_build_workflow, data.get("workflows", ()))),
        folder=folder,
    )


def _build_workflow(data: _Data) -> JobWorkflow:
    entries = (
        WorkflowEntry((entry,), is_concurrent=False)
        if isinstance(entry, str)
        else WorkflowEntry(tuple(entry), is_concurrent=True)
        for entry in data["steps"]
    )
    return JobWorkflow(data["name"], data["summary"], tuple(entries))


def _build_step(data: _Data) -> Step:
    return Step(
        id=data["id"],
        name=data["name"],
        description=data["description"],
        instructions_file=data["instructions_file"],
        inputs=tuple(
            FileInput(**given) if "file" in given else UserInput(**given) for given in data.get("inputs", ())
        ),
        outputs=tuple(
            OutputSpec(name, OutputType(about["type"]), about["description"], about["required"])
            for name, about in data["outputs"].items()
        ),
        reviews=tuple(map(_build_review, data["reviews"])),
        dependencies=tuple(data.get("dependencies", ())),
        agent=data.get("agent"),
        exposed=data.get("exposed", False),
        hidden=data.get("hidden", False),
        hooks=_build_hooks(data),
        checks=tuple(dict.fromkeys(data.get("checks", ()))),
        approval=_build_approval(data.get("approval")),
        budget=Budget(**given) if (given := data.get("budget")) else None,
    )


def _build_review(data: _Data) -> StepReview:
    return StepReview(
        data["run_each"],
        data["quality_criteria"],
        data.get("additional_review_guidance") or None,
        data.get("rounds"),
        ReviewPolicy.parse(data),
    )


def _build_approval(data: _Data | None) -> StepApproval | None:
    if data is None:
        return None
    return StepApproval.parse(tuple(dict.fromkeys(data.get("of", ()))), data.get("expires"))


def _build_hooks(data: _Data) -> dict[str, tuple[HookAction, ...]]:
    """Return actions by event; those of the older key `stop_hooks` are appended to `after_agent`."""
    hooks = {event: _build_actions(actions) for event, actions in data.get("hooks", {}).items()}
    if older := data.get("stop_hooks"):
        hooks["after_agent"] = hooks.get("after_agent", ()) + _build_actions(older)
    return hooks


def _build_actions(actions: list[dict[str, str]]) -> tuple[HookAction, ...]:
    return tuple(HookAction(kind, text) for action in actions for kind, text in action.items())
