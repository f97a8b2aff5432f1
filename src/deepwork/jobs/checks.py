"""What must hold between the parts of a job: pure rules over one that has the right shape."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from deepwork.files.shape import Problem, Where, did_you_mean, listed, shown
from deepwork.jobs.models import FileInput, Job, Step, Workflow

ALL_OUTPUTS = "step"
"""What `run_each` says to review all outputs together."""


def cross_problems(job: Job) -> Iterator[Problem]:
    """Where parts of the job contradict each other."""
    places = _places(job)
    yield from _repeated_ids(job)
    for index, step in enumerate(job.steps):
        yield from _of_dependencies(step, ("steps", index, "dependencies"), places)
        yield from _of_inputs(job, step, ("steps", index, "inputs"), places)
        yield from _of_outputs(step, ("steps", index, "outputs"))
        yield from _of_reviews(step, ("steps", index, "reviews"))
    yield from _circles(job, places)
    yield from _of_workflows(job, places)


def warnings(job: Job) -> list[str]:
    """What is allowed and yet most likely a mistake."""
    return [*_unused_steps(job), *_absent_sources(job)]


def _places(job: Job) -> dict[str, int]:
    """Where each step id is defined; an empty id belongs to a step that has none."""
    places: dict[str, int] = {}
    for index, step in enumerate(job.steps):
        places.setdefault(step.id, index)
    return places


def _repeated_ids(job: Job) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, step in enumerate(job.steps):
        before = first.setdefault(step.id, index)
        if step.id and before != index:
            what = f"the id {shown(step.id)} already belongs to steps -> {before}"
            yield Problem(("steps", index, "id"), what, "give this step an id of its own")


def _of_dependencies(step: Step, where: Where, places: dict[str, int]) -> Iterator[Problem]:
    for index, id in enumerate(step.dependencies):
        if id == step.id:
            yield Problem((*where, index), f"step {shown(id)} depends on itself", "remove it")
        elif _is_unknown(id, places):
            yield _unknown_step((*where, index), id, places)


def _of_inputs(job: Job, step: Step, where: Where, places: dict[str, int]) -> Iterator[Problem]:
    depends_on = set(step.dependencies)
    for index, given in enumerate(step.inputs):
        if not isinstance(given, FileInput):
            continue
        if _is_unknown(given.from_step, places):
            yield _unknown_step((*where, index, "from_step"), given.from_step, places)
        elif given.from_step in places:
            yield from _of_source(job, given, depends_on, (*where, index), places[given.from_step])


def _of_source(
    job: Job, given: FileInput, depends_on: set[str], where: Where, source: int
) -> Iterator[Problem]:
    if given.from_step not in depends_on:
        what = f"the file comes from {shown(given.from_step)}, which is not among the step's dependencies"
        yield Problem((*where, "from_step"), what, f"add {shown(given.from_step)} to dependencies")
    if job.steps[source].output(given.file) is None:
        what = f"step {shown(given.from_step)} has no output {shown(given.file)}"
        names = [output.name for output in job.steps[source].outputs]
        yield Problem((*where, "file"), what, did_you_mean(given.file, names), also=("steps", source))


def _of_outputs(step: Step, where: Where) -> Iterator[Problem]:
    if step.output(ALL_OUTPUTS) is not None:
        what = f"an output cannot be called {ALL_OUTPUTS!r}: in run_each that word means all outputs"
        yield Problem((*where, ALL_OUTPUTS), what, "choose another name")


def _of_reviews(step: Step, where: Where) -> Iterator[Problem]:
    for index, review in enumerate(step.reviews):
        if review.run_each != ALL_OUTPUTS and step.output(review.run_each) is None:
            valid = [ALL_OUTPUTS, *(output.name for output in step.outputs)]
            what = f"{shown(review.run_each)} is no output of this step"
            remedy = f"valid values are {listed(valid)}"
            yield Problem((*where, index, "run_each"), what, remedy)


def _circles(job: Job, places: dict[str, int]) -> Iterator[Problem]:
    """Each circle once: what closes it is taken out, and the rest looked at again."""
    waits_for = {step.id: {id for id in step.dependencies if id in places} - {step.id} for step in job.steps}
    while circle := _circle(waits_for):
        chain = " -> ".join([*map(shown, circle[:10]), *["…"] * (len(circle) > 10)])
        yield Problem(
            ("steps", places[circle[0]], "dependencies"),
            f"the steps wait for each other in a circle: {chain}",
            "remove one of these dependencies",
        )
        waits_for[circle[0]].discard(circle[1])


def _circle(waits_for: dict[str, set[str]]) -> list[str]:
    """Steps each of which depends on the next, the first again at the end; nothing if there is no circle."""
    try:
        TopologicalSorter(waits_for).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found[::-1]  # graphlib tells it from the dependency to the dependent
    return []


def _of_workflows(job: Job, places: dict[str, int]) -> Iterator[Problem]:
    names: set[str] = set()
    for index, workflow in enumerate(job.workflows):
        if workflow.name in names:
            what = f"there is already a workflow {shown(workflow.name)}"
            yield Problem(("workflows", index, "name"), what, "give this one a name of its own")
        names.add(workflow.name)
        yield from _of_entries(workflow, ("workflows", index, "steps"), places)
        yield from _out_of_order(job, workflow, ("workflows", index, "steps"), places)


def _of_entries(workflow: Workflow, where: Where, places: dict[str, int]) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, entry in enumerate(workflow.entries):
        for id in entry.steps:
            if _is_unknown(id, places):
                yield _unknown_step((*where, index), id, places)
            elif id in seen:
                what = f"step {shown(id)} is in this workflow twice"
                yield Problem((*where, index), what, "remove one of them")
            seen.add(id)


def _out_of_order(job: Job, workflow: Workflow, where: Where, places: dict[str, int]) -> Iterator[Problem]:
    turn = {id: index for index, entry in enumerate(workflow.entries) for id in entry.steps}
    for id, index in turn.items():
        for earlier in job.steps[places[id]].dependencies if id in places else ():
            if earlier != id and turn.get(earlier, -1) >= index:
                what = f"step {shown(id)} does not come after {shown(earlier)}, on which it depends"
                remedy = f"move it to an entry after {shown(earlier)}"
                yield Problem((*where, index), what, remedy, also=("steps", places[id]))


def _is_unknown(id: str, places: dict[str, int]) -> bool:
    """Whether no step has this id; where steps or their ids are unreadable, one of them could have it."""
    return bool(places) and id not in places and "" not in places


def _unknown_step(where: Where, id: str, places: dict[str, int]) -> Problem:
    return Problem(where, f"there is no step {shown(id)}", did_you_mean(id, list(places)))


def _unused_steps(job: Job) -> Iterator[str]:
    used = {id for workflow in job.workflows for id in workflow.step_ids}
    if unused := [step.id for step in job.steps if step.id not in used]:
        yield f"No workflow has these steps: {listed(unused)}."


def _absent_sources(job: Job) -> Iterator[str]:
    for workflow in job.workflows:
        present = set(workflow.step_ids)
        for step in filter(None, map(job.step, workflow.step_ids)):
            for given in step.file_inputs:
                if given.from_step not in present:
                    yield (
                        f"Workflow {shown(workflow.name)} does not run {shown(given.from_step)}, "
                        f"so step {shown(step.id)} gets no {shown(given.file)}."
                    )
