"""The parts of a job agree with each other."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from deepwork.jobs.checks import warnings
from deepwork.jobs.definitions import load_job, problems
from jobs.make_jobs import job, output, review, step, workflow, written

A, B, C = step("a"), step("b"), step("c")


def needs(id: str, *dependencies: str, **given: Any) -> dict[str, Any]:
    return step(id, dependencies=list(dependencies), **given)


def takes(file: str, from_step: str) -> list[dict[str, str]]:
    return [{"file": file, "from_step": from_step}]


WRONG = {
    "an unknown dependency": (
        job(A, needs("b", "aa")),
        ["steps -> 1 -> dependencies -> 0: there is no step 'aa'; did you mean 'a'?"],
    ),
    "a step that waits for itself": (
        job(needs("a", "a")),
        ["steps -> 0 -> dependencies -> 0: step 'a' depends on itself; remove it."],
    ),
    "two steps that wait for each other": (
        job(needs("a", "b"), needs("b", "a"), workflows=[]),
        ["the steps wait for each other in a circle: 'a' -> 'b' -> 'a'; remove one of these dependencies."],
    ),
    "a longer circle": (
        job(needs("a", "c"), needs("b", "a"), needs("c", "b"), workflows=[]),
        ["in a circle: "],
    ),
    "two circles": (
        job(needs("a", "b"), needs("b", "a"), needs("c", "d"), needs("d", "c"), workflows=[]),
        ["'a'", "'c'"],
    ),
    "a file from an unknown step": (
        job(A, step("b", inputs=takes("a.md", "x"))),
        ["steps -> 1 -> inputs -> 0 -> from_step: there is no step 'x'; allowed are 'a', 'b'."],
    ),
    "a file from a step that is no dependency": (
        job(A, step("b", inputs=takes("a.md", "a"))),
        ["from_step: the file comes from 'a', which is not among the step's dependencies; add 'a' to dependencies."],
    ),
    "a file that the source does not deliver": (
        job(A, needs("b", "a", inputs=takes("b.md", "a"))),
        ["inputs -> 0 -> file: step 'a' has no output 'b.md'; did you mean 'a.md'?"],
    ),
    "a review of nothing the step writes": (
        job(step("a", reviews=[review("b.md")])),
        ["run_each: 'b.md' is no output of this step; valid values are 'step', 'a.md'."],
    ),
    "an output called step": (
        job(step("a", outputs={"step": output()}, reviews=[review("step")])),
        ["outputs -> step: an output cannot be called 'step'"],
    ),
    "two steps with one id": (
        job(A, A, workflows=[workflow("a")]),
        ["steps -> 1 -> id: the id 'a' already belongs to steps -> 0; give this step an id of its own."],
    ),
    "two workflows with one name": (
        job(A, workflows=[workflow("a"), workflow("a")]),
        ["workflows -> 1 -> name: there is already a workflow 'main'; "],
    ),
    "a workflow of an unknown step": (
        job(A, workflows=[workflow("a", "bb")]),
        ["workflows -> 0 -> steps -> 1: there is no step 'bb'; "],
    ),
    "a group with an unknown step": (
        job(A, workflows=[workflow(["a", "bb"])]),
        ["workflows -> 0 -> steps -> 0: there is no step 'bb'; "],
    ),
    "a step twice": (
        job(A, B, workflows=[workflow("a", "b", "a")]),
        ["workflows -> 0 -> steps -> 2: step 'a' is in this workflow twice; remove one of them."],
    ),
    "a step alone and in a group": (
        job(A, B, workflows=[workflow("a", ["a", "b"])]),
        ["step 'a' is in this workflow twice"],
    ),
    "a step before its dependency": (
        job(A, needs("b", "a"), workflows=[workflow("b", "a")]),
        ["workflows -> 0 -> steps -> 0: step 'b' does not come after 'a', on which it depends; move it to an entry after 'a'."],
    ),
    "a step in one group with its dependency": (
        job(A, needs("b", "a"), workflows=[workflow(["a", "b"])]),
        ["step 'b' does not come after 'a', on which it depends"],
    ),
}  # fmt: skip

RIGHT = {
    "a chain": job(A, needs("b", "a", inputs=takes("a.md", "a")), needs("c", "a", "b")),
    "a diamond": job(
        A, needs("b", "a"), needs("c", "a"), needs("d", "b", "c"), workflows=[workflow("a", ["b", "c"], "d")]
    ),
    "a workflow that leaves a dependency out": job(A, needs("b", "a"), workflows=[workflow("b")]),
    "one step in two workflows": job(A, workflows=[workflow("a"), workflow("a", name="again")]),
    "a dependency named twice": job(A, needs("b", "a", "a")),
}


@pytest.mark.parametrize(("data", "told"), WRONG.values(), ids=WRONG)
def test_a_contradiction_is_told(data: dict[str, Any], told: list[str], tmp_path: Path):
    found = problems(written(tmp_path, data))

    assert len(found) == len(told), found
    assert all(words in "\n".join(found) for words in told), found


@pytest.mark.parametrize("data", RIGHT.values(), ids=RIGHT)
def test_what_agrees_is_not_complained_about(data: dict[str, Any], tmp_path: Path):
    assert problems(written(tmp_path, data)) == []


def test_steps_in_no_workflow_are_a_warning_and_the_job_is_valid(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    written(tmp_path, job(A, B, C, workflows=[workflow("b")]))

    with caplog.at_level(logging.WARNING, "deepwork"):
        loaded = load_job(tmp_path)

    assert [record.getMessage() for record in caplog.records] == [
        "Job report: No workflow has these steps: 'a', 'c'."
    ]
    assert len(loaded.steps) == 3


def test_a_file_from_a_step_that_the_workflow_leaves_out_is_a_warning(tmp_path: Path):
    loaded = load_job(
        written(tmp_path, job(A, needs("b", "a", inputs=takes("a.md", "a")), workflows=[workflow("b")]))
    )

    assert "Workflow 'main' does not run 'a', so step 'b' gets no 'a.md'." in warnings(loaded)


def test_a_job_of_thousands_of_steps_is_checked_in_good_time(tmp_path: Path):
    """Every check is linear: a file of the greatest size must not keep a server busy."""
    chain = [needs("s0"), *(needs(f"s{n}", f"s{n - 1}") for n in range(1, 2_000))]
    shared = [given | {"instructions_file": "steps/all.md"} for given in chain]

    assert problems(written(tmp_path, job(*shared))) == []
