"""One application for everything on the network, behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastmcp import FastMCP
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from deepwork.access.desk import TokenDesk
from deepwork.dashboard.api import Api
from deepwork.dashboard.streams import Streams
from deepwork.events.hub import Hub
from deepwork.server.house import House
from deepwork.server.http.guard import Guard
from deepwork.server.http.limits import RateLimit
from deepwork.server.http.policy import Policy, is_mcp
from deepwork.server.http.unreadable import AnswerUnreadable
from deepwork.server.invocation import spoken

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>deepwork</title>
<h1>deepwork is running</h1>
<p>To read: <a href="/api/v1/agents">agents</a>, <a href="/api/v1/openapi.json">the interface</a>.
Events: <code>/ws?since=0</code> or <code>/api/v1/events?since=0</code>.</p>
"""


@dataclass(frozen=True)
class Doors:
    """What the guard lets through to: the protocol by its paths, everything else by the pages' router."""

    pages: Starlette
    protocol: Starlette

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and is_mcp(scope["path"]):
            await AnswerUnreadable(self.protocol)(scope, receive, send)
        else:
            await self.pages(scope, receive, send)


def application(house: House, mcp: FastMCP, policy: Policy) -> ASGIApp:
    """Everything, guarded."""
    rate = house.settings.rate_limit
    limit = RateLimit(rate, 4 * rate) if rate else None
    return Guard(doors(house, mcp), policy, limit, tokens=TokenDesk(house.database))


def doors(house: House, mcp: FastMCP) -> Doors:
    """Every address there is."""
    protocol = (
        mcp.http_app("/sse", transport="sse")
        if house.settings.transport == "sse"
        else mcp.http_app("/mcp", json_response=True)
    )
    hub = Hub(house.feed)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with protocol.lifespan(app):
            yield
        hub.close()

    routes: list[BaseRoute] = [
        Route("/health", _health, methods=["GET"]),
        Route("/", _home, methods=["GET"]),
        *Api(house.database, house.presence, spoken).routes(),
        *Streams(hub).routes(),
    ]
    return Doors(Starlette(routes=routes, lifespan=lifespan), protocol)


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _home(_: Request) -> Response:
    return HTMLResponse(_PAGE)
