"""Reviews that take long: progress, tasks, and clients and servers that end meanwhile. Real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError

import quick
from http_tests.http_server import PATIENCE_SECONDS, HttpServer, McpSession
from jobs.project import make_review, make_step, write_files, write_job
from jobs.reviewer import Reviewer, is_running
from protocol.task_client import CreatedTask, TaskExtension, cancel_task, get_task, wait_for_task

PASSED = {"passed": True, "feedback": "fine"}
SLOW = {**PASSED, "seconds": 4}
"""Longer than a call may take before it becomes a task."""
Transport = Literal["stdio", "http", "sse"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    write_files(root, "a.md", "b.md")
    write_job(root, "one", [make_step("a", reviews=[make_review(), make_review("a.md")]), make_step("b")])
    return root


@pytest.fixture
def reviewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reviewer:
    """A reviewer that every server of the test finds."""
    reviewer = Reviewer(tmp_path / "reviewer")
    for name, value in reviewer.environment.items():
        monkeypatch.setenv(name, value)
    return reviewer


@asynccontextmanager
async def connect(root: Path, transport: Transport, **more: Any) -> AsyncIterator[Client[Any]]:
    """Start a server and connect a real client to it."""
    flags = ("--external-runner", "claude")
    if transport == "stdio":
        async with Client(quick.build_transport(root, *flags, env=dict(os.environ)), **more) as client:
            yield client
        return
    with HttpServer(root, *flags, transport=transport) as server:
        async with Client(build_way(server, transport), **more) as client:
            yield client


def build_way(server: HttpServer, transport: Transport = "http") -> Any:
    if transport == "sse":
        return SSETransport(f"{server.url}/sse")
    return StreamableHttpTransport(f"{server.url}/mcp")


async def start_session(client: Client[Any]) -> str:
    begun = await client.call_tool(
        "start_workflow", {"goal": "x", "job_name": "one", "workflow_name": "main"}
    )
    assert begun.structured_content is not None
    id: str = begun.structured_content["begin_step"]["session_id"]
    return id


async def finish_step(client: Client[Any], session_id: str, **more: Any) -> Any:
    arguments = {"outputs": {"a.md": "a.md"}, "session_id": session_id}
    return await client.call_tool("finished_step", arguments, raise_on_error=False, **more)


async def count_attempts(client: Client[Any], session_id: str) -> int:
    found = (await client.call_tool("get_session", {"session_id": session_id})).structured_content
    assert found is not None
    count: int = found["session"]["step_progress"].get("a", {}).get("quality_attempts", 0)
    return count


# progress


@pytest.mark.parametrize(
    ("transport", "era"),
    [("stdio", "legacy"), ("stdio", "auto"), ("http", "legacy"), ("http", "auto"), ("sse", "legacy")],
)
def test_a_client_hears_of_each_review(root: Path, reviewer: Reviewer, transport: Transport, era: Any):
    reviewer.set_plan({**PASSED, "after_calls": 2}, {**PASSED, "after_calls": 2})
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async def work() -> None:
        async with connect(root, transport, mode=era) as client:
            answer = await finish_step(client, await start_session(client), progress_handler=hear)
            assert answer.structured_content["status"] == "next_step"

    anyio.run(work)

    # The SDK handles notifications concurrently, so they may be recorded out of order.
    heard.sort()
    assert [message for _, _, message in heard] == [
        "Started review 1 of 2",
        "Started review 2 of 2",
        "Finished 1 of 2 reviews",
        "Finished 2 of 2 reviews",
    ]
    assert all(one[0] < next[0] for one, next in pairwise(heard))
    assert {total for _, total, _ in heard} == {2}


# tasks


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_slow_review_becomes_a_task_and_its_result_is_that_of_the_call(
    root: Path, reviewer: Reviewer, transport: Transport
):
    reviewer.set_plan(SLOW)
    extension = TaskExtension()

    async def work() -> None:
        async with connect(root, transport, extensions=[extension]) as client:
            answer = await finish_step(client, await start_session(client))

            assert not answer.is_error
            assert answer.structured_content["status"] == "next_step"
            assert json.loads(answer.content[0].text) == answer.structured_content

    anyio.run(work)

    assert [each.status_message for each in extension.created] == ["Started review 2 of 2"]
    assert [each.status for each in extension.ended] == ["completed"]


def test_a_quick_call_of_a_client_that_knows_tasks_is_answered_directly(root: Path, reviewer: Reviewer):
    extension = TaskExtension()

    async def work() -> None:
        async with connect(root, "stdio", extensions=[extension]) as client:
            await start_session(client)
            answer = await client.call_tool("finished_step", {"outputs": {}}, raise_on_error=False)

            assert answer.is_error
            assert "INVALID_INPUT" in str(answer.content)

    anyio.run(work)

    assert extension.created == []
    assert reviewer.calls == []


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_cancelled_task_kills_its_reviewer_and_costs_no_attempt(
    root: Path, reviewer: Reviewer, transport: Transport
):
    reviewer.set_plan("hang")

    async def cancel(task: CreatedTask, session: ClientSession) -> None:
        await cancel_task(session, task.task_id)

    extension = TaskExtension(cancel)

    async def work() -> None:
        async with connect(root, transport, extensions=[extension]) as client:
            id = await start_session(client)
            await finish_step(client, id)
            assert await count_attempts(client, id) == 0

    anyio.run(work)

    assert [each.status for each in extension.ended] == ["cancelled"]
    assert reviewer.has_exited()


class ClientLeft(Exception):
    """Ends a client that has got a task."""


def test_a_task_goes_on_when_its_client_leaves_and_any_client_of_its_owner_gets_the_result(
    root: Path, reviewer: Reviewer
):
    reviewer.set_plan(SLOW)
    left_with: list[str] = []

    async def leave(task: CreatedTask, _: ClientSession) -> None:
        left_with.append(task.task_id)
        raise ClientLeft

    async def ask_and_leave(server: HttpServer) -> None:
        async with Client(build_way(server), extensions=[TaskExtension(leave)]) as client:
            with pytest.raises(ClientLeft):
                await finish_step(client, await start_session(client))

    async def come_back(server: HttpServer) -> None:
        async with Client(build_way(server), extensions=[TaskExtension()]) as client:
            found = await wait_for_task(client.session, left_with[0])
            assert found.status == "completed"
            assert found.result is not None
            assert found.result.structured_content is not None
            assert found.result.structured_content["status"] == "next_step"

    with HttpServer(root, "--external-runner", "claude") as server:
        anyio.run(ask_and_leave, server)
        anyio.run(come_back, server)


def test_another_token_does_not_find_a_task_and_neither_does_a_restarted_server(
    root: Path, reviewer: Reviewer
):
    reviewer.set_plan(SLOW)
    extension = TaskExtension()

    async def finish(server: HttpServer) -> None:
        async with Client(build_way(server), extensions=[extension]) as client:
            await finish_step(client, await start_session(client))
            await get_task(client.session, extension.created[0].task_id)

    async def fail_to_find(server: HttpServer, token: str | None) -> None:
        way = StreamableHttpTransport(f"{server.url}/mcp", auth=token)
        async with Client(way, extensions=[TaskExtension()]) as client:
            with pytest.raises(MCPError, match="Task not found"):
                await get_task(client.session, extension.created[0].task_id)

    with HttpServer(root, "--external-runner", "claude") as server:
        anyio.run(finish, server)
        anyio.run(fail_to_find, server, server.token)
    with HttpServer(root) as server:
        anyio.run(fail_to_find, server, None)


# clients and servers that end


def test_a_review_ends_when_its_client_over_stdio_is_killed(root: Path, reviewer: Reviewer):
    reviewer.set_plan("hang")
    script = Path(__file__).with_name("killed_client.py")
    words = [sys.executable, str(script), str(root), *quick.PLAIN]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        server = int(client.stdout.readline())
        reviewer.wait_for_a_call()

        client.kill()

    assert reviewer.has_exited()
    _wait_for_exit(server)


def test_a_server_over_http_that_is_terminated_ends_its_reviews_and_closes_the_store(
    root: Path, reviewer: Reviewer
):
    reviewer.set_plan("hang")
    with HttpServer(root, "--external-runner", "claude", command=quick.PLAIN) as server:
        session = McpSession(server)
        session.call(1, "start_workflow", {"goal": "x", "job_name": "one", "workflow_name": "main"})
        answers: list[Any] = []
        params = {"name": "finished_step", "arguments": {"outputs": {"a.md": "a.md"}}}
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        asking = threading.Thread(target=lambda: answers.append(session.post(message).json))
        asking.start()
        reviewer.wait_for_a_call()

        code = server.stop()
        asking.join(PATIENCE_SECONDS)

    assert code == 0
    assert reviewer.has_exited()
    assert answers == [{"jsonrpc": "2.0", "id": 2, "error": {"code": -32800, "message": "Request cancelled"}}]
    assert "Traceback" not in server.read_log()
    # The last connection that is closed removes the log of the store.
    assert not (root / ".deepwork" / "deepwork.db-wal").exists()


def test_a_server_over_http_that_is_terminated_ends_its_tasks(root: Path, reviewer: Reviewer):
    reviewer.set_plan("hang")
    has_task = threading.Event()

    async def wait(task: CreatedTask, _: ClientSession) -> None:
        has_task.set()
        raise ClientLeft

    async def ask(server: HttpServer) -> None:
        async with Client(build_way(server), extensions=[TaskExtension(wait)]) as client:
            with pytest.raises(ClientLeft):
                await finish_step(client, await start_session(client))

    with HttpServer(root, "--external-runner", "claude", command=quick.PLAIN) as server:
        anyio.run(ask, server)
        assert has_task.is_set()
        reviewer.wait_for_a_call()

        assert server.stop() == 0

    assert reviewer.has_exited()
    assert "Traceback" not in server.read_log()
    assert not (root / ".deepwork" / "deepwork.db-wal").exists()


def _wait_for_exit(pid: int) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while is_running(pid):
        assert time.monotonic() < end, "the server still runs"
        time.sleep(0.05)
