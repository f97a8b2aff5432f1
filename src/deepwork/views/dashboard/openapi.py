"""Builds the OpenAPI description of the REST API."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel

from deepwork import __version__
from deepwork.kernel.answers import Answer, build_model
from deepwork.views.dashboard.actions import ACTIONS_BY_PATH
from deepwork.views.dashboard.endpoint_registry import ROUTES, SERVER_ENDPOINTS, Operation, OperationRoute

_ERROR_RESPONSES = {
    status: {"description": meaning}
    for status, meaning in {"400": "bad parameters", "401": "no token", "404": "not found"}.items()
}
_ACTION_ERROR_RESPONSES = {
    **_ERROR_RESPONSES,
    **{
        status: {"description": meaning}
        for status, meaning in {
            "403": "the token is not a person's, or its scope is too small",
            "409": "not allowed in this state",
            "415": "not JSON",
        }.items()
    },
}
_EVENTS_OPERATION: dict[str, Any] = {
    "summary": "New events, as server-sent events.",
    "parameters": [
        {"name": name, "in": "query", "required": False, "schema": {"type": kind}}
        for name, kind in (("since", "integer"), ("workflow_id", "string"))
    ],
    "responses": {
        "200": {"description": "a stream", "content": {"text/event-stream": {}}},
        **_ERROR_RESPONSES,
    },
}
_ID_PARAMETER = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}


def build_openapi(actions: list[str], operations: Mapping[str, Operation]) -> dict[str, Any]:
    """Build the OpenAPI document."""
    definitions: dict[str, Any] = {}
    paths: dict[str, Any] = {
        path: {"get": _build_operation(path, summary, None, answer, definitions)}
        for path, (summary, answer) in SERVER_ENDPOINTS.items()
    }
    paths |= {
        route.path: {"get": _describe_route(route, operations[route.operation], definitions)}
        for route in ROUTES
    }
    paths["/api/v1/events"] = {"get": _EVENTS_OPERATION}
    if actions:
        paths["/api/v1/actions/{tool}"] = {"post": _build_action_operation(actions)}
    for path, (_, offered) in ACTIONS_BY_PATH.items():
        if verbs := [verb for verb, action in offered.items() if action in actions]:
            paths[path] = {"post": _build_verb_operation(path, verbs)}
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


def _build_action_operation(actions: list[str]) -> dict[str, Any]:
    tool = {"name": "tool", "in": "path", "required": True, "schema": {"enum": actions}}
    summary = "Call a tool, with a person's token; the body holds the tool's arguments."
    return _build_post_operation(summary, [tool], {"type": "object"})


def _build_verb_operation(path: str, verbs: list[str]) -> dict[str, Any]:
    verb = {"name": "verb", "in": "path", "required": True, "schema": {"enum": verbs}}
    summary, fields = _VERBS[path]
    properties = {name: {"type": kind} for name, kind in fields.items()}
    return _build_post_operation(summary, [_ID_PARAMETER, verb], {"type": "object", "properties": properties})


_VERBS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "/api/v1/sessions/{id}/{verb}": (
        (
            "Decide about the step at its quality gate: `pass` (with `comment`), `send-back` (with `text`) "
            "or `grant-round`; refused unless `step_id`, if given, is current."
        ),
        {"comment": "string", "text": "string", "step_id": "string"},
    ),
    "/api/v1/approvals/{id}/{verb}": (
        "`approve` or `refuse` what waits for a person; `refuse` needs a `comment`.",
        {"comment": "string"},
    ),
    "/api/v1/runner/runs/{id}/{verb}": (
        "`pause`, `resume` or `stop` a run of agents; `stop` with `now` also ends those that work.",
        {"now": "boolean"},
    ),
    "/api/v1/runner/attempts/{id}/{verb}": (
        "`pause` an agent, `take` its session over in a terminal, let it `continue`, or `stop` it.",
        {},
    ),
    "/api/v1/rewinds/{id}/{verb}": ("`undo` a rewind.", {}),
    "/api/v1/landings/{id}/{verb}": ("`cancel` a landing that waits for somebody.", {}),
}
"""By path, what its verbs do, and the fields of the body."""


def _build_post_operation(
    summary: str, parameters: list[dict[str, Any]], body: dict[str, Any]
) -> dict[str, Any]:
    key = {"name": "Idempotency-Key", "in": "header", "required": False, "schema": {"type": "string"}}
    anything = {"application/json": {"schema": {"type": "object"}}}
    return {
        "summary": summary,
        "parameters": [*parameters, key],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {
            "200": {"description": "the tool's answer", "content": anything},
            **_ACTION_ERROR_RESPONSES,
        },
    }


def _describe_route(
    route: OperationRoute, operation: Operation, definitions: dict[str, Any]
) -> dict[str, Any]:
    about = operation.description, operation.parameters, operation.answer_type
    return _build_operation(route.path, *about, definitions, route.path_arguments)


def _build_operation(
    path: str,
    summary: str,
    query: type[BaseModel] | None,
    answer: type[BaseModel | Answer],
    definitions: dict[str, Any],
    in_path: Collection[str] = (),
) -> dict[str, Any]:
    query_schema = _build_schema(query, definitions) if query else {}
    required = query_schema.get("required", [])
    in_query = [
        {"name": name, "in": "query", "required": name in required, "schema": shape}
        for name, shape in query_schema.get("properties", {}).items()
        if name not in in_path
    ]
    answer_schema = _build_schema(answer, definitions)
    found = {"description": "found", "content": {"application/json": {"schema": answer_schema}}}
    unchanged = {"description": "unchanged since If-None-Match"}
    return {
        "summary": summary,
        "parameters": ([_ID_PARAMETER] if "{id}" in path else []) + in_query,
        "responses": {"200": found, "304": unchanged, **_ERROR_RESPONSES},
    }


def _build_schema(kind: type[BaseModel | Answer], definitions: dict[str, Any]) -> dict[str, Any]:
    """Build a model's schema and move the models it refers to into `definitions`."""
    model = build_model(kind) if issubclass(kind, Answer) else kind
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    definitions.update(schema.pop("$defs", {}))
    return schema
