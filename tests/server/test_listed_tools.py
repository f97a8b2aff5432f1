"""What tools/list sends: nothing that repeats a name or a default, and which kind of workflow is meant."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from application import make_app
from deepwork.edge.server.mcp_service import McpService
from deepwork.edge.server.schemas import shorten_schema


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpService]:
    folder: Path = tmp_path_factory.mktemp("listed")
    app = make_app(folder, str(folder / "deepwork.db"))
    yield McpService(app)
    app.close()


def list_tools(service: McpService) -> list[dict[str, Any]]:
    return [service.describe_tool(spec) for spec in service.tools.values()]


def test_no_tool_has_a_title_that_repeats_its_name(service: McpService):
    assert not [tool["name"] for tool in list_tools(service) if "title" in tool]


def test_no_annotation_repeats_a_default(service: McpService):
    defaults = {
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    }

    for tool in list_tools(service):
        assert not tool["annotations"].items() & defaults.items(), tool["name"]


@pytest.mark.parametrize(
    ("name", "annotations"),
    [
        ("task_get", {"readOnlyHint": True, "openWorldHint": False}),
        ("task_claim", {"destructiveHint": False, "idempotentHint": True, "openWorldHint": False}),
        ("message_send", {"destructiveHint": False, "openWorldHint": False}),
        ("workflow_replan", {"openWorldHint": False}),
    ],
)
def test_annotations_say_what_is_not_the_default(
    service: McpService, name: str, annotations: dict[str, bool]
):
    assert service.describe_tool(service.tools[name])["annotations"] == annotations


def test_the_first_word_says_which_kind_of_workflow_is_meant(service: McpService):
    words = {"jobs": "Job:", "plans": "Plan:", "tracking": "Track:"}

    for spec in service.tools.values():
        first = service.describe_tool(spec)["description"].split()[0]
        assert first == words.get(spec.toolset, first), spec.name


def test_a_listed_schema_leaves_out_what_a_model_assumes_anyway():
    schema = {
        "properties": {
            "quiet": {"default": False, "type": "boolean"},
            "loud": {"default": True, "type": "boolean"},
            "limit": {"default": 20, "minimum": 1, "maximum": 200, "type": "integer"},
            "default": {"default": "", "maximum": 1_000_000, "type": "string"},
        },
        "type": "object",
    }

    assert shorten_schema(schema)["properties"] == {
        "quiet": {"type": "boolean"},
        "loud": {"default": True, "type": "boolean"},
        "limit": {"default": 20, "maximum": 200, "type": "integer"},
        "default": {"type": "string"},
    }


def test_a_tool_that_repeats_a_model_lists_its_keys_without_descriptions():
    task = {
        "properties": {
            "name": {"type": "string"},
            "sequence": {"default": 1, "description": "Equal ones run in parallel", "type": "integer"},
            "checks": {"items": {"type": "string"}, "type": "array"},
        },
        "required": ["name"],
    }
    schema = {"properties": {"checks": {"type": "string"}, "tasks": {"description": "All", "items": task}}}

    assert shorten_schema(schema, unlisted=["checks"])["properties"] == {
        "checks": {"type": "string"},
        "tasks": {
            "description": "All",
            "items": {
                "properties": {"name": {"type": "string"}, "sequence": {"type": "integer"}},
                "required": ["name"],
            },
        },
    }


def test_a_key_that_one_tool_leaves_out_is_listed_by_another(service: McpService):
    texts = {spec.name: json.dumps(spec.listed_schema) for spec in service.tools.values()}

    for spec in service.tools.values():
        for name in spec.declaration.unlisted or ():
            assert f'"{name}": ' not in texts[spec.name]
            assert any(f'"{name}": ' in text for text in texts.values())


def test_listed_schemas_name_the_same_parameters(service: McpService):
    for spec in service.tools.values():
        assert spec.listed_schema["properties"].keys() == spec.input_schema["properties"].keys()
        assert spec.listed_schema.get("required") == spec.input_schema.get("required")
        assert len(json.dumps(spec.listed_schema)) <= len(json.dumps(spec.input_schema))
