"""The outputs of a step, and reviews that failed about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from deepwork.gates.reviews.rounds import Finding, FindingEffect
from deepwork.kernel.errors import Code, InvalidInput
from deepwork.kernel.files.paths import confine
from deepwork.kernel.records import dataclass
from deepwork.kernel.text_budget.shortening import cut_list, measure_json
from deepwork.work.jobs.active_step import require_step
from deepwork.work.jobs.definitions.models import Job, OutputSpec, OutputType, Step
from deepwork.work.jobs.quality_gate import CriterionResult, ReviewResult
from deepwork.work.jobs.responses import CriterionAnswer, FindingAnswer, ReviewAnswer
from deepwork.work.jobs.sessions import state
from deepwork.work.jobs.sessions.state import Outputs, Session

FindProblem = Callable[[str], str | None]


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


def find_output_problems(
    submitted: Mapping[str, Any], declared: Sequence[OutputSpec], find_path_problem: FindProblem
) -> Iterator[str]:
    """Find what is wrong, in the order a caller should fix it; `find_path_problem` checks a single path."""
    specs = {spec.name: spec for spec in declared}
    if unknown := [name for name in submitted if name not in specs]:
        valid = ", ".join(specs) or "none"
        yield f"Unknown output names: {', '.join(unknown)}. Declared outputs: {valid}."
    if missing := [spec.name for spec in declared if spec.required and spec.name not in submitted]:
        yield f"Missing required outputs: {', '.join(missing)}."
    for name, value in submitted.items():
        if name in specs:
            yield from _find_value_problems(specs[name], value, find_path_problem)


def _find_value_problems(spec: OutputSpec, value: Any, find_path_problem: FindProblem) -> Iterator[str]:
    if spec.type is OutputType.FILE:
        if not isinstance(value, str):
            yield f"{_describe_spec(spec)}: pass a single string path, not {_describe_type(value)}."
            return
        paths = [value]
    else:
        if not isinstance(value, list):
            yield f"{_describe_spec(spec)}: pass a list of paths, not {_describe_type(value)}."
            return
        if not value and spec.required:
            yield f"Output '{spec.name}' is required: its list of paths may not be empty."
        if odd := [each for each in value if not isinstance(each, str)]:
            yield f"{_describe_spec(spec)}: each path is a string, not {_describe_type(odd[0])}."
        paths = [each for each in value if isinstance(each, str)]
    for path in paths:
        if problem := find_path_problem(path):
            yield f"Output '{spec.name}': {problem}"


def _describe_spec(spec: OutputSpec) -> str:
    return f"Output '{spec.name}' is declared as type '{spec.type}'"


def _describe_type(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )


MAX_FEEDBACK = 20_000
MAX_REVIEWS_BYTES = 64 * 1024
_MAX_CRITERIA = 100
_MAX_CRITERIA_BYTES = 24 * 1024
_MAX_CRITERION = 500
_MAX_CRITERION_FEEDBACK = 4000
_MAX_FINDINGS = 20
_MAX_FINDINGS_BYTES = 12 * 1024


def cut_feedback(feedback: str) -> str:
    """Return the beginning of a long feedback."""
    return _cut_text(feedback, MAX_FEEDBACK)


def cut_failed_reviews(failed: Sequence[ReviewResult]) -> list[ReviewAnswer]:
    """Return the failed reviews that fit into an answer, each cut to its share; at least one."""
    shown = cut_list(
        # One review is small enough for the limit, so that the first always fits.
        [_cut_review(result) for result in failed[:_MAX_CRITERIA]],
        max_bytes=MAX_REVIEWS_BYTES,
        measure=lambda answer: measure_json(answer.model_dump()),
    )
    return shown or [_cut_review(result) for result in failed[:1]]


def _cut_review(result: ReviewResult) -> ReviewAnswer:
    criteria = [_cut_criterion(each) for each in _select_criteria(result.criteria_results)]
    feedback = cut_feedback(result.feedback)
    is_whole = feedback == result.feedback and [asdict(each) for each in result.criteria_results] == [
        each.model_dump() for each in criteria
    ]
    return ReviewAnswer.of(
        result,
        feedback=feedback,
        criteria_results=criteria,
        truncated=None if is_whole else True,
        findings=cut_findings(result.findings) or None,
    )


def cut_findings(findings: Sequence[Finding]) -> list[FindingAnswer]:
    """Return the findings that fit into an answer; those that block come first."""
    shown = [_to_answer(each) for each in findings[:_MAX_FINDINGS]]
    return cut_list(
        shown, max_bytes=_MAX_FINDINGS_BYTES, measure=lambda answer: measure_json(answer.model_dump())
    )


def _to_answer(finding: Finding) -> FindingAnswer:
    return FindingAnswer.of(
        finding,
        claim=_cut_text(finding.claim, _MAX_CRITERION),
        failure=finding.failure and _cut_text(finding.failure, _MAX_CRITERION),
        effect=None if finding.effect is FindingEffect.BLOCKS else finding.effect.value,
    )


def _select_criteria(results: Sequence[CriterionResult]) -> list[CriterionResult]:
    """Return the criteria that fit, in their order; those that failed have precedence."""
    by_need = sorted(range(len(results)), key=lambda place: results[place].passed)
    places = cut_list(
        by_need,
        max_entries=_MAX_CRITERIA,
        max_bytes=_MAX_CRITERIA_BYTES,
        measure=lambda place: measure_json(_cut_criterion(results[place]).model_dump()),
    )
    return [results[place] for place in sorted(places)]


def _cut_criterion(result: CriterionResult) -> CriterionAnswer:
    return CriterionAnswer.of(
        result,
        criterion=_cut_text(result.criterion, _MAX_CRITERION),
        feedback=None if result.feedback is None else _cut_text(result.feedback, _MAX_CRITERION_FEEDBACK),
    )


def _cut_text(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
