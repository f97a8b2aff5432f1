"""The REST API under /api/v1: read endpoints, a few actions, and their OpenAPI description."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import anyio.to_thread
from pydantic_core import to_json
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from deepwork.gates.access.models import Scope
from deepwork.kernel.call import Call
from deepwork.kernel.database.transaction import Database, Transaction, join_transaction
from deepwork.kernel.errors import Code, InvalidArguments, NotAllowed
from deepwork.kernel.events.log import EventStore
from deepwork.kernel.records import dataclass
from deepwork.views.dashboard.actions import (
    ACTIONS_BY_PATH,
    ActionExecutor,
    InvokeTool,
    ListActions,
    build_call,
)
from deepwork.views.dashboard.endpoint_registry import ROUTES, Me, OperationRoute, Operations
from deepwork.views.dashboard.health import read_server_status
from deepwork.views.dashboard.http_errors import HttpError, error_to_response, require_method
from deepwork.views.dashboard.openapi import build_openapi

ErrorToDict = Callable[[Exception, str], dict[str, Any]]
Handler = Callable[[Request], Awaitable[Response]]
CallOperation = Callable[[str, Mapping[str, Any], Call], Any]
"""Calls an operation by name in this thread, and returns its answer as JSON values."""

MIN_COMPRESSED_BYTES = 2048
"""Shorter answers are not compressed."""
COMPRESSION_LEVEL = 1
"""Level 1 of gzip saves most of the bytes in a tenth of the time of the default."""
TAG_PERIOD_MS = 5000
"""Time-dependent answers keep their ETag for this long."""

_ALL_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True)
class _TaggedBody:
    """A serialized answer with its ETag; `body` is None if the client already has it."""

    body: bytes | None
    tag: str


class RestApi:
    """Builds the routes of the REST API."""

    def __init__(
        self,
        database: Database,
        error_to_dict: ErrorToDict,
        invoke: InvokeTool,
        list_actions: ListActions,
        *,
        operations: Operations,
        call: CallOperation,
        is_read_only: bool = False,
    ) -> None:
        """`error_to_dict` formats an error as every client sees it; `invoke` calls in another thread."""
        self._operations, self._call = operations, call
        self._database, self._error_to_dict = database, error_to_dict
        self._invoke, self._list_actions = invoke, list_actions
        self._actions = ActionExecutor(invoke, list_actions, is_read_only=is_read_only)
        self._started_at = int(time.time() * 1000)

    def build_routes(self) -> list[BaseRoute]:
        own = {
            "/api/v1/openapi.json": self._handle_openapi,
            "/api/v1/status": self._handle_status,
            "/api/v1/me": self._handle_me,
        }
        return [
            *(self._build_route(path, answering) for path, answering in own.items()),
            *(self._build_route(each.pattern, self._create_handler(each)) for each in ROUTES),
            self._build_action_route("/api/v1/actions/{tool}", self._actions.execute),
            *(
                self._build_action_route(
                    path, partial(self._actions.execute_on, thing=thing, actions=actions)
                )
                for path, (thing, actions) in ACTIONS_BY_PATH.items()
            ),
        ]

    def build_not_found_route(self) -> BaseRoute:
        """Build the route that answers 404 for unknown paths; it must come after all others."""
        return Route(
            "/api/{rest:path}", self._with_error_handling(self._handle_unknown_path), methods=_ALL_METHODS
        )

    def _build_route(self, path: str, handler: Handler) -> Route:
        compressed = Middleware(
            GZipMiddleware, minimum_size=MIN_COMPRESSED_BYTES, compresslevel=COMPRESSION_LEVEL
        )

        async def read(request: Request) -> Response:
            require_method(request, "GET", "HEAD")
            return await handler(request)

        return Route(path, self._with_error_handling(read), methods=_ALL_METHODS, middleware=[compressed])

    def _build_action_route(self, path: str, execute: Callable[[Request], Awaitable[Any]]) -> Route:
        async def act(request: Request) -> Response:
            return JSONResponse(await execute(request))

        return Route(path, self._with_error_handling(act), methods=_ALL_METHODS)

    def _with_error_handling(self, handler: Handler) -> Handler:
        """Wrap a handler so that every exception becomes an error response."""

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except Exception as error:  # noqa: BLE001 - clients get the same error format for every exception
                return error_to_response(error, self._error_to_dict(error, request.url.path))

        return answer

    def _create_handler(self, route: OperationRoute) -> Handler:
        async def read(request: Request) -> Response:
            operation = self._operations()[route.operation]
            _require_scope(request, Scope(operation.declaration.scope))
            path = {route.renamed.get(name, name): value for name, value in request.path_params.items()}
            given, call = {**request.query_params, **path}, build_call(request, route.operation)
            try:
                if route.reads_files:
                    return _to_response(await self._call_outside_transaction(route, given, call))
                known = request.headers.get("if-none-match", "")
                found = await anyio.to_thread.run_sync(self._call_in_transaction, route, given, call, known)
            except InvalidArguments as error:  # it names the operation, which is not what the client called
                raise HttpError(400, error.message, "See /api/v1/openapi.json.") from None
            return _to_response(found)

        return read

    def _call_in_transaction(
        self, route: OperationRoute, given: Mapping[str, Any], call: Call, known: str
    ) -> _TaggedBody:
        """Call an operation in the transaction that its ETag belongs to."""
        with self._database.reading() as tx, join_transaction(tx):
            tag = self._build_tag(tx, follows_events=route.follows_events)
            if tag in known:
                return _TaggedBody(None, tag)
            answer = self._call(route.operation, given, call)
        return _TaggedBody(to_json(answer), tag)

    async def _call_outside_transaction(
        self, route: OperationRoute, given: Mapping[str, Any], call: Call
    ) -> _TaggedBody:
        seq = await anyio.to_thread.run_sync(self._get_last_seq)
        answer = await self._invoke(route.operation, given, call)
        # Events do not cover files, so the ETag never matches.
        return _TaggedBody(to_json(answer), f'W/"{seq}-{time.time_ns()}"')

    def _build_tag(self, tx: Transaction, *, follows_events: bool) -> str:
        moment = 0 if follows_events else tx.now // TAG_PERIOD_MS
        return f'W/"{EventStore(tx).get_last_seq()}-{moment}-{self._started_at}"'

    def _get_last_seq(self) -> int:
        with self._database.reading() as tx:
            return EventStore(tx).get_last_seq()

    async def _handle_openapi(self, _: Request) -> Response:
        return JSONResponse(build_openapi(self._list_actions(), self._operations()))

    async def _handle_status(self, _: Request) -> Response:
        found = await anyio.to_thread.run_sync(read_server_status, self._database, self._started_at)
        return _to_response(
            _TaggedBody(to_json(found.model_dump()), f'W/"{found.events.last_seq}-{time.time_ns()}"')
        )

    async def _handle_me(self, request: Request) -> Response:
        is_person = request.scope["deepwork.is_person"]
        me = Me(
            name=request.scope.get("deepwork.principal") or "local",
            scope=str(request.scope["deepwork.scope"]),
            is_person=is_person,
            actions=self._list_actions() if is_person else [],
        )
        return JSONResponse(me.model_dump())

    async def _handle_unknown_path(self, request: Request) -> Response:
        raise HttpError(404, f"Unknown path {request.url.path[:200]!r}.", "See /api/v1/openapi.json.")


def _to_response(found: _TaggedBody) -> Response:
    if found.body is None:
        return Response(status_code=304, headers={"ETag": found.tag})
    return Response(found.body, media_type="application/json", headers={"ETag": found.tag})


def _require_scope(request: Request, needed: Scope) -> None:
    if not Scope(request.scope["deepwork.scope"]).covers(needed):
        raise NotAllowed(
            f"This needs the scope {needed}.",
            code=Code.UNAUTHORIZED,
            suggestion="Ask the owner of this server for a token with that scope.",
        )
