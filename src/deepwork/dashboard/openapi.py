"""What can be asked, for programs that read OpenAPI."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from deepwork import __version__
from deepwork.dashboard.actions import ALLOWED
from deepwork.dashboard.addresses import ENDPOINTS, OWN, TOOL_ENDPOINTS
from deepwork.dashboard.endpoints import Nothing

_ERRORS = {
    status: {"description": meaning}
    for status, meaning in {"400": "bad parameters", "401": "no token", "404": "no such thing"}.items()
}
_ACTION_ERRORS = {
    **_ERRORS,
    **{
        status: {"description": meaning}
        for status, meaning in {
            "403": "the token does not cover it", "409": "its state forbids it", "415": "no JSON",
        }.items()
    },
}  # fmt: skip
_EVENTS: dict[str, Any] = {
    "summary": "Events as they happen, as server-sent events.",
    "parameters": [
        {"name": name, "in": "query", "required": False, "schema": {"type": kind}}
        for name, kind in (("since", "integer"), ("workflow_id", "string"))
    ],
    "responses": {"200": {"description": "a stream", "content": {"text/event-stream": {}}}, **_ERRORS},
}
_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}


def openapi() -> dict[str, Any]:
    """The whole interface."""
    definitions: dict[str, Any] = {}
    asked: list[tuple[str, str, type[BaseModel], type[BaseModel] | None]] = [
        *((each.path, each.summary, each.query, each.answer) for each in ENDPOINTS),
        *((each.path, each.summary, each.query, None) for each in TOOL_ENDPOINTS),
        *((path, summary, Nothing, answer) for path, (summary, answer) in OWN.items()),
    ]
    paths: dict[str, Any] = {
        path: {"get": _operation(path, summary, query, answer, definitions)}
        for path, summary, query, answer in asked
    }
    paths["/api/v1/events"] = {"get": _EVENTS}
    paths["/api/v1/actions/{tool}"] = {"post": _action()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "deepwork", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _action() -> dict[str, Any]:
    tool = {"name": "tool", "in": "path", "required": True, "schema": {"enum": sorted(ALLOWED)}}
    key = {"name": "Idempotency-Key", "in": "header", "required": False, "schema": {"type": "string"}}
    anything = {"application/json": {"schema": {"type": "object"}}}
    return {
        "summary": "Do something by one of the tools, as a person; the body holds the tool's arguments.",
        "parameters": [tool, key],
        "requestBody": {"required": True, "content": anything},
        "responses": {"200": {"description": "the tool's answer", "content": anything}, **_ACTION_ERRORS},
    }


def _operation(
    path: str,
    summary: str,
    query: type[BaseModel],
    answer: type[BaseModel] | None,
    definitions: dict[str, Any],
) -> dict[str, Any]:
    wanted = _schema(query, definitions)
    required = wanted.get("required", [])
    in_query = [
        {"name": name, "in": "query", "required": name in required, "schema": shape}
        for name, shape in wanted.get("properties", {}).items()
    ]
    shown = {"type": "object"} if answer is None else _schema(answer, definitions)
    found = {"description": "found", "content": {"application/json": {"schema": shown}}}
    unchanged = {"description": "nothing has changed since If-None-Match"}
    return {
        "summary": summary,
        "parameters": ([_ID] if "{id}" in path else []) + in_query,
        "responses": {"200": found, "304": unchanged, **_ERRORS},
    }


def _schema(model: type[BaseModel], definitions: dict[str, Any]) -> dict[str, Any]:
    """A model's schema, with the parts it refers to moved to where all can find them."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    definitions.update(schema.pop("$defs", {}))
    return schema
