"""Writes the descriptions of all tools that servers and commands load instead of importing the tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))


from scripts.json_lines import render_json

from deepwork.edge.server.application import OPERATION_CLASSES
from deepwork.edge.server.prepared_tools import SCHEMAS_FILE, TOOLS_FILE, compute_checksum
from deepwork.edge.server.registry import OperationSpec, import_class, list_specs
from deepwork.edge.server.tool_models import describe_parameters


def build_tools() -> dict[str, Any]:
    """Describe the classes of tools, without schemas."""
    return {
        "checksum": compute_checksum(),
        "classes": {path: _describe_class(path) for path in OPERATION_CLASSES},
    }


def build_schemas() -> dict[str, Any]:
    """Build the schemas of all tools, by class."""
    return {
        path: {spec.name: _build_schemas(spec) for spec in list_specs(import_class(path))}
        for path in OPERATION_CLASSES
    }


def render(data: dict[str, Any]) -> str:
    """Render JSON with one line for each tool, so that changes are easy to review."""
    values = json.loads(json.dumps(data, default=sorted))
    return render_json(values, _DEPTH_OF_TOOLS if "classes" in data else _DEPTH_OF_TOOLS - 2)


_DEPTH_OF_TOOLS = 4


def _describe_class(path: str) -> dict[str, Any]:
    tools = import_class(path)
    specs = list_specs(tools)
    return {
        "traits": _drop_defaults(tools.traits),
        "tools": {spec.name: _describe_tool(spec) for spec in specs},
    }


def _describe_tool(spec: OperationSpec) -> dict[str, Any]:
    described: dict[str, Any] = {
        "declaration": _drop_defaults(spec.declaration),
        "description": spec.description,
        "parameters": describe_parameters(spec.parameters),
    }
    return described | ({"ends_in_transaction": True} if spec.ends_in_transaction else {})


def _build_schemas(spec: OperationSpec) -> dict[str, Any]:
    output = {} if spec.output_schema is None else {"output": spec.output_schema}
    return {"input": spec.input_schema, **output}


def _drop_defaults(value: Any) -> dict[str, Any]:
    """Return the fields of a named tuple that differ from their defaults, those of its fields included."""
    given = {
        name: each for name, each in value._asdict().items() if each != value._field_defaults.get(name, ...)
    }
    return {name: _to_json(each) for name, each in given.items()}


def _to_json(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return _drop_defaults(value)
    return {key: _to_json(each) for key, each in value.items()} if isinstance(value, dict) else value


if __name__ == "__main__":
    TOOLS_FILE.parent.mkdir(exist_ok=True)
    TOOLS_FILE.write_text(render(build_tools()), encoding="utf-8")
    SCHEMAS_FILE.write_text(render(build_schemas()), encoding="utf-8")
