"""The JSON Schema that editors use and the loader agree on what a `.deepreview` may say."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from deepwork.reviews.definitions import SHAPE
from reviews.make import a_rule
from reviews.test_review_definitions import BROKEN

FINE: dict[str, Any] = {
    "nothing": {},
    "an ordinary rule": {"rule": a_rule()},
    "names of all kinds": {"A-1_b": a_rule(), "9": a_rule(), "-": a_rule()},
    "several patterns": {"rule": a_rule("a", "b/**", exclude=["c"])},
    "no excludes": {"rule": a_rule("a", exclude=[])},
    "instructions in a file": {"rule": a_rule(instructions={"file": "how.md"})},
    "agents": {"rule": a_rule(agent={"claude": "a", "anything": "b"})},
    "no agents": {"rule": a_rule(agent={})},
    "context": {"rule": a_rule(additional_context={"all_changed_filenames": True, "unchanged_matching_files": False})},
    "no context": {"rule": a_rule(additional_context={})},
    "a description of 256": {"rule": a_rule(description="x" * 256)},
    "all changed": {"rule": a_rule(strategy="all_changed_files")},
}  # fmt: skip

# What a schema cannot say, or says differently: blank text, the end of a line, and YAML for null.
BEYOND = {"blank instructions", "a name with a line break", "a rule that is nothing"}
WRONG = {name: content for name, content, _ in BROKEN if name not in BEYOND}


@pytest.fixture(scope="module")
def editor() -> Any:
    """What an editor goes by."""
    schema = json.loads(SHAPE.schema_file.read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


@pytest.mark.parametrize("name", FINE)
def test_what_an_editor_accepts_the_loader_accepts(editor: Any, name: str):
    assert list(editor.iter_errors(FINE[name])) == []
    assert list(SHAPE.problems(FINE[name])) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_an_editor_refuses_the_loader_refuses(editor: Any, name: str):
    assert list(editor.iter_errors(WRONG[name]))
    assert list(SHAPE.problems(WRONG[name]))
