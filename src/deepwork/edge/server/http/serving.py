"""Serves HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from types import FrameType

import anyio
import uvicorn

from deepwork.edge.server.application import Application
from deepwork.edge.server.http.connections import (
    MAX_SILENT,
    ConnectionLimits,
    McpApp,
    build_exception_handler,
    build_websocket_protocol,
    create_asgi_app,
    create_mcp_app,
    limit_connections,
    raise_descriptor_limit,
)
from deepwork.edge.server.http.guard import MAX_CONNECTIONS, MAX_HEADERS
from deepwork.edge.server.http.metrics import redact_tokens_in_logs
from deepwork.edge.server.http.owner_token import load_token
from deepwork.edge.server.http.policy import (
    LOOPBACK_NAMES,
    AccessPolicy,
    bind_socket,
    format_url,
    is_loopback,
    require_safe_address,
)
from deepwork.kernel.config import Settings
from deepwork.kernel.files.private import make_state_folder
from deepwork.kernel.protocol.handler import MessageHandler

_TOO_LONG = b"The headers are too long."
_TOO_LONG_RESPONSE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(_TOO_LONG), _TOO_LONG)
)


def get_loop_options() -> dict[str, bool]:
    """Return the options of `anyio.run`."""
    return {"use_uvloop": find_spec("uvloop") is not None}


def choose_http_protocol() -> type[asyncio.Protocol]:
    """Choose how uvicorn parses requests.

    Both ways refuse headers that do not end in time; the guard refuses complete ones that are too long.
    """
    return _build_httptools_protocol() if find_spec("httptools") is not None else _build_h11_protocol()


def _build_h11_protocol() -> type[asyncio.Protocol]:
    from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415 - not needed with httptools

    class BoundedH11Protocol(H11Protocol):
        """Answers 431 instead of 400 to headers without end."""

        def send_400_response(self, msg: str) -> None:
            unparsed, _ = self.conn.trailing_data
            if len(unparsed) > MAX_HEADERS:
                _refuse_headers(self.transport)
            else:
                super().send_400_response(msg)

    return BoundedH11Protocol


def _build_httptools_protocol() -> type[asyncio.Protocol]:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # noqa: PLC0415 - may not be installed

    class BoundedHttpProtocol(HttpToolsProtocol):
        """Reads headers as h11 does: refuses them if they do not end, and leaves out spaces after a value."""

        _unparsed = 0
        """How many bytes have arrived since the headers or a part of the body were complete."""

        def data_received(self, data: bytes) -> None:
            self._unparsed += len(data)
            super().data_received(data)
            if self._unparsed > MAX_HEADERS and not self.transport.is_closing():
                _refuse_headers(self.transport)

        def on_header(self, name: bytes, value: bytes) -> None:
            super().on_header(name, value.rstrip(b" \t"))

        def on_headers_complete(self) -> None:
            self._unparsed = 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._unparsed = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._unparsed = 0
            super().on_message_complete()

    return BoundedHttpProtocol


def _refuse_headers(transport: asyncio.Transport) -> None:
    transport.write(_TOO_LONG_RESPONSE)
    transport.close()


GRACE_SECONDS = 3
PING_SECONDS = 20
USUAL_PORT = 80  # clients omit this port in the Host header
KEEP_ALIVE_SECONDS = 30  # agents think for a while between two calls


def run_http_server(
    app: Application, handler: MessageHandler | None, on_ready: Callable[[str], object] | None = None
) -> None:
    """Run `serve_http` in a new event loop."""
    anyio.run(serve_http, app, handler, on_ready, backend_options=get_loop_options())


async def serve_http(
    app: Application, handler: MessageHandler | None, on_ready: Callable[[str], object] | None = None
) -> None:
    """Serve MCP, REST, events and the dashboard; without `handler` everything but MCP.

    `on_ready` is called with a link that logs in once, as soon as the port is open.
    """
    settings = app.settings
    address = require_safe_address(settings.host, has_token=bool(settings.token))
    if problem := app.database.engine.find_adoption_problem():
        raise problem  # now, to the person who starts it, rather than to every client
    make_state_folder(settings.token_file.parent)
    socket = bind_socket(address, settings.port)
    settings = replace(settings, port=socket.getsockname()[1])  # the system chose one if it was 0
    policy = build_policy(settings, address)
    if handler is None:
        policy = replace(policy, mcp_needs_token=True)
    redact_tokens_in_logs(policy.token)
    protocol = None if handler is None else create_mcp_app(app, handler)
    asgi_app = create_asgi_app(app, protocol, policy)
    _print_addresses(settings, policy, address, has_mcp=handler is not None)
    if on_ready is not None:
        # Not with the token: everybody on this machine can read the command line of a browser.
        on_ready(f"{format_url(address, settings.port)}/?code={policy.codes.create()}")
    raise_descriptor_limit()
    asyncio.get_running_loop().set_exception_handler(build_exception_handler())
    limits = ConnectionLimits()
    server = HttpServer(
        uvicorn.Config(
            asgi_app,
            http=limit_connections(choose_http_protocol(), limits),
            ws=build_websocket_protocol(limits),
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS + MAX_SILENT,  # silent connections keep nobody out
            h11_max_incomplete_event_size=MAX_HEADERS,
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PING_SECONDS,
            ws_max_size=65536,
        ),
        protocol,
    )
    # uvicorn raises the signal again after a graceful shutdown; ignore it then.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    await server.serve(sockets=[socket])
    _exit_soon()
    if protocol is not None and not await end_calls(protocol):
        os._exit(0)  # without closing the store, which a call still uses


class HttpServer(uvicorn.Server):
    """Ends the streams of MCP clients on a signal, instead of waiting for them during the grace period."""

    def __init__(self, config: uvicorn.Config, protocol: McpApp | None) -> None:
        super().__init__(config)
        self._protocol = protocol

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._protocol is not None:
            self._protocol.end_streams()
            # So that clients get an answer before uvicorn closes their connections.
            asyncio.get_running_loop().call_later(GRACE_SECONDS - 1, self._protocol.cancel_all)
        super().handle_exit(sig, frame)


async def end_calls(protocol: McpApp, seconds: float = GRACE_SECONDS) -> bool:
    """Cancel the calls that still run, and wait for them, but not longer; return whether all have ended."""
    protocol.cancel_all()
    return await asyncio.to_thread(protocol.finish_within, seconds)


def _exit_soon() -> None:
    """Exit even if a thread does not end; open transactions are rolled back."""
    timer = threading.Timer(GRACE_SECONDS + 1, os._exit, (0,))
    timer.daemon = True
    timer.start()


def build_policy(settings: Settings, address: str) -> AccessPolicy:
    """Build the access policy for this address."""
    own = _list_own_names(settings, address)
    names = {*settings.allowed_hosts, *(f"{name}:{settings.port}" for name in own)}
    names |= set(own) if settings.port == USUAL_PORT else set()
    return AccessPolicy(
        hosts=frozenset(name.lower() for name in names),
        token=load_token(settings.token, settings.token_file),
        mcp_needs_token=bool(settings.token) or not is_loopback(address),
        cookie_name=f"deepwork_{settings.port}",
    )


def _list_own_names(settings: Settings, address: str) -> list[str]:
    own = f"[{address}]" if ":" in address else address
    return [own, settings.host, *LOOPBACK_NAMES]


def _print_addresses(settings: Settings, policy: AccessPolicy, address: str, *, has_mcp: bool) -> None:
    base = format_url(address, settings.port)
    if has_mcp:
        endpoint = "sse" if settings.transport == "sse" else "mcp"
        sys.stderr.write(f"deepwork serves MCP at {base}/{endpoint}\n")
    # Do not print a configured token; a generated one must be printed, or nobody would know it.
    token = "DEEPWORK_TOKEN" if settings.token else policy.token
    sys.stderr.write(f"Open the dashboard: {base}/?token={token}\n")
    sys.stderr.flush()
