"""Reads requests from connections and writes answers.

Nothing is known about who opened a connection without a request, and it costs a file descriptor, so
somebody who opens many and stays silent could take them all. The oldest silent connection gives way to a
new one, so a client that does send a request always gets in.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepwork.edge.server.application import Application
from deepwork.edge.server.http.guard import TOO_LARGE, Guard, RateLimit, send_refusal
from deepwork.edge.server.http.metrics import MetricsEndpoint, RefusalCounterMiddleware
from deepwork.edge.server.http.policy import AccessPolicy, is_loopback, is_mcp_path
from deepwork.edge.server.invocation import error_to_dict, invoke
from deepwork.edge.server.notifying import Notifier
from deepwork.edge.server.registry import OperationSpec, select_tools
from deepwork.edge.server.threads import invoke_in_thread
from deepwork.gates.access.token_cache import TokenCache
from deepwork.kernel.call import Call
from deepwork.kernel.events.hub import EventHub
from deepwork.kernel.events.store_watch import StoreWatch
from deepwork.kernel.protocol.handler import MessageHandler
from deepwork.kernel.protocol.transports.http import StreamableHttp
from deepwork.kernel.protocol.transports.sse import SseTransport
from deepwork.kernel.records import dataclass
from deepwork.views.dashboard.actions import InvokeTool
from deepwork.views.dashboard.api import RestApi
from deepwork.views.dashboard.pages import StaticPages
from deepwork.views.dashboard.sign_in import SIGN_IN_POLICY, render_sign_in_page
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
    app.database.has_many_callers = True
    watch = StoreWatch(app.database)
    hub = EventHub(app.feed, watch)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        watch.start(lambda: loop.call_soon_threadsafe(hub.wake_listeners))
        notifier = None if app.settings.read_only else Notifier(app).start()
        yield
        if notifier is not None:
            notifier.stop()
        watch.stop()
        hub.close()

    read_only = app.settings.read_only
    api = RestApi(
        app.database,
        error_to_dict,
        build_tool_invoker(app),
        lambda: list_actions(app),
        operations=lambda: app.operations,
        call=lambda name, given, call: invoke(app.database, app.operations[name], given, call),
        is_read_only=read_only,
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
        was_refused = b"token=" in scope.get("query_string", b"")
        await self.app(scope, receive, _replace_unauthorized(send, was_refused) if wants_page else send)


def _accepts_html(scope: Scope) -> bool:
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


def _replace_unauthorized(send: Send, was_refused: bool) -> Send:
    """Wrap `send` to replace a 401 response with the sign-in page."""
    is_refused = False

    async def send_page(message: Message) -> None:
        nonlocal is_refused
        if message["type"] == "http.response.start" and message["status"] == 401:
            is_refused = True
            page = [
                (b"content-type", b"text/html; charset=utf-8"),
                (b"content-security-policy", SIGN_IN_POLICY.encode()),
            ]
            own = {b"content-length", *(name for name, _ in page)}
            kept = [pair for pair in message["headers"] if pair[0] not in own]
            message = {**message, "headers": [*kept, *page]}
        elif is_refused and message["type"] == "http.response.body":
            body = render_sign_in_page(json.loads(message["body"]), was_refused=was_refused)
            message = {**message, "body": body}
        await send(message)

    return send_page


log = logging.getLogger("deepwork")

MAX_SILENT = 512
MAX_SILENT_PER_ADDRESS = 64
"""For addresses of other machines; on this machine all agents share one address."""
HEADER_SECONDS = 10.0
BODY_SECONDS = 30.0
STALL_SECONDS = 10.0
"""How long a client may accept nothing of what waits to be sent."""
_LOOKS_PER_STALL = 20
_WANTED_DESCRIPTORS = 8192
_SECONDS_BETWEEN_WARNINGS = 60.0


@dataclass
class ConnectionLimits:
    """The limits of one server, and its connections that have not sent the headers of a request yet."""

    header_seconds: float = HEADER_SECONDS
    body_seconds: float = BODY_SECONDS
    stall_seconds: float = STALL_SECONDS
    max_silent: int = MAX_SILENT
    max_per_address: int = MAX_SILENT_PER_ADDRESS
    _silent: OrderedDict[asyncio.Transport, str] = field(default_factory=OrderedDict, repr=False)
    _counts: Counter[str] = field(default_factory=Counter, repr=False)

    def add_silent(self, transport: asyncio.Transport) -> None:
        """Add a new connection; if there are too many, abort the oldest one that is silent."""
        address = _get_address(transport)
        self._silent[transport] = address
        self._counts[address] += 1
        if address and not is_loopback(address) and self._counts[address] > self.max_per_address:
            self._abort(next(each for each, of in self._silent.items() if of == address))
        elif len(self._silent) > self.max_silent:
            self._abort(next(iter(self._silent)))

    def remove_silent(self, transport: asyncio.Transport) -> None:
        """Remove a connection that sent its headers or was closed."""
        address = self._silent.pop(transport, None)
        if address is not None:
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]

    def _abort(self, transport: asyncio.Transport) -> None:
        self.remove_silent(transport)
        transport.abort()


class UnstalledConnection:
    """Aborts a connection whose client accepts nothing for too long, although something waits to be sent.

    uvicorn waits for such a client for ever, also to close its connection. A part of its protocols, see
    `limit_connections`.
    """

    limits: ConnectionLimits
    transport: Any
    loop: asyncio.AbstractEventLoop
    _next_look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        transport.set_write_buffer_limits(high=0)  # `pause_writing` is called as soon as anything waits

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_looking()
        super().connection_lost(exc)  # type: ignore[misc]

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]
        self._look_later(self.transport.get_write_buffer_size(), self.loop.time())

    def resume_writing(self) -> None:
        self._stop_looking()
        super().resume_writing()  # type: ignore[misc]

    def _look_later(self, size: int, since: float) -> None:
        seconds = self.limits.stall_seconds / _LOOKS_PER_STALL
        self._next_look = self.loop.call_later(seconds, self._look, size, since)

    def _look(self, size: int, since: float) -> None:
        now, left = self.loop.time(), self.transport.get_write_buffer_size()
        if left < size:  # more may be added meanwhile, such as a ping: that is no progress
            since = now
        if now - since >= self.limits.stall_seconds:
            self.transport.abort()
        else:
            self._look_later(left, since)

    def _stop_looking(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None


class LimitedConnection:
    """Closes a connection whose headers or body do not arrive in time, however slowly they trickle in.

    A part of uvicorn's protocol, see `limit_connections`.
    """

    limits: ConnectionLimits
    transport: Any
    loop: asyncio.AbstractEventLoop
    cycle: Any
    flow: Any
    _timer: asyncio.TimerHandle | None = None
    _waits_for = ""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        self._wait_for("headers")
        self.limits.add_silent(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)  # type: ignore[misc]

    def data_received(self, data: bytes) -> None:
        super().data_received(data)  # type: ignore[misc]
        if self.transport.get_protocol() is not self:  # a WebSocket now, which has its own limits
            self._stop_waiting()
        elif self.cycle is None or self.cycle.response_complete:
            self._wait_for("headers")
        elif self.cycle.more_body:
            self.limits.remove_silent(self.transport)
            self._wait_for("body")
        else:
            self._stop_waiting()

    def _wait_for(self, part: str) -> None:
        """Start the time for this part, unless it runs already: no byte gives a slow client more time."""
        if self._waits_for == part or self.transport.is_closing():
            return
        self._cancel_timer()
        self._waits_for = part
        seconds = self.limits.header_seconds if part == "headers" else self.limits.body_seconds
        self._timer = self.loop.call_later(seconds, self._end_waiting)

    def _end_waiting(self) -> None:
        if self.flow.read_paused:  # the client waits for us
            part, self._waits_for = self._waits_for, ""
            self._wait_for(part)
        else:
            self.limits.remove_silent(self.transport)
            self.transport.abort()

    def _stop_waiting(self) -> None:
        self._cancel_timer()
        self._waits_for = ""
        self.limits.remove_silent(self.transport)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def limit_connections(protocol: type[asyncio.Protocol], limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with our limits on silent and slow clients."""
    return type("LimitedProtocol", (LimitedConnection, UnstalledConnection, protocol), {"limits": limits})


def build_websocket_protocol(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """Return uvicorn's WebSocket protocol with our limit on clients that do not read."""
    from uvicorn.protocols.websockets.websockets_sansio_impl import (  # noqa: PLC0415 - most tests need no server
        WebSocketsSansIOProtocol,
    )

    return type("LimitedWebSocket", (UnstalledConnection, WebSocketsSansIOProtocol), {"limits": limits})


def raise_descriptor_limit() -> None:
    """Allow this process more open files than the usual 1,024, as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_WANTED_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS has a lower limit that it does not report
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def build_exception_handler(
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Build a handler for errors of the event loop that logs a failed accept at most once a minute.

    Python tries to accept thousands of times in a row when no file descriptor is left.
    """
    last = -_SECONDS_BETWEEN_WARNINGS

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal last
        if "accept" not in str(context.get("message")):
            loop.default_exception_handler(context)
        elif clock() - last >= _SECONDS_BETWEEN_WARNINGS:
            last = clock()
            log.warning("Cannot accept connections: %s", context.get("exception"))

    return handle


def _get_address(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""
