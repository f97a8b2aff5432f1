"""The REST interface: read-only addresses under /api/v1, described by OpenAPI."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from deepwork import __version__
from deepwork.agents.presence import Presence
from deepwork.dashboard.queries import ENDPOINTS, Endpoint
from deepwork.database.transaction import Database
from deepwork.errors import Code, DeepworkError, InvalidInput, NotFound
from deepwork.shapes import check_input

Speak = Callable[[Exception, str], dict[str, Any]]


class Api:
    """The addresses, over one database."""

    def __init__(self, database: Database, presence: Presence, spoken: Speak) -> None:
        """`spoken` puts an error into the form that every client sees."""
        self._database, self._presence, self._spoken = database, presence, spoken

    def routes(self) -> list[Route]:
        described = Route("/api/v1/openapi.json", self._describe, methods=["GET"])
        return [described, *(Route(each.path, self._reader(each), methods=["GET"]) for each in ENDPOINTS)]

    def _reader(self, endpoint: Endpoint) -> Callable[[Request], Any]:
        async def read(request: Request) -> Response:
            try:
                query = _query(endpoint.query, request)
                answer = await asyncio.to_thread(self._read, endpoint, dict(request.path_params), query)
            except Exception as error:  # noqa: BLE001 - whatever went wrong, the caller gets one form of error
                return failure(error, self._spoken(error, request.url.path))
            return JSONResponse(answer)

        return read

    def _read(self, endpoint: Endpoint, path: dict[str, str], query: BaseModel) -> Any:
        with self._database.reading() as tx:
            return endpoint.read(tx, self._presence, path, query).model_dump(mode="json")

    async def _describe(self, _: Request) -> Response:
        return JSONResponse(openapi())


def failure(error: Exception, spoken: dict[str, Any]) -> Response:
    """An error as an HTTP answer."""
    return JSONResponse(spoken, status_code=_status(error))


def openapi() -> dict[str, Any]:
    """What can be asked, for programs that read OpenAPI."""
    definitions: dict[str, Any] = {}
    paths = {each.path: {"get": _operation(each, definitions)} for each in ENDPOINTS}
    paths["/api/v1/events"] = {"get": _EVENTS}
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


_ERRORS = {
    status: {"description": meaning}
    for status, meaning in {"400": "bad parameters", "401": "no token", "404": "no such thing"}.items()
}
_EVENTS: dict[str, Any] = {
    "summary": "Events as they happen, as server-sent events.",
    "parameters": [
        {"name": name, "in": "query", "required": False, "schema": {"type": kind}}
        for name, kind in (("since", "integer"), ("workflow_id", "string"))
    ],
    "responses": {"200": {"description": "a stream", "content": {"text/event-stream": {}}}, **_ERRORS},
}


def _operation(endpoint: Endpoint, definitions: dict[str, Any]) -> dict[str, Any]:
    query = _schema(endpoint.query, definitions)
    required = query.get("required", [])
    in_query = [
        {"name": name, "in": "query", "required": name in required, "schema": shape}
        for name, shape in query.get("properties", {}).items()
    ]
    in_path = [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]
    answer = _schema(endpoint.answer, definitions)
    found = {"description": "found", "content": {"application/json": {"schema": answer}}}
    return {
        "summary": endpoint.summary,
        "parameters": (in_path if "{id}" in endpoint.path else []) + in_query,
        "responses": {"200": found, **_ERRORS},
    }


def _schema(model: type[BaseModel], definitions: dict[str, Any]) -> dict[str, Any]:
    """A model's schema, with the parts it refers to moved to where all can find them."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    definitions.update(schema.pop("$defs", {}))
    return schema


def _query(model: type[BaseModel], request: Request) -> BaseModel:
    check_input(dict(request.query_params) | request.path_params)
    try:
        return model.model_validate(dict(request.query_params))
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False)
        name = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"`{name}`: {first['msg'][0].lower()}{first['msg'][1:]}.") from None


def _status(error: Exception) -> int:
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, DeepworkError):
        return {Code.STORAGE_ERROR: 503, Code.STORAGE_FULL: 503, Code.UNAUTHORIZED: 403}.get(error.code, 400)
    return 500
