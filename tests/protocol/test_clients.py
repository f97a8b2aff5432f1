"""A real client and a real server process, with both generations of the protocol."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from fastmcp import Client

import deepwork
import quick
from deepwork.kernel.errors import Code

Era = Literal["legacy", "auto"]


@asynccontextmanager
async def connect(project: Path, era: Era, *flags: str) -> AsyncIterator[Client[Any]]:
    async with Client(quick.build_transport(project, *flags), mode=era) as client:
        yield client


@pytest.fixture(params=["legacy", "auto"])
def era(request: pytest.FixtureRequest) -> Era:
    chosen: Era = request.param
    return chosen


async def call_tool(client: Client[Any], tool: str, arguments: dict[str, Any], **more: Any) -> Any:
    """A tool's answer, which is the same in both of its forms."""
    result = await client.call_tool(tool, arguments, **more)
    assert parse_text(result) == result.structured_content
    return result.structured_content


def parse_text(result: Any) -> Any:
    return json.loads(result.content[0].text)


async def call_for_error(client: Client[Any], tool: str, arguments: dict[str, Any]) -> Any:
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    assert result.is_error
    said = parse_text(result)
    assert set(said) == {"code", "message", "recoverable", "suggestion"}
    assert said["code"] in set(Code)
    return said


def test_two_agents_exchange_messages_through_one_server(tmp_path: Path, era: Era):
    async def talk() -> None:
        async with connect(tmp_path, era) as client:

            async def call(tool: str, **arguments: Any) -> Any:
                return await call_tool(client, tool, arguments)

            ada = (await call("agent_register", name="Ada", runtime="claude_code"))["id"]
            bob = (await call("agent_register", name="Bob", runtime="codex"))["id"]
            asked = await call(
                "message_send", sender_id=ada, recipient_id=bob, message_type="query", body="up?"
            )
            [message] = (await call("message_list", agent_id=bob))["messages"]
            await call(
                "message_send", sender_id=bob, recipient_id=ada, message_type="response", body={"up": True},
                reply_to_id=message["id"],
            )  # fmt: skip
            thread = (await call("message_list", agent_id=ada, thread_id=asked["thread_id"]))["messages"]

            assert [each["body"] for each in thread] == [{"up": True}, "up?"]

    anyio.run(talk)


def test_the_server_sends_its_name_version_and_instructions(tmp_path: Path, era: Era):
    async def look() -> None:
        async with connect(tmp_path, era) as client:
            info, told = client.server_info, client.instructions or ""
            assert info is not None
            assert (info.name, info.version) == ("deepwork", deepwork.__version__)
            assert (client.protocol_version == "2026-07-28") is (era == "auto")
            steps = ["Discover", "Start", "Execute", "Checkpoint", "Iterate", "Continue", "Complete"]
            places = [told.index(step) for step in steps]
            assert places == sorted(places)
            assert "Complete" in " ".join(told.split()[:200])
            assert len(told.encode()) <= 2048

    anyio.run(look)


def test_tools_are_listed_in_order_without_output_schemas(tmp_path: Path, era: Era):
    async def look() -> None:
        async with connect(tmp_path, era) as client:
            tools = await client.list_tools()

        assert [tool.name for tool in tools] == sorted(tool.name for tool in tools)
        assert all(tool.output_schema is None and not tool.meta for tool in tools)
        hints = {tool.name: tool.annotations for tool in tools}
        assert hints["agent_list"] is not None
        assert hints["agent_list"].read_only_hint is True
        assert hints["agent_unregister"] is not None
        assert hints["agent_unregister"].destructive_hint is None  # destructive is MCP's default
        assert hints["agent_register"] is not None
        assert hints["agent_register"].destructive_hint is False

    anyio.run(look)


def test_options_select_tools_and_add_output_schemas(tmp_path: Path, era: Era):
    async def look() -> None:
        async with connect(
            tmp_path, era, "--toolsets", "agents", "--read-only", "--output-schemas"
        ) as client:
            tools = await client.list_tools()
            assert [tool.name for tool in tools] == ["agent_get", "agent_list"]
            assert all(tool.output_schema for tool in tools)
            assert await call_tool(client, "agent_list", {}) == {"agents": [], "total": 0}
            assert (await call_for_error(client, "agent_register", {"name": "x", "runtime": "codex"}))[
                "code"
            ] == "INVALID_INPUT"

    anyio.run(look)


BAD_CALLS: list[tuple[str, dict[str, Any], str, str]] = [
    ("agent_register", {"name": 5, "runtime": "codex"}, "INVALID_INPUT", "name"),
    ("agent_register", {"runtime": "codex"}, "INVALID_INPUT", "`name` is missing"),
    ("agent_register", {"name": "a", "runtime": "codex", "colour": 1}, "INVALID_INPUT", "colour"),
    ("agent_register", {"name": "a", "runtime": "codex", "metadata": {"x": "y" * 1_100_000}}, "TOO_LARGE", "metadata.x"),
    ("agent_register", {"name": "a" * 201, "runtime": "codex"}, "INVALID_INPUT", "name"),
    ("agent_register", {"name": "a\0b", "runtime": "codex"}, "INVALID_INPUT", "U+0000"),
    ("agent_register", {"name": "a", "runtime": "codex", "metadata": {"n": 2**60}}, "INVALID_INPUT", "metadata.n"),
    ("agent_get", {"id": "ag_nobody"}, "AGENT_NOT_FOUND", "ag_nobody"),
    ("agent_gett", {"id": "ag_nobody"}, "INVALID_INPUT", "agent_get"),
    ("message_list", {"agent_id": "x", "limit": 100_000}, "INVALID_INPUT", "limit"),
]  # fmt: skip


def test_bad_input_gets_the_error_object_and_the_server_keeps_running(tmp_path: Path, era: Era):
    async def try_all() -> None:
        async with connect(tmp_path, era) as client:
            for tool, arguments, code, named in BAD_CALLS:
                said = await call_for_error(client, tool, arguments)
                assert said["code"] == code, (tool, arguments, said)
                assert named in said["message"]
                assert said["suggestion"]
            assert await call_tool(client, "agent_list", {}) == {"agents": [], "total": 0}

    anyio.run(try_all)


def test_a_repeated_call_under_one_key_has_one_effect(tmp_path: Path, era: Era):
    async def repeat() -> None:
        async with connect(tmp_path, era) as client:
            meta = {"deepwork/idempotency-key": "once"}
            arguments = {"name": "Ada", "runtime": "codex"}
            ids = [(await call_tool(client, "agent_register", arguments, meta=meta))["id"] for _ in range(3)]
            assert len(set(ids)) == 1
            assert (await call_tool(client, "agent_list", {}))["total"] == 1

    anyio.run(repeat)


def test_concurrent_calls_are_all_answered(tmp_path: Path, era: Era):
    async def hurry() -> None:
        async with connect(tmp_path, era) as client, anyio.create_task_group() as group:

            async def register(number: int) -> None:
                registered = await call_tool(
                    client, "agent_register", {"name": f"n{number}", "runtime": "codex"}
                )
                assert registered["name"] == f"n{number}"

            for number in range(40):
                group.start_soon(register, number)

    anyio.run(hurry)
