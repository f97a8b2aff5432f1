"""Host, Origin and token are checked on every route, WebSocket included, for each transport."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.routing import BaseRoute, Route, WebSocketRoute

from application import make_app
from deepwork.edge.server.http.connections import build_router, create_mcp_app
from deepwork.edge.server.http.guard import HEADERS, Guard, RateLimit
from deepwork.edge.server.http.policy import AccessPolicy, is_mcp_path
from deepwork.edge.server.mcp_service import McpService
from deepwork.kernel.protocol.handler import MessageHandler

TOKEN = "t" * 32
HOSTS = frozenset({"127.0.0.1:8000"})
BEARER = {"authorization": f"Bearer {TOKEN}"}
UNTOUCHED = 299  # what the application behind the guard answers here


class Reached:
    """Stands where the application is: being asked at all is what must not happen."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        kind = "websocket.http" if scope["type"] == "websocket" else "http"
        await send({"type": f"{kind}.response.start", "status": UNTOUCHED, "headers": []})
        await send({"type": f"{kind}.response.body", "body": b""})


def addresses(routes: list[BaseRoute]) -> list[tuple[str, str]]:
    """Every address, with how to ask for it."""
    found = []
    for route in routes:
        if isinstance(route, WebSocketRoute):
            found.append(("WS", route.path))
        elif isinstance(route, Route):
            found += [(method, route.path) for method in sorted(route.methods or {"GET", "POST", "DELETE"})]
    return found


def ask(guard: Guard, method: str, path: str, headers: dict[str, str]) -> tuple[int, set[str]]:
    """The status and the names of the headers that a request gets."""
    sent: list[Any] = []
    scope = {
        "type": "websocket" if method == "WS" else "http",
        "method": "GET" if method == "WS" else method,
        "path": path,
        "query_string": b"",
        "headers": [(k.encode(), v.encode()) for k, v in ({"host": "127.0.0.1:8000"} | headers).items()],
        "client": ("127.0.0.1", 5),
    }

    async def receive() -> Any:
        return {"type": "websocket.connect" if method == "WS" else "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    anyio.run(guard, scope, receive, send)
    return sent[0]["status"], {name.decode() for name, _ in sent[0]["headers"]}


@pytest.mark.parametrize("needs_token", [False, True])
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_the_guard_protects_every_route(tmp_path: Path, transport: str, needs_token: bool):
    app = make_app(tmp_path, str(tmp_path / "x.db"), transport=transport)
    every = build_router(app, create_mcp_app(app, MessageHandler(McpService(app))))
    assert every.protocol is not None
    asked = [*addresses(every.pages.routes), *every.protocol.addresses]
    policy = AccessPolicy(hosts=HOSTS, token=TOKEN, mcp_needs_token=needs_token)
    guard = Guard(Reached(), policy, None, RateLimit(1e9, 1e9))
    assert {("WS", "/ws"), ("GET", "/api/v1/events"), ("GET", "/health")} <= set(asked)
    assert ("POST", "/mcp") in asked or ("GET", "/sse") in asked

    for method, path in asked:
        free = path == "/health" or (is_mcp_path(path) and not needs_token)
        wrong = UNTOUCHED if path == "/health" else 401
        for headers, expected in [
            ({"host": "evil.example"}, 421),
            ({"host": "evil.example"} | BEARER, 421),
            ({"host": "127.0.0.1:8001"} | BEARER, 421),
            ({"host": ""} | BEARER, 421),
            ({"origin": "http://evil.example"} | BEARER, 403),
            ({"origin": "null"} | BEARER, 403),
            ({"origin": "http://localhost:9999"}, 403),
            ({"sec-fetch-site": "cross-site"} | BEARER, 403),
            ({}, UNTOUCHED if free else 401),
            ({"authorization": "Bearer wrong"}, wrong),
            ({"authorization": f"Basic {TOKEN}"}, wrong),
            ({"cookie": f"deepwork={TOKEN}"}, UNTOUCHED if free else 401),
            (BEARER, UNTOUCHED),
            (BEARER | {"origin": "http://127.0.0.1:8000"}, UNTOUCHED),
        ]:
            status, named = ask(guard, method, path.replace("{id}", "x"), headers)
            assert status == expected, (method, path, headers, status)
            assert {name.lower() for name in HEADERS} <= named
