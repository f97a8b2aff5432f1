"""One application for everything on the network, behind the guard."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
from fastmcp import FastMCP
from fastmcp.server.http import StarletteWithLifespan
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepwork.access.desk import TokenDesk
from deepwork.dashboard.actions import Invoke
from deepwork.dashboard.api import Api
from deepwork.dashboard.pages import Pages, sign_in_page
from deepwork.dashboard.streams import Streams
from deepwork.database.call import Call
from deepwork.events.hub import Hub
from deepwork.server.application import Application
from deepwork.server.http.guard import Guard
from deepwork.server.http.limits import RateLimit
from deepwork.server.http.metrics import CountRefusals, Metrics
from deepwork.server.http.policy import Policy, is_mcp
from deepwork.server.http.unreadable import AnswerUnreadable
from deepwork.server.invocation import invoke, invoke_async, spoken


@dataclass(frozen=True)
class Doors:
    """What the guard lets through to: the protocol by its paths, everything else by the pages' router."""

    pages: Starlette
    protocol: Starlette | None
    """None where only the dashboard is served."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.protocol is not None and scope["type"] == "http" and is_mcp(scope["path"]):
            await AnswerUnreadable(self.protocol)(scope, receive, send)
        else:
            await self.pages(scope, receive, send)


def application(app: Application, mcp: FastMCP | None, policy: Policy) -> ASGIApp:
    """Everything, guarded."""
    rate = app.settings.rate_limit
    limit = RateLimit(rate, 4 * rate) if rate else None
    return CountRefusals(SignIn(Guard(doors(app, mcp), policy, limit, tokens=TokenDesk(app.database))))


def doors(app: Application, mcp: FastMCP | None) -> Doors:
    """Every address there is; without `mcp`, those of the dashboard."""
    protocol = None if mcp is None else _protocol(app, mcp)
    hub = Hub(app.feed)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with protocol.lifespan(app) if protocol else nullcontext():
            yield
        hub.close()

    read_only = app.settings.read_only
    api = Api(app.database, app.presence, spoken, invoker(app), is_read_only=read_only)
    pages = Pages()
    routes: list[BaseRoute] = [
        Route("/health", _health(pages), methods=["GET"]),
        *api.routes(),
        *Metrics(app.database, app.presence, hub).routes(),
        *Streams(hub).routes(),
        api.missing(),
        *pages.routes(),
    ]
    return Doors(Starlette(routes=routes, lifespan=lifespan), protocol)


def _protocol(app: Application, mcp: FastMCP) -> StarletteWithLifespan:
    if app.settings.transport == "sse":
        return mcp.http_app("/sse", transport="sse")
    return mcp.http_app("/mcp", json_response=True)


def invoker(app: Application) -> Invoke:
    """How the dashboard calls a tool: as every other front door does."""

    async def call_tool(tool: str, given: Mapping[str, Any], call: Call) -> Any:
        spec = app.registry[tool]
        if spec.is_async:
            return await invoke_async(spec, given, call, app.database)
        return await anyio.to_thread.run_sync(lambda: invoke(app.database, spec, given, call))

    return call_tool


def _health(pages: Pages) -> Callable[[Request], Awaitable[Response]]:
    """Whether it lives: for a program in one word, for a person as a view of the page."""

    async def health(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return pages.index(request)
        return JSONResponse({"status": "ok"})

    return health


@dataclass(frozen=True)
class SignIn:
    """Around the guard: a person without a token is told in words where to find it."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_person = scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", "")
        await self.app(scope, receive, _in_words(send) if is_person else send)


def _in_words(send: Send) -> Send:
    """The same output, with a page in place of the error of a missing token."""
    is_refused = False

    async def told(message: Message) -> None:
        nonlocal is_refused
        if message["type"] == "http.response.start" and message["status"] == 401:
            is_refused = True
            kept = [
                pair for pair in message["headers"] if pair[0] not in (b"content-type", b"content-length")
            ]
            page = [(b"content-type", b"text/html; charset=utf-8")]
            message = {**message, "headers": [*kept, *page]}
        elif is_refused and message["type"] == "http.response.body":
            message = {**message, "body": sign_in_page(json.loads(message["body"]))}
        await send(message)

    return told
