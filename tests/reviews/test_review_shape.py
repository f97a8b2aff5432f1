"""The JSON Schema that editors use and the loader agree on what a `.deepreview` may say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from deepwork.gates.reviews import rule_file
from deepwork.gates.reviews.rule_file import RuleFile
from deepwork.kernel.files.definition_models import validate_data
from reviews.make import make_rule_data
from reviews.test_review_catalog import BROKEN

FINE: dict[str, Any] = {
    "nothing": {},
    "an ordinary rule": {"rule": make_rule_data()},
    "names of all kinds": {"A-1_b": make_rule_data(), "9": make_rule_data(), "-": make_rule_data()},
    "several patterns": {"rule": make_rule_data("a", "b/**", exclude=["c"])},
    "no excludes": {"rule": make_rule_data("a", exclude=[])},
    "instructions in a file": {"rule": make_rule_data(instructions={"file": "how.md"})},
    "agents": {"rule": make_rule_data(agent={"claude": "a", "anything": "b"})},
    "no agents": {"rule": make_rule_data(agent={})},
    "context": {"rule": make_rule_data(additional_context={"all_changed_filenames": True, "unchanged_matching_files": False})},
    "no context": {"rule": make_rule_data(additional_context={})},
    "a description of 256": {"rule": make_rule_data(description="x" * 256)},
    "all changed": {"rule": make_rule_data(strategy="all_changed_files")},
}  # fmt: skip

# What a schema cannot say, or says differently: blank text, the end of a line, and YAML for null.
BEYOND = {"blank instructions", "a name with a line break", "a rule that is nothing"}
WRONG = {name: content for name, content, _ in BROKEN if name not in BEYOND}


@pytest.fixture(scope="module")
def editor() -> Any:
    """What an editor goes by."""
    schema = json.loads(Path(rule_file.__file__).with_name("deepreview.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


@pytest.mark.parametrize("name", FINE)
def test_the_loader_accepts_what_the_schema_accepts(editor: Any, name: str):
    assert list(editor.iter_errors(FINE[name])) == []
    assert validate_data(RuleFile, FINE[name])[1] == []


@pytest.mark.parametrize("name", WRONG)
def test_the_loader_refuses_what_the_schema_refuses(editor: Any, name: str):
    assert list(editor.iter_errors(WRONG[name]))
    assert validate_data(RuleFile, WRONG[name])[1]
