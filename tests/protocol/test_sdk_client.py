"""The SDK's own client against our core: every transport, in both generations of the protocol."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference

from conformance.fixture_server import COMMAND
from conformance.fixture_service import RED_PIXEL, SILENCE, TEMPLATE
from http_tests.http_server import PATIENCE_SECONDS, HttpServer

WAYS = [("stdio", "legacy"), ("stdio", "auto"), ("http", "legacy"), ("http", "auto"), ("sse", "legacy")]


@dataclass(frozen=True)
class Servers:
    """Servers with the fixtures, over the network; over stdio a client starts its own."""

    project: Path
    addresses: dict[str, str]

    @asynccontextmanager
    async def connect(self, way: tuple[str, Any]) -> AsyncIterator[Any]:
        """Connect a client; not typed, because each test knows which kind of content it gets."""
        transport, era = way
        async with Client(self._build_transport(transport), mode=era) as client:
            assert (client.protocol_version == "2026-07-28") is (era == "auto")
            yield client

    def _build_transport(self, transport: str) -> Any:
        if transport == "sse":
            return SSETransport(f"{self.addresses[transport]}/sse")
        if transport == "http":
            return StreamableHttpTransport(f"{self.addresses[transport]}/mcp")
        program, *words = COMMAND
        return StdioTransport(program, [*words, "serve", "--path", str(self.project)], keep_alive=False)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    start = partial(HttpServer, tmp_path_factory.mktemp("project"), command=COMMAND)
    with start(transport="http") as http, start(transport="sse") as sse:
        yield Servers(http.project, {"http": http.url, "sse": sse.url})


@pytest.fixture(params=WAYS, ids="-".join)
def way(request: pytest.FixtureRequest) -> tuple[str, str]:
    chosen: tuple[str, str] = request.param
    return chosen


async def catch_error(answer: Awaitable[Any]) -> MCPError:
    with pytest.raises(MCPError) as caught:
        await answer
    return caught.value


def test_a_tool_answers_with_every_kind_of_content(servers: Servers, way: tuple[str, str]):
    async def look() -> None:
        async with servers.connect(way) as client:
            text = await client.call_tool("test_simple_text")
            sound = await client.call_tool("test_audio_content")
            mixed = await client.call_tool("test_multiple_content_types")

            assert [part.type for part in text.content] == ["text"]
            assert (sound.content[1].type, sound.content[1].data) == ("audio", SILENCE)
            assert [part.type for part in mixed.content] == ["text", "image", "resource"]
            assert mixed.content[1].data == RED_PIXEL
            assert mixed.content[2].resource.text == "Embedded."

    anyio.run(look)


def test_an_error_of_a_tool_is_an_answer_and_one_of_the_request_is_not(
    servers: Servers, way: tuple[str, str]
):
    async def look() -> None:
        async with servers.connect(way) as client:
            failed = await client.call_tool("test_error_handling", raise_on_error=False)
            unknown = [
                await catch_error(client.call_tool("nope")),
                await catch_error(client.get_prompt("nope")),
                await catch_error(client.read_resource("test://nope")),
            ]
            again = await client.call_tool("test_simple_text")

            assert (failed.is_error, failed.content[0].text) == (True, "This tool always fails.")
            assert {error.error.code for error in unknown} == {-32602}
            assert unknown[2].error.data == {"uri": "test://nope"}
            assert not again.is_error

    anyio.run(look)


def test_prompts_resources_and_completions_are_answered(servers: Servers, way: tuple[str, str]):
    async def look() -> None:
        async with servers.connect(way) as client:
            given = {"arg1": "one", "arg2": "two"}
            [said] = (await client.get_prompt("test_prompt_with_arguments", given)).messages
            [shown] = (await client.get_prompt("test_prompt_with_image")).messages
            [binary] = await client.read_resource("test://static-binary")
            [filled] = await client.read_resource(TEMPLATE.replace("{id}", "7"))
            reference = PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
            completed = await client.complete(reference, {"name": "arg1", "value": "par"})

            assert (said.content.text, shown.content.data) == ("one and two", RED_PIXEL)
            assert base64.b64decode(binary.blob).startswith(b"\x89PNG")
            assert json.loads(filled.text) == {"id": "7"}
            assert completed.values == ["paris", "park", "party"]
            assert [each.uri_template for each in await client.list_resource_templates()] == [TEMPLATE]
            assert len(await client.list_prompts()) == 4
            assert len(await client.list_resources()) == 2

    anyio.run(look)


def test_progress_arrives_in_order_before_the_answer(servers: Servers, way: tuple[str, str]):
    reported: list[Any] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reported.append((progress, total, message))

    async def look() -> None:
        async with servers.connect(way) as client:
            answer = await client.call_tool("test_tool_with_progress", progress_handler=note)

            assert answer.content[0].text == "done"
            assert reported == [(step, 100, f"{step} of 100") for step in (0, 50, 100)]

    anyio.run(look)


def test_a_call_that_its_caller_abandons_is_cancelled(servers: Servers, way: tuple[str, str]):
    async def list_cancelled(client: Any) -> Any:
        return json.loads((await client.call_tool("list_cancelled")).content[0].text)

    async def look() -> None:
        is_running = anyio.Event()

        async def note(*_: object) -> None:
            is_running.set()

        async with servers.connect(way) as client:
            before = await list_cancelled(client)
            async with anyio.create_task_group() as group:
                group.start_soon(partial(client.call_tool, "wait_until_cancelled", progress_handler=note))
                await is_running.wait()
                group.cancel_scope.cancel()
            with anyio.fail_after(PATIENCE_SECONDS):
                while (after := await list_cancelled(client)) == before:
                    pass  # the call has not noticed it yet

            assert after == [*before, True]

    anyio.run(look)
