"""A server to ask, in this process, as a process of its own, or on the network."""

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
from deepwork.server.application import Application
from deepwork.server.mcp_server import server_of
from http_tests.served import Served


@asynccontextmanager
async def inside(app: Application) -> AsyncIterator[Client[Any]]:
    """A client of a server in this process."""
    async with Client(server_of(app)) as client:
        yield client


@asynccontextmanager
async def over_stdio(project: Path, *flags: str, mode: Any = "auto") -> AsyncIterator[Client[Any]]:
    async with Client(quick.serving(project, *flags), mode=mode) as client:
        yield client


@asynccontextmanager
async def over_http(served: Served, token: str, mode: Any = "auto") -> AsyncIterator[Client[Any]]:
    way = StreamableHttpTransport(f"{served.url}/mcp", headers={"Authorization": f"Bearer {token}"})
    async with Client(way, mode=mode) as client:
        yield client


async def prompt(client: Client[Any], name: str, **arguments: str) -> str:
    """The text of a prompt."""
    [message] = (await client.get_prompt(name, arguments)).messages
    assert message.role == "user"
    assert isinstance(message.content, TextContent)
    return message.content.text


async def resource(client: Client[Any], uri: str) -> Any:
    """What a resource holds."""
    [content] = await client.read_resource(uri)
    assert content.uri == uri
    return content


async def refusal(asking: Any) -> dict[str, Any]:
    """The error that a question gets, in the form of the tools' errors."""
    with pytest.raises(MCPError) as refused:
        await asking
    said: dict[str, Any] = refused.value.error.data
    assert said.keys() == {"code", "message", "recoverable", "suggestion"}
    assert refused.value.error.message == said["message"]
    return said
