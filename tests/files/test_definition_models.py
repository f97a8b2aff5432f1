"""The JSON Schemas for editors are those of the models, and problems are located exactly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from pydantic import BaseModel, Field, RootModel
from scripts.definition_schemas import MODELS, render_schema

from deepwork.kernel.files.definition_models import DefinitionModel, OneOf, Text, build_schema, validate_data


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
def test_the_schemas_for_editors_are_up_to_date(path: Path):
    assert path.read_text() == render_schema(MODELS[path]), "run `make docs`"
    jsonschema.Draft7Validator.check_schema(build_schema(MODELS[path]))


class Item(DefinitionModel):
    """Write a mapping with size."""

    size: int = 1


class Document(DefinitionModel):
    names: dict[Annotated[str, Field(min_length=1)], Item] = Field(default={})
    texts: dict[str, Text] = Field(default={})
    either: Annotated[list[str] | Item, OneOf(), Field(description="A list, or size.")] = Field(default=[])


class Names(RootModel[dict[Annotated[str, Field(pattern="^[a-z]+$", description="Letters.")], Item]]):
    pass


CASES: dict[str, tuple[type[BaseModel], Any, str]] = {
    "a name": (Document, {"names": {"": {}}}, "names -> '': the name is empty; give it a name."),
    "a key called [key] with a bad value": (Document, {"texts": {"[key]": ""}}, "texts -> [key]: this is empty; text of at least one character."),
    "an unknown key called [key]": (Document, {"names": {"a": {"[key]": 1}}}, "names -> a -> [key]: the key '[key]' is unknown; allowed: 'size'."),
    "a name of the root": (Names, {"A": {}}, "A: the name 'A' is not allowed; letters."),
    "inside an alternative": (Document, {"either": ["a", 1]}, "either -> 1: this must be text, not the number 1; put it in quotes."),
    "inside another alternative": (Document, {"either": {"size": "x"}}, "either -> size: this must be a whole number, not text; write a whole number."),
    "no alternative": (Document, {"either": {}}, "either: a mapping like this is not allowed here; a list, or size."),
    "text that is not Unicode": (Document, {"texts": {"a": "\ud800"}}, "texts -> a: this is not valid Unicode; text of at least one character."),
}  # fmt: skip


@pytest.mark.parametrize(("model", "data", "expected"), CASES.values(), ids=CASES)
def test_a_problem_is_located_and_explained(model: type[BaseModel], data: Any, expected: str):
    found, [problem] = validate_data(model, data)

    assert found is None
    assert str(problem) == expected


def test_the_models_are_not_imported_before_a_definition_is_read():
    code = (
        "import sys, deepwork.work.jobs.tools, deepwork.gates.reviews.tools, deepwork.work.templates.tools\n"
        "print('deepwork.kernel.files.definition_models' in sys.modules)"
    )

    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_editors_refuse_a_name_that_does_not_match():
    editor = jsonschema.Draft7Validator(build_schema(Names))

    assert editor.is_valid({"a": {}})
    assert not editor.is_valid({"A": {}})
