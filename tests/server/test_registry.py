from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import make_app
from deepwork.edge.server.registry import OperationSpec, select_tools
from deepwork.kernel.config import load_settings
from deepwork.kernel.errors import DefinitionError, InvalidInput


@pytest.fixture
def registry(tmp_path: Path) -> dict[str, OperationSpec]:
    return make_app(tmp_path, str(tmp_path / "deepwork.db")).registry


def list_names(registry: dict[str, OperationSpec], tmp_path: Path, **flags: Any) -> list[str]:
    return list(select_tools(registry, load_settings(tmp_path, flags, environment={})))


def test_every_tool_is_listed_in_alphabetical_order(registry: dict[str, OperationSpec]):
    assert list(registry) == sorted(registry)
    assert {spec.toolset for spec in registry.values()} >= {"agents", "jobs", "messages", "reviews"}


def test_listing_tools_opens_no_database(tmp_path: Path, registry: dict[str, OperationSpec]):
    assert not (tmp_path / "deepwork.db").exists()


def test_toolsets_tools_exclusions_and_read_only_filter_the_list(
    registry: dict[str, OperationSpec], tmp_path: Path
):
    assert list_names(registry, tmp_path) == list(registry)
    assert all(name.startswith("agent_") for name in list_names(registry, tmp_path, toolsets="agents"))
    assert list_names(registry, tmp_path, tools="agent_get,agent_list") == ["agent_get", "agent_list"]
    assert "agent_get" not in list_names(registry, tmp_path, exclude_tools="agent_get")
    assert list_names(registry, tmp_path, read_only=True, toolsets="agents") == ["agent_get", "agent_list"]


@pytest.mark.parametrize("flags", [{"toolsets": "agent"}, {"tools": "agents_get"}, {"exclude_tools": "x"}])
def test_an_unknown_tool_or_toolset_is_refused_with_a_suggestion(
    registry: dict[str, OperationSpec], tmp_path: Path, flags: dict[str, str]
):
    with pytest.raises(DefinitionError) as refused:
        list_names(registry, tmp_path, **flags)

    assert "agent" in refused.value.suggestion


def test_a_read_only_server_offers_only_tools_that_can_run_without_writing(
    registry: dict[str, OperationSpec], tmp_path: Path
):
    assert "message_get" in list_names(registry, tmp_path, read_only=True)
    assert "message_send" not in list_names(registry, tmp_path, read_only=True)


def test_a_schema_is_small_and_flat(registry: dict[str, OperationSpec]):
    assert registry["agent_update"].input_schema == {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "status": {"type": "string", "enum": ["online", "offline", "busy"]},
            "current_task_id": {"type": ["string", "null"], "description": "null clears it"},
            "workspace_path": {"type": "string"},
            "metadata": {"type": "object", "description": "Merged"},
        },
        "required": ["id"],
    }


def test_no_schema_uses_features_that_some_model_apis_refuse(registry: dict[str, OperationSpec]):
    for spec in registry.values():
        text = str(spec.input_schema)
        assert not any(word in text for word in ("anyOf", "$ref", "$defs", "title"))


def test_every_description_is_one_short_line(registry: dict[str, OperationSpec]):
    for spec in registry.values():
        assert 10 < len(spec.description) <= 300
        assert "\n" not in spec.description


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "`name` is missing. `runtime` is missing."),
        ({"name": "a", "runtime": "codex", "nmae": 1}, "There is no parameter `nmae`. Did you mean `name`?"),
        ({"name": 5, "runtime": "codex"}, "`name` must be a string, not 5."),
        ({"name": "", "runtime": "codex"}, "`name`: string should have at least 1 character, not ''."),
        ({"name": "a", "runtime": "cobol"}, "`runtime` must be 'claude_code', 'codex', 'cursor', 'vscode', 'gemini', 'opencode', 'windsurf', 'zed', 'claude_desktop' or 'custom', not 'cobol'."),
        ({"name": "a", "runtime": "codex", "capabilities": ["x", 3]}, "`capabilities[1]` must be a string, not 3."),
        ({"name": "a", "runtime": "codex", "metadata": "no"}, "`metadata` must be an object, not 'no'."),
        ({"name": None, "runtime": "codex", "capabilities": {"a": True}}, '`name` must be a string, not null. `capabilities` must be a list, not {"a": true}.'),
    ],
)  # fmt: skip
def test_invalid_arguments_are_named_in_the_error(
    registry: dict[str, OperationSpec], given: dict[str, Any], said: str
):
    with pytest.raises(InvalidInput) as refused:
        registry["agent_register"].validate_arguments(given)

    assert refused.value.message == said
    assert "agent_register" in refused.value.suggestion


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("complete_task", {"task_id": "tt_1", "status": "success", "outcome": "done"}, "`outcome` must be an object, not 'done'."),
        ("workflow_set_plan", {"id": "wf_1", "plan": {"summary": "s", "tasks": [1]}}, "`plan.tasks[0]` must be an object, not 1."),
        ("workflow_list", {"limit": 1.5}, "`limit` must be a whole number, not 1.5."),
        ("workflow_list", {"offset": "x"}, "`offset` must be a whole number, not 'x'."),
        ("workflow_get", {"id": "wf_1", "include_tasks": "maybe"}, "`include_tasks` must be true or false, not 'maybe'."),
        ("workflow_get_summary", {"id": "wf_1", "format": "xml"}, "`format` must be 'json' or 'markdown', not 'xml'."),
    ],
)  # fmt: skip
def test_errors_use_the_words_of_json(
    registry: dict[str, OperationSpec], tool: str, given: dict[str, Any], said: str
):
    with pytest.raises(InvalidInput) as refused:
        registry[tool].validate_arguments(given)

    assert refused.value.message == said


def test_many_problems_are_truncated_and_counted(registry: dict[str, OperationSpec]):
    with pytest.raises(InvalidInput, match="And 5 more"):
        registry["agent_get"].validate_arguments({"id": "x"} | {f"p{number}": 1 for number in range(10)})


def test_only_given_arguments_are_passed_on(registry: dict[str, OperationSpec]):
    assert registry["agent_update"].validate_arguments({"id": "ag_1"}) == {"id": "ag_1"}
    assert registry["agent_update"].validate_arguments({"id": "a", "current_task_id": None}) == {
        "id": "a",
        "current_task_id": None,
    }


def test_a_tool_has_an_output_schema(registry: dict[str, OperationSpec]):
    schema = registry["agent_list"].output_schema

    assert schema is not None
    assert set(schema["properties"]) == {"agents", "total"}
