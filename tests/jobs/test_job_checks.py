"""The parts of a job agree with each other."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from deepwork.work.jobs.definitions.catalog import find_problems, load_job
from deepwork.work.jobs.definitions.checks import find_warnings
from jobs.make import make_job, make_output, make_review, make_step, make_workflow, write_job

A, B, C = make_step("a"), make_step("b"), make_step("c")


def make_dependent_step(id: str, *dependencies: str, **given: Any) -> dict[str, Any]:
    return make_step(id, dependencies=list(dependencies), **given)


def takes(file: str, from_step: str) -> list[dict[str, str]]:
    return [{"file": file, "from_step": from_step}]


WRONG = {
    "an unknown dependency": (
        make_job(A, make_dependent_step("b", "aa")),
        ["steps -> 1 -> dependencies -> 0: there is no step 'aa'; did you mean 'a'?"],
    ),
    "a step that waits for itself": (
        make_job(make_dependent_step("a", "a")),
        ["steps -> 0 -> dependencies -> 0: step 'a' depends on itself; remove it."],
    ),
    "two steps that wait for each other": (
        make_job(make_dependent_step("a", "b"), make_dependent_step("b", "a"), workflows=[]),
        ["the steps wait for each other in a cycle: 'a' -> 'b' -> 'a'; remove one of these dependencies."],
    ),
    "a longer cycle": (
        make_job(make_dependent_step("a", "c"), make_dependent_step("b", "a"), make_dependent_step("c", "b"), workflows=[]),
        ["in a cycle: "],
    ),
    "two cycles": (
        make_job(make_dependent_step("a", "b"), make_dependent_step("b", "a"), make_dependent_step("c", "d"), make_dependent_step("d", "c"), workflows=[]),
        ["'a'", "'c'"],
    ),
    "a file from an unknown step": (
        make_job(A, make_step("b", inputs=takes("a.md", "x"))),
        ["steps -> 1 -> inputs -> 0 -> from_step: there is no step 'x'; allowed: 'a', 'b'."],
    ),
    "a file from a step that is no dependency": (
        make_job(A, make_step("b", inputs=takes("a.md", "a"))),
        ["from_step: the file comes from 'a', which is not among the step's dependencies; add 'a' to dependencies."],
    ),
    "a file that the source does not deliver": (
        make_job(A, make_dependent_step("b", "a", inputs=takes("b.md", "a"))),
        ["inputs -> 0 -> file: step 'a' has no output 'b.md'; did you mean 'a.md'?"],
    ),
    "a review of nothing the step writes": (
        make_job(make_step("a", reviews=[make_review("b.md")])),
        ["run_each: 'b.md' is not an output of this step; valid values are 'step', 'a.md'."],
    ),
    "an output called step": (
        make_job(make_step("a", outputs={"step": make_output()}, reviews=[make_review("step")])),
        ["outputs -> step: an output cannot be called 'step'"],
    ),
    "two steps with one id": (
        make_job(A, A, workflows=[make_workflow("a")]),
        ["steps -> 1 -> id: the id 'a' is already used by steps -> 0; give this step a unique id."],
    ),
    "two workflows with one name": (
        make_job(A, workflows=[make_workflow("a"), make_workflow("a")]),
        ["workflows -> 1 -> name: there is already a workflow 'main'; "],
    ),
    "a workflow of an unknown step": (
        make_job(A, workflows=[make_workflow("a", "bb")]),
        ["workflows -> 0 -> steps -> 1: there is no step 'bb'; "],
    ),
    "a group with an unknown step": (
        make_job(A, workflows=[make_workflow(["a", "bb"])]),
        ["workflows -> 0 -> steps -> 0: there is no step 'bb'; "],
    ),
    "a step twice": (
        make_job(A, B, workflows=[make_workflow("a", "b", "a")]),
        ["workflows -> 0 -> steps -> 2: step 'a' is in this workflow twice; remove one of them."],
    ),
    "a step alone and in a group": (
        make_job(A, B, workflows=[make_workflow("a", ["a", "b"])]),
        ["step 'a' is in this workflow twice"],
    ),
    "a step before its dependency": (
        make_job(A, make_dependent_step("b", "a"), workflows=[make_workflow("b", "a")]),
        ["workflows -> 0 -> steps -> 0: step 'b' does not come after 'a', on which it depends; move it to an entry after 'a'."],
    ),
    "a step in one group with its dependency": (
        make_job(A, make_dependent_step("b", "a"), workflows=[make_workflow(["a", "b"])]),
        ["step 'b' does not come after 'a', on which it depends"],
    ),
}  # fmt: skip

RIGHT = {
    "a chain": make_job(
        A, make_dependent_step("b", "a", inputs=takes("a.md", "a")), make_dependent_step("c", "a", "b")
    ),
    "a diamond": make_job(
        A,
        make_dependent_step("b", "a"),
        make_dependent_step("c", "a"),
        make_dependent_step("d", "b", "c"),
        workflows=[make_workflow("a", ["b", "c"], "d")],
    ),
    "a workflow that leaves a dependency out": make_job(
        A, make_dependent_step("b", "a"), workflows=[make_workflow("b")]
    ),
    "one step in two workflows": make_job(
        A, workflows=[make_workflow("a"), make_workflow("a", name="again")]
    ),
    "a dependency named twice": make_job(A, make_dependent_step("b", "a", "a")),
}


@pytest.mark.parametrize(("data", "expected"), WRONG.values(), ids=WRONG)
def test_an_inconsistent_job_is_reported(data: dict[str, Any], expected: list[str], tmp_path: Path):
    found = find_problems(write_job(tmp_path, data))

    assert len(found) == len(expected), found
    assert all(words in "\n".join(found) for words in expected), found


@pytest.mark.parametrize("data", RIGHT.values(), ids=RIGHT)
def test_a_consistent_job_has_no_problems(data: dict[str, Any], tmp_path: Path):
    assert find_problems(write_job(tmp_path, data)) == []


def test_steps_in_no_workflow_are_a_warning_and_the_job_is_valid(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    write_job(tmp_path, make_job(A, B, C, workflows=[make_workflow("b")]))

    with caplog.at_level(logging.WARNING, "deepwork"):
        loaded = load_job(tmp_path)

    assert [record.getMessage() for record in caplog.records] == [
        "Job report: No workflow uses these steps: 'a', 'c'."
    ]
    assert len(loaded.steps) == 3


def test_an_input_from_a_step_outside_the_workflow_is_a_warning(tmp_path: Path):
    loaded = load_job(
        write_job(
            tmp_path,
            make_job(
                A, make_dependent_step("b", "a", inputs=takes("a.md", "a")), workflows=[make_workflow("b")]
            ),
        )
    )

    assert "Workflow 'main' does not run 'a', so step 'b' gets no 'a.md'." in find_warnings(loaded)


def test_a_job_with_thousands_of_steps_is_checked_quickly(tmp_path: Path):
    """Every check is linear: a file of the greatest size must not keep a server busy."""
    chain = [make_dependent_step("s0"), *(make_dependent_step(f"s{n}", f"s{n - 1}") for n in range(1, 2_000))]
    shared = [given | {"instructions_file": "steps/all.md"} for given in chain]

    assert find_problems(write_job(tmp_path, make_job(*shared))) == []
