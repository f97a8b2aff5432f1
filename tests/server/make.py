"""Helpers: clients of a server in this process, over stdio or over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp import MCPError
from mcp.types import TextContent

import quick
from deepwork.edge.server.application import Application
from deepwork.edge.server.mcp_server import build_server
from http_tests.http_server import HttpServer


@asynccontextmanager
async def connect_in_process(app: Application) -> AsyncIterator[Client[Any]]:
    """Connect a client to a server in this process."""
    async with Client(build_server(app)) as client:
        yield client


@asynccontextmanager
async def connect_stdio(project: Path, *flags: str, mode: Any = "auto") -> AsyncIterator[Client[Any]]:
    async with Client(quick.build_transport(project, *flags), mode=mode) as client:
        yield client


@asynccontextmanager
async def connect_http(served: HttpServer, token: str, mode: Any = "auto") -> AsyncIterator[Client[Any]]:
    transport = StreamableHttpTransport(f"{served.url}/mcp", headers={"Authorization": f"Bearer {token}"})
    async with Client(transport, mode=mode) as client:
        yield client


async def get_prompt(client: Client[Any], name: str, **arguments: str) -> str:
    """Get the text of a prompt."""
    [message] = (await client.get_prompt(name, arguments)).messages
    assert message.role == "user"
    assert isinstance(message.content, TextContent)
    return message.content.text


async def read_resource(client: Client[Any], uri: str) -> Any:
    """Read the content of a resource."""
    [content] = await client.read_resource(uri)
    assert content.uri == uri
    return content


async def get_refusal(request: Any) -> dict[str, Any]:
    """Await a request that must fail and return its error details."""
    with pytest.raises(MCPError) as refused:
        await request
    error: dict[str, Any] = refused.value.error.data
    assert error.keys() == {"code", "message", "recoverable", "suggestion"}
    assert refused.value.error.message == error["message"]
    return error
