from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from scripts.prepared_tools import build_schemas, build_tools, render

from application import make_app
from deepwork.edge.cli.plan_file import add_plan
from deepwork.edge.server import prepared_tools, registry
from deepwork.edge.server.application import OPERATION_CLASSES, Application
from deepwork.edge.server.invocation import invoke
from deepwork.edge.server.registry import OperationSpec, describe_class, import_class, list_specs
from deepwork.kernel.call import Call
from deepwork.kernel.config import load_settings


def describe(spec: OperationSpec) -> tuple[object, ...]:
    return (
        spec.name,
        spec.toolset,
        spec.declaration,
        spec.one_transaction,
        spec.description,
        spec.parameter_names,
        spec.input_schema,
        spec.output_schema,
        spec.ends_in_transaction,
    )


def test_the_prepared_descriptions_match_the_code():
    assert prepared_tools.TOOLS_FILE.read_text() == render(build_tools()), "run `make docs`"
    assert prepared_tools.SCHEMAS_FILE.read_text() == render(build_schemas()), "run `make docs`"


@pytest.mark.parametrize("path", OPERATION_CLASSES)
def test_a_prepared_class_equals_one_that_is_computed(path: str):
    described, tools = describe_class(path), import_class(path)

    assert all(spec.prepared for spec in described.specs)
    assert described.traits == tools.traits
    assert list(map(describe, described.specs)) == list(map(describe, list_specs(tools)))


@pytest.fixture
def outdated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the prepared descriptions be those of other sources."""
    outdated = json.loads(prepared_tools.TOOLS_FILE.read_text()) | {"checksum": -1}
    (tmp_path / "tools.json").write_text(json.dumps(outdated))
    monkeypatch.setattr(prepared_tools, "TOOLS_FILE", tmp_path / "tools.json")
    prepared_tools._load_tools.cache_clear()
    registry.describe_class.cache_clear()
    yield
    prepared_tools._load_tools.cache_clear()
    registry.describe_class.cache_clear()


@pytest.mark.usefixtures("outdated")
def test_after_an_edit_of_the_sources_descriptions_are_computed(tmp_path: Path):
    app = make_app(tmp_path, str(tmp_path / "deepwork.db"))
    spec = app.registry["agent_list"]

    assert spec.prepared is None
    assert spec.input_schema["properties"]["limit"]["maximum"] == 1000
    assert spec.validate_arguments({"limit": 5}) == {"limit": 5}


@pytest.mark.usefixtures("outdated")
def test_after_an_edit_of_the_sources_a_plan_can_be_created_from_a_file(tmp_path: Path):
    app = make_app(tmp_path, str(tmp_path / "deepwork.db"))
    plan = {"summary": "s", "tasks": [{"name": "one", "description": ""}]}
    spec = add_plan(app, app.registry["workflow_create"], plan)
    given = {"name": "Move", "source_type": "prompt", "source_content": "Move it"}

    assert invoke(app.database, spec, given, Call(tool=spec.name))["status"] == "ready"


def test_a_tool_is_imported_when_it_is_called(tmp_path: Path):
    app = Application(replace(load_settings(tmp_path), toolsets=("all",)))

    assert "method" not in app.registry["agent_list"].__dict__
    assert app.registry["agent_list"].method().total == 0
    app.close()
