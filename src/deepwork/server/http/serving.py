"""Listening on the network until told to stop."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import replace

import uvicorn
from fastmcp import FastMCP

from deepwork.config import Settings
from deepwork.files.state import make_state_folder
from deepwork.server.application import Application
from deepwork.server.http.addresses import LOOPBACK_NAMES, bound, is_loopback, require_safe, url
from deepwork.server.http.asgi import application
from deepwork.server.http.limits import MAX_CONNECTIONS, MAX_HEADERS
from deepwork.server.http.policy import Policy
from deepwork.server.http.redaction import hide_tokens
from deepwork.server.http.tokens import token_of

GRACE_SECONDS = 3
PING_SECONDS = 20
USUAL_PORT = 80  # clients leave it out of the host they ask for
KEEP_ALIVE_SECONDS = 30  # agents think for a while between two calls


async def serve_http(
    app: Application, mcp: FastMCP | None, opened: Callable[[str], object] | None = None
) -> None:
    """Serve MCP, REST, events and the page; without `mcp` all but that.

    `opened` is given the link by which a browser logs in, once it can be opened.
    """
    settings = app.settings
    address = require_safe(settings.host, has_token=bool(settings.token))
    make_state_folder(settings.token_file.parent)
    policy = policy_of(settings, address)
    if mcp is None:
        policy = replace(policy, mcp_needs_token=True)
    hide_tokens(policy.token)
    served = application(app, mcp, policy)
    socket = bound(address, settings.port)
    _announce(settings, policy, address, has_mcp=mcp is not None)
    if opened is not None:
        opened(f"{url(address, settings.port)}/?token={policy.token}")
    server = uvicorn.Server(
        uvicorn.Config(
            served,
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            h11_max_incomplete_event_size=MAX_HEADERS,
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PING_SECONDS,
            ws_max_size=65536,
        )
    )
    # uvicorn raises the signal again once it has ended in order; it has done its work by then.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    await server.serve(sockets=[socket])


def policy_of(settings: Settings, address: str) -> Policy:
    """Who may pass, at this address."""
    own = _own_names(settings, address)
    names = {*settings.allowed_hosts, *(f"{name}:{settings.port}" for name in own)}
    names |= set(own) if settings.port == USUAL_PORT else set()
    return Policy(
        hosts=frozenset(name.lower() for name in names),
        token=token_of(settings.token, settings.token_file),
        mcp_needs_token=bool(settings.token) or not is_loopback(address),
        cookie_name=f"deepwork_{settings.port}",
    )


def _own_names(settings: Settings, address: str) -> list[str]:
    own = f"[{address}]" if ":" in address else address
    return [own, settings.host, *LOOPBACK_NAMES]


def _announce(settings: Settings, policy: Policy, address: str, *, has_mcp: bool) -> None:
    base = url(address, settings.port)
    if has_mcp:
        endpoint = "sse" if settings.transport == "sse" else "mcp"
        sys.stderr.write(f"deepwork serves MCP at {base}/{endpoint}\n")
    # A token that was set is its owner's secret; one that we made is told once, or nobody would know it.
    shown = "DEEPWORK_TOKEN" if settings.token else policy.token
    sys.stderr.write(f"To look in with a browser: {base}/?token={shown}\n")
    sys.stderr.flush()
