"""The REST interface: addresses under /api/v1 to read from, and a few actions, described by OpenAPI."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from deepwork.agents.presence import Presence
from deepwork.dashboard.actions import Actions, Invoke, call_of
from deepwork.dashboard.addresses import ENDPOINTS, TOOL_ENDPOINTS, Me
from deepwork.dashboard.endpoints import Endpoint, Sight, ToolEndpoint
from deepwork.dashboard.failures import WrongForm, failure, require_method
from deepwork.dashboard.health import status
from deepwork.dashboard.openapi import openapi
from deepwork.database.transaction import Database
from deepwork.errors import InvalidInput
from deepwork.events.log import EventStore
from deepwork.shapes import check_input

Speak = Callable[[Exception, str], dict[str, Any]]
Answering = Callable[[Request], Awaitable[Response]]

LARGE = 2048
"""Answers of so many bytes are compressed for whoever takes them so."""
QUICK = 1
"""How hard: most of what there is to gain, in a tenth of the time."""
MOMENT_MS = 5000
"""For so long an answer that depends on the time counts as the same."""

_ANY = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True)
class _Read:
    """An answer as it goes over the wire; None where the caller has it already."""

    body: bytes | None
    tag: str


class Api:
    """The addresses, over one database."""

    def __init__(
        self,
        database: Database,
        presence: Presence,
        spoken: Speak,
        invoke: Invoke,
        *,
        is_read_only: bool = False,
    ) -> None:
        """`spoken` puts an error into the form that every client sees; `invoke` calls a tool."""
        self._database, self._presence, self._spoken = database, presence, spoken
        self._invoke = invoke
        self._actions = Actions(database, invoke, is_read_only=is_read_only)
        self._started_at = int(time.time() * 1000)

    def routes(self) -> list[BaseRoute]:
        own = {
            "/api/v1/openapi.json": self._describe,
            "/api/v1/status": self._status,
            "/api/v1/me": self._me,
        }
        return [
            *(self._route(path, answering) for path, answering in own.items()),
            *(self._route(each.pattern, self._from_tool(each)) for each in TOOL_ENDPOINTS),
            *(self._route(each.pattern, self._reader(each)) for each in ENDPOINTS),
            Route("/api/v1/actions/{tool}", self._answered(self._act), methods=_ANY),
        ]

    def missing(self) -> BaseRoute:
        """What stands behind all addresses: the answer to whoever asks for another."""
        return Route("/api/{rest:path}", self._answered(self._nowhere), methods=_ANY)

    def _route(self, path: str, answering: Answering) -> Route:
        compressed = Middleware(GZipMiddleware, minimum_size=LARGE, compresslevel=QUICK)

        async def read(request: Request) -> Response:
            require_method(request, "GET", "HEAD")
            return await answering(request)

        return Route(path, self._answered(read), methods=_ANY, middleware=[compressed])

    def _answered(self, answering: Answering) -> Answering:
        """The same, with errors in the form of every other one."""

        async def answer(request: Request) -> Response:
            try:
                return await answering(request)
            except Exception as error:  # noqa: BLE001 - whatever went wrong, the caller gets one form of error
                return failure(error, self._spoken(error, request.url.path))

        return answer

    def _reader(self, endpoint: Endpoint) -> Answering:
        async def read(request: Request) -> Response:
            query = _query(endpoint.query, request)
            known = request.headers.get("if-none-match", "")
            path = dict(request.path_params)
            found = await anyio.to_thread.run_sync(self._read, endpoint, path, query, known)
            return _response(found)

        return read

    def _read(self, endpoint: Endpoint, path: dict[str, str], query: BaseModel, known: str) -> _Read:
        with self._database.reading() as tx:
            moment = 0 if endpoint.follows_events else tx.now // MOMENT_MS
            tag = f'W/"{EventStore(tx).last()}-{moment}-{self._started_at}"'
            if tag in known:
                return _Read(None, tag)
            answer = endpoint.read(Sight(tx, self._presence, path), query)
        return _Read(_bytes(answer), tag)

    def _from_tool(self, endpoint: ToolEndpoint) -> Answering:
        async def read(request: Request) -> Response:
            query = _query(endpoint.query, request)
            given = endpoint.arguments(request.path_params, query)
            seq = await anyio.to_thread.run_sync(self._last_seq)
            answer = await self._invoke(endpoint.tool, given, call_of(request, endpoint.tool))
            # Files are part of the answer, so nobody can tell by the events whether it is still the same.
            return _response(_Read(_bytes(answer), f'W/"{seq}-{time.time_ns()}"'))

        return read

    def _last_seq(self) -> int:
        with self._database.reading() as tx:
            return EventStore(tx).last()

    async def _act(self, request: Request) -> Response:
        return JSONResponse(await self._actions.carry_out(request))

    async def _describe(self, _: Request) -> Response:
        return JSONResponse(openapi())

    async def _status(self, _: Request) -> Response:
        found = await anyio.to_thread.run_sync(status, self._database, self._started_at)
        return _response(_Read(_bytes(found), f'W/"{found.events.last_seq}-{time.time_ns()}"'))

    async def _me(self, request: Request) -> Response:
        me = Me(
            name=request.scope.get("deepwork.principal") or "local",
            scope=str(request.scope["deepwork.scope"]),
        )
        return JSONResponse(me.model_dump(mode="json"))

    async def _nowhere(self, request: Request) -> Response:
        raise WrongForm(404, f"There is no address {request.url.path[:200]!r}.", "See /api/v1/openapi.json.")


def _response(found: _Read) -> Response:
    if found.body is None:
        return Response(status_code=304, headers={"ETag": found.tag})
    return Response(found.body, media_type="application/json", headers={"ETag": found.tag})


def _bytes(answer: BaseModel | Mapping[str, Any]) -> bytes:
    # A third of the time that `json` takes, which counts where there are 10,000 rows.
    return to_json(answer)


def _query(model: type[BaseModel], request: Request) -> BaseModel:
    check_input(dict(request.query_params) | request.path_params)
    try:
        return model.model_validate(dict(request.query_params))
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False)
        name = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"`{name}`: {first['msg'][0].lower()}{first['msg'][1:]}.") from None
