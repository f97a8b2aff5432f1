"""The pages about jobs are held to the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deepwork.kernel.files.definition_models import build_schema
from deepwork.work.jobs.definitions.catalog import STANDARD_JOBS, find_problems
from deepwork.work.jobs.definitions.job_file import JobDefinition
from jobs.make import write_job

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "write-a-job.md"
REFERENCE = STANDARD_JOBS / "deepwork_jobs" / "reference.md"
OLD = {"stop_hooks"}


def keys(rule: Any) -> Iterator[str]:
    """Every key that some part of a job.yml may have."""
    if isinstance(rule, dict):
        yield from rule.get("properties", {})
        for inner in rule.values():
            yield from keys(inner)
    elif isinstance(rule, list):
        for inner in rule:
            yield from keys(inner)


def test_the_howto_names_every_key():
    text = HOWTO.read_text()

    assert {key for key in keys(build_schema(JobDefinition)) if not re.search(rf"\b{key}\b", text)} == set()


@pytest.mark.parametrize(
    "part", ["StepDefinition", "OutputDefinition", "StepReviewDefinition", "WorkflowDefinition"]
)
def test_the_reference_for_agents_names_every_key_that_is_not_outdated(part: str):
    text = REFERENCE.read_text()

    properties = build_schema(JobDefinition)["definitions"][part]["properties"]
    missing = {key for key in properties if f"`{key}" not in text}
    assert missing - OLD == set()


def test_the_example_in_the_howto_is_a_valid_job(tmp_path: Path):
    [example] = re.findall(r"```yaml\n(name: weekly_report.*?)```", HOWTO.read_text(), re.DOTALL)

    assert find_problems(write_job(tmp_path, yaml.safe_load(example))) == []
