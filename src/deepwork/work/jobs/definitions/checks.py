"""Checks that the parts of a job agree with each other; pure rules, applied after the format."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from deepwork.kernel.files.problems import DefinitionProblem, Where, format_list, format_value, suggest_name
from deepwork.work.jobs.definitions.models import FileInput, Job, JobWorkflow, Step

ALL_OUTPUTS = "step"
"""The value of `run_each` that reviews all outputs together."""


def find_contradictions(job: Job) -> Iterator[DefinitionProblem]:
    """Find parts of the job that contradict each other."""
    step_indexes = _index_steps(job)
    yield from _find_repeated_ids(job)
    for index, step in enumerate(job.steps):
        yield from _find_dependency_problems(step, ("steps", index, "dependencies"), step_indexes)
        yield from _find_input_problems(job, step, ("steps", index, "inputs"), step_indexes)
        yield from _find_output_problems(step, ("steps", index, "outputs"))
        yield from _find_review_problems(step, ("steps", index, "reviews"))
    yield from _find_cycles(job, step_indexes)
    yield from _find_workflow_problems(job, step_indexes)


def find_warnings(job: Job) -> list[str]:
    """Find what is allowed but probably a mistake."""
    return [*_find_unused_steps(job), *_find_absent_sources(job)]


def _index_steps(job: Job) -> dict[str, int]:
    """Map each step id to its index; a step without a readable id has the empty id."""
    step_indexes: dict[str, int] = {}
    for index, step in enumerate(job.steps):
        step_indexes.setdefault(step.id, index)
    return step_indexes


def _find_repeated_ids(job: Job) -> Iterator[DefinitionProblem]:
    first: dict[str, int] = {}
    for index, step in enumerate(job.steps):
        before = first.setdefault(step.id, index)
        if step.id and before != index:
            what = f"the id {format_value(step.id)} is already used by steps -> {before}"
            yield DefinitionProblem(("steps", index, "id"), what, "give this step a unique id")


def _find_dependency_problems(
    step: Step, where: Where, step_indexes: dict[str, int]
) -> Iterator[DefinitionProblem]:
    for index, id in enumerate(step.dependencies):
        if id == step.id:
            yield DefinitionProblem(
                (*where, index), f"step {format_value(id)} depends on itself", "remove it"
            )
        elif _is_unknown(id, step_indexes):
            yield _build_unknown_step((*where, index), id, step_indexes)


def _find_input_problems(
    job: Job, step: Step, where: Where, step_indexes: dict[str, int]
) -> Iterator[DefinitionProblem]:
    depends_on = set(step.dependencies)
    for index, given in enumerate(step.inputs):
        if not isinstance(given, FileInput):
            continue
        if _is_unknown(given.from_step, step_indexes):
            yield _build_unknown_step((*where, index, "from_step"), given.from_step, step_indexes)
        elif given.from_step in step_indexes:
            yield from _find_source_problems(
                job, given, depends_on, (*where, index), step_indexes[given.from_step]
            )


def _find_source_problems(
    job: Job, given: FileInput, depends_on: set[str], where: Where, source: int
) -> Iterator[DefinitionProblem]:
    if given.from_step not in depends_on:
        what = (
            f"the file comes from {format_value(given.from_step)}, which is not among the step's dependencies"
        )
        yield DefinitionProblem(
            (*where, "from_step"), what, f"add {format_value(given.from_step)} to dependencies"
        )
    if job.steps[source].find_output(given.file) is None:
        what = f"step {format_value(given.from_step)} has no output {format_value(given.file)}"
        names = [output.name for output in job.steps[source].outputs]
        yield DefinitionProblem(
            (*where, "file"), what, suggest_name(given.file, names), also=("steps", source)
        )


def _find_output_problems(step: Step, where: Where) -> Iterator[DefinitionProblem]:
    if step.find_output(ALL_OUTPUTS) is not None:
        what = f"an output cannot be called {ALL_OUTPUTS!r}: in run_each that word means all outputs"
        yield DefinitionProblem((*where, ALL_OUTPUTS), what, "choose another name")


def _find_review_problems(step: Step, where: Where) -> Iterator[DefinitionProblem]:
    for index, review in enumerate(step.reviews):
        if review.run_each != ALL_OUTPUTS and step.find_output(review.run_each) is None:
            valid = [ALL_OUTPUTS, *(output.name for output in step.outputs)]
            what = f"{format_value(review.run_each)} is not an output of this step"
            remedy = f"valid values are {format_list(valid)}"
            yield DefinitionProblem((*where, index, "run_each"), what, remedy)


def _find_cycles(job: Job, step_indexes: dict[str, int]) -> Iterator[DefinitionProblem]:
    """Find each cycle once, by removing one edge of it and searching again."""
    waits_for = {
        step.id: {id for id in step.dependencies if id in step_indexes} - {step.id} for step in job.steps
    }
    while cycle := _find_cycle(waits_for):
        chain = " -> ".join([*map(format_value, cycle[:10]), *["…"] * (len(cycle) > 10)])
        yield DefinitionProblem(
            ("steps", step_indexes[cycle[0]], "dependencies"),
            f"the steps wait for each other in a cycle: {chain}",
            "remove one of these dependencies",
        )
        waits_for[cycle[0]].discard(cycle[1])


def _find_cycle(waits_for: dict[str, set[str]]) -> list[str]:
    """Return steps that each depend on the next, ending with the first one again; empty without a cycle."""
    try:
        TopologicalSorter(waits_for).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found[::-1]  # graphlib lists dependencies before their dependents
    return []


def _find_workflow_problems(job: Job, step_indexes: dict[str, int]) -> Iterator[DefinitionProblem]:
    names: set[str] = set()
    for index, workflow in enumerate(job.workflows):
        if workflow.name in names:
            what = f"there is already a workflow {format_value(workflow.name)}"
            yield DefinitionProblem(("workflows", index, "name"), what, "give this one a unique name")
        names.add(workflow.name)
        yield from _find_entry_problems(workflow, ("workflows", index, "steps"), step_indexes)
        yield from _find_order_problems(job, workflow, ("workflows", index, "steps"), step_indexes)


def _find_entry_problems(
    workflow: JobWorkflow, where: Where, step_indexes: dict[str, int]
) -> Iterator[DefinitionProblem]:
    seen: set[str] = set()
    for index, entry in enumerate(workflow.entries):
        for id in entry.steps:
            if _is_unknown(id, step_indexes):
                yield _build_unknown_step((*where, index), id, step_indexes)
            elif id in seen:
                what = f"step {format_value(id)} is in this workflow twice"
                yield DefinitionProblem((*where, index), what, "remove one of them")
            seen.add(id)


def _find_order_problems(
    job: Job, workflow: JobWorkflow, where: Where, step_indexes: dict[str, int]
) -> Iterator[DefinitionProblem]:
    positions = {id: index for index, entry in enumerate(workflow.entries) for id in entry.steps}
    for id, index in positions.items():
        for earlier in job.steps[step_indexes[id]].dependencies if id in step_indexes else ():
            if earlier != id and positions.get(earlier, -1) >= index:
                before = format_value(earlier)
                what = f"step {format_value(id)} does not come after {before}, on which it depends"
                remedy = f"move it to an entry after {before}"
                yield DefinitionProblem((*where, index), what, remedy, also=("steps", step_indexes[id]))


def _is_unknown(id: str, step_indexes: dict[str, int]) -> bool:
    """Whether no step can have this id; a step with an unreadable id might."""
    return bool(step_indexes) and id not in step_indexes and "" not in step_indexes


def _build_unknown_step(where: Where, id: str, step_indexes: dict[str, int]) -> DefinitionProblem:
    return DefinitionProblem(
        where, f"there is no step {format_value(id)}", suggest_name(id, list(step_indexes))
    )


def _find_unused_steps(job: Job) -> Iterator[str]:
    used = {id for workflow in job.workflows for id in workflow.step_ids}
    if unused := [step.id for step in job.steps if step.id not in used]:
        yield f"No workflow uses these steps: {format_list(unused)}."


def _find_absent_sources(job: Job) -> Iterator[str]:
    for workflow in job.workflows:
        present = set(workflow.step_ids)
        for step in filter(None, map(job.find_step, workflow.step_ids)):
            for given in step.file_inputs:
                if given.from_step not in present:
                    yield (
                        f"Workflow {format_value(workflow.name)} does not run "
                        f"{format_value(given.from_step)}, "
                        f"so step {format_value(step.id)} gets no {format_value(given.file)}."
                    )
