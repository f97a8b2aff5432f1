"""Data that the generated schemas surely allow is what the models accept, so that usual files need no model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from deepwork.kernel.files.definition_models import validate_data
from deepwork.kernel.files.schema_check import is_surely_valid
from deepwork.work.jobs.definitions.job_file import JobDefinition
from deepwork.work.jobs.definitions.parsing import SCHEMA_FILE as JOB_SCHEMA
from deepwork.work.templates.catalog import SCHEMA_FILE as TEMPLATE_SCHEMA
from deepwork.work.templates.template_file import TemplateDefinition

JOB = """
name: report
version: "1.0.0"
summary: A report.
description: At length.
common_job_info_provided_to_all_steps_at_runtime: Be brief.
steps:
  - id: gather
    name: Gather
    description: Gather it.
    instructions_file: steps/gather.md
    inputs: [{name: topic, description: About what.}, {file: a.md, from_step: plan}]
    outputs: {pages: {type: files, description: The pages., required: false}}
    reviews:
      - run_each: pages
        quality_criteria: {Good: "Is it?"}
        additional_review_guidance: Mind.
        rounds: 2
        blocks: [blocker]
        scope: whole
        by: other
    checks: [tests]
    approval: {of: [pages], expires: 24h}
    budget: {usd: 1.5, tokens: 9, minutes: 3}
    dependencies: [plan]
    agent: writer
    exposed: true
    hidden: false
    hooks: {after_agent: [{prompt: a}], before_tool: [{script: b}], before_prompt: [{prompt_file: c}]}
    stop_hooks: [{prompt: d}]
workflows:
  - {name: main, summary: All., steps: [gather, [gather, other]]}
"""
TEMPLATE = """
name: Release it
description: At length.
version: 2
variables: [who, {name: what, description: A thing., required: false, default: x}]
tasks:
  - name: Build
    description: Do it.
    sequence: 1
    parallel_group: one
    depends_on: [Test]
    estimated_complexity: high
    files_likely_affected: ["src/**"]
    required_capabilities: [python]
    max_attempts: 2
    checks: [tests]
    approval: [landing]
    budget: {usd: 2, tokens: 5, minutes: 0.5}
    changes: none
"""
FORMATS: list[tuple[Path, type[BaseModel], Any]] = [
    (JOB_SCHEMA, JobDefinition, yaml.safe_load(JOB)),
    (TEMPLATE_SCHEMA, TemplateDefinition, yaml.safe_load(TEMPLATE)),
]
ODD: list[Any] = [
    None, True, False, 0, 1, 3, -1, 20, 21, 10**7, 10**30, 0.0, 0.5, 3.0, float("nan"), "", " ", "a", "A", "é", "1.0.0", "1.0.0\n",
    "a\n", "٣.٣.٣", "30m", "0m", "file", "FILE", "minor", "landing", "none", "\ud800", "\0", "\x1c", "x" * 200, "x" * 201, [], {}, [[]],
    ["a"], [["a"]], {"prompt": "x"}, {"prompt": "x", "script": "y"}, {"file": "a", "from_step": "b"}, {"": ""}, {"": "x"}, {"\ud800": "x"},
]  # fmt: skip


def list_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every mapping or list with each key or index, and some keys that it does not have."""
    if isinstance(value, dict):
        yield from ((value, key) for key in [*value, "", "other", "\ud800"])
    elif isinstance(value, list):
        yield from ((value, index) for index in range(len(value)))
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from list_places(inner)


@pytest.mark.parametrize(("schema_file", "model", "data"), FORMATS)
def test_data_that_uses_every_key_is_surely_valid(schema_file: Path, model: type[BaseModel], data: Any):
    schema = json.loads(schema_file.read_text())
    known = {key for rule in [schema, *schema["definitions"].values()] for key in rule.get("properties", {})}

    assert {key for _, key in list_places(data)} >= known
    assert is_surely_valid(schema_file, data)
    assert validate_data(model, data)[1] == []


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_whatever_is_surely_valid_is_accepted_by_the_model(data: st.DataObject):
    schema_file, model, usual = data.draw(st.sampled_from(FORMATS))
    changed = deepcopy(usual)
    for _ in range(data.draw(st.integers(1, 3))):
        place, key = data.draw(st.sampled_from([*list_places(changed)]))
        if isinstance(place, dict) and key in place and data.draw(st.booleans()):
            del place[key]
        else:
            place[key] = deepcopy(data.draw(st.sampled_from(ODD)))

    if is_surely_valid(schema_file, changed):
        accepted, _ = validate_data(model, changed)
        assert accepted is not None
        assert accepted.model_dump(exclude_unset=True, warnings=False) == changed


@pytest.mark.parametrize(("schema_file", "model", "data"), FORMATS)
def test_no_odd_value_at_any_place_is_surely_valid_if_the_model_refuses_it(
    schema_file: Path, model: type[BaseModel], data: Any
):
    changed = deepcopy(data)
    wrong = []
    for place, key in list(list_places(changed)):
        before = deepcopy(place)
        for odd in ODD:
            place[key] = odd
            if is_surely_valid(schema_file, changed) and model_refuses(model, changed):
                wrong.append((key, odd))
        place.clear()
        place.extend(before) if isinstance(place, list) else place.update(before)

    assert wrong == []


def model_refuses(model: type[BaseModel], data: Any) -> bool:
    try:
        model.model_validate(data)
    except ValueError:
        return True
    return False


def test_data_under_a_keyword_that_is_not_known_is_left_to_the_model(tmp_path: Path):
    schema_file = tmp_path / "x.schema.json"
    schema_file.write_text('{"type": "string", "format": "date"}')

    assert not is_surely_valid(schema_file, "2030-01-01")
