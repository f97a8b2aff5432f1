"""Builds the ASGI application: guard, MCP, REST, events, metrics and dashboard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepwork.edge.server.application import Application
from deepwork.edge.server.http.guard import TOO_LARGE, Guard, send_refusal
from deepwork.edge.server.http.limits import RateLimit
from deepwork.edge.server.http.metrics import MetricsEndpoint, RefusalCounterMiddleware
from deepwork.edge.server.http.policy import AccessPolicy, is_mcp_path
from deepwork.edge.server.invocation import error_to_dict, invoke
from deepwork.edge.server.registry import OperationSpec
from deepwork.edge.server.threads import invoke_in_thread
from deepwork.edge.server.toolsets import select_tools
from deepwork.gates.access.token_cache import TokenCache
from deepwork.kernel.call import Call
from deepwork.kernel.events.hub import EventHub
from deepwork.kernel.events.store_watch import StoreWatch
from deepwork.kernel.protocol.handler import MessageHandler
from deepwork.kernel.protocol.transports.http import StreamableHttp
from deepwork.kernel.protocol.transports.sse import SseTransport
from deepwork.views.dashboard.actions import InvokeTool
from deepwork.views.dashboard.api import RestApi
from deepwork.views.dashboard.pages import StaticPages, render_sign_in_page
from deepwork.views.dashboard.streams import EventStreams

McpApp = StreamableHttp | SseTransport

GATED_TOOL = "finished_step"
"""What only people can do is about the quality gate of this tool; a server without it does not offer that."""


@dataclass(frozen=True)
class RootRouter:
    """Routes MCP paths to the MCP app and everything else to the dashboard's routes."""

    pages: Starlette
    protocol: McpApp | None
    """The MCP app; None if only the dashboard is served."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.protocol is None or scope["type"] != "http" or not is_mcp_path(scope["path"]):
            await self.pages(scope, receive, send)
            return
        await self.protocol(scope, receive, send)
        if scope.get("deepwork.too_large"):  # to MCP it looked as if the client had disconnected
            await send_refusal(scope, receive, send, TOO_LARGE)


def create_asgi_app(app: Application, protocol: McpApp | None, policy: AccessPolicy) -> ASGIApp:
    """Create the whole application, with the guard around it."""
    rate = app.settings.rate_limit
    limit = RateLimit(rate, 4 * rate) if rate else None
    return RefusalCounterMiddleware(
        SignInPageMiddleware(
            Guard(build_router(app, protocol), policy, limit, tokens=TokenCache(app.database))
        )
    )


def build_router(app: Application, protocol: McpApp | None) -> RootRouter:
    """Build all routes; without `protocol` only those of the dashboard."""
    watch = StoreWatch(app.database)
    hub = EventHub(app.feed, watch)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        watch.start(lambda: loop.call_soon_threadsafe(hub.wake_listeners))
        yield
        watch.stop()
        hub.close()

    read_only = app.settings.read_only
    api = RestApi(
        app.database,
        app.presence,
        error_to_dict,
        build_tool_invoker(app),
        lambda: list_actions(app),
        operations=lambda: app.operations,
        call=lambda name, given, call: invoke(app.database, app.operations[name], given, call),
        is_read_only=read_only,
        processes=app.processes,
        get_why=lambda: app.why,
    )
    pages = StaticPages()
    routes: list[BaseRoute] = [
        Route("/health", _build_health_endpoint(pages, hub), methods=["GET"]),
        *api.build_routes(),
        *MetricsEndpoint(app.database, app.presence, hub, processes=app.processes).build_routes(),
        *EventStreams(hub).build_routes(),
        api.build_not_found_route(),
        *pages.build_routes(),
    ]
    return RootRouter(Starlette(routes=routes, lifespan=lifespan), protocol)


def create_mcp_app(app: Application, handler: MessageHandler) -> McpApp:
    """Create the application of the transport that the settings name."""
    transport = SseTransport if app.settings.transport == "sse" else StreamableHttp
    return transport(handler, lambda scope: scope["deepwork.owner"])


def list_actions(app: Application) -> list[str]:
    """List what this server offers to people: of the tools, only those that the settings select."""
    selected = select_tools(app.registry, app.settings)
    is_gated = GATED_TOOL in selected

    def is_offered(spec: OperationSpec) -> bool:
        return spec.name in selected if spec.name in app.registry else is_gated or spec.toolset != "jobs"

    found = [spec for spec in app.operations.values() if spec.declaration.for_people and is_offered(spec)]
    return sorted(spec.name for spec in found)


def build_tool_invoker(app: Application) -> InvokeTool:
    """Build the function by which the dashboard calls tools."""

    async def call_tool(tool: str, given: Mapping[str, Any], call: Call) -> Any:
        spec = app.operations[tool]
        return await invoke_in_thread(app.database, spec, given, call)

    return call_tool


def _build_health_endpoint(pages: StaticPages, hub: EventHub) -> Callable[[Request], Awaitable[Response]]:
    """Build the health endpoint: JSON for programs, the dashboard page for browsers.

    It is open to everybody, so it does not say what is wrong with the store; the log does.
    """

    async def health(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return pages.serve_index(request)
        if hub.problem is not None:
            return JSONResponse({"status": "store_failed"}, 503)
        return JSONResponse({"status": "ok"})

    return health


@dataclass(frozen=True)
class SignInPageMiddleware:
    """Shows browsers a sign-in page instead of the JSON error for a missing token."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wants_page = scope["type"] == "http" and _accepts_html(scope)
        await self.app(scope, receive, _replace_unauthorized(send) if wants_page else send)


def _accepts_html(scope: Scope) -> bool:
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


def _replace_unauthorized(send: Send) -> Send:
    """Wrap `send` to replace a 401 response with the sign-in page."""
    is_refused = False

    async def send_page(message: Message) -> None:
        nonlocal is_refused
        if message["type"] == "http.response.start" and message["status"] == 401:
            is_refused = True
            kept = [
                pair for pair in message["headers"] if pair[0] not in (b"content-type", b"content-length")
            ]
            page = [(b"content-type", b"text/html; charset=utf-8")]
            message = {**message, "headers": [*kept, *page]}
        elif is_refused and message["type"] == "http.response.body":
            message = {**message, "body": render_sign_in_page(json.loads(message["body"]))}
        await send(message)

    return send_page
