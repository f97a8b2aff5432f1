"""The jobs we ship are in order, and of use."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepwork.work.jobs.definitions.catalog import STANDARD_JOBS, find_problems, load_job, read_instructions
from deepwork.work.jobs.definitions.checks import find_warnings

FOLDERS = sorted(path.parent for path in STANDARD_JOBS.glob("*/job.yml"))


def test_the_expected_standard_jobs_are_shipped():
    assert [folder.name for folder in FOLDERS] == ["deepwork_jobs", "hello_review"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_shipped_job_has_neither_problems_nor_warnings(folder: Path):
    assert find_problems(folder) == []

    loaded = load_job(folder)

    assert loaded.name == folder.name
    assert find_warnings(loaded) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_shipped_step_is_reviewed_and_its_instructions_name_every_output(folder: Path):
    loaded = load_job(folder)

    for step in loaded.steps:
        text = read_instructions(loaded, step)
        assert step.reviews
        assert "finished_step" in text
        assert [output.name for output in step.outputs if output.name not in text] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_shipped_instructions_file_belongs_to_a_step(folder: Path):
    named = {step.instructions_file for step in load_job(folder).steps}

    assert {f"steps/{path.name}" for path in (folder / "steps").iterdir()} == named


def test_the_new_job_workflow_goes_from_definition_to_iteration():
    new_job = load_job(STANDARD_JOBS / "deepwork_jobs").find_workflow("new_job")

    assert new_job is not None
    assert new_job.step_ids == ("define", "implement", "test", "iterate")
