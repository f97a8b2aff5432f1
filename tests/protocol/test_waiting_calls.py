"""A call that waits for tasks, on a real server: other calls are answered meanwhile, and it can be cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.stdio_server import StdioServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StdioServer]:
    with StdioServer(tmp_path) as server:
        yield server


@pytest.fixture
def workflow(server: StdioServer) -> str:
    """A plan whose second task waits for the first, which is running."""
    made = {"name": "w", "source_type": "prompt", "source_content": "x"}
    id: str = server.call("workflow_create", made)["id"]
    tasks = [{"name": "a"}, {"name": "b", "sequence": 2}]
    server.call("workflow_set_plan", {"id": id, "plan": {"summary": "Two.", "tasks": tasks}})
    set_first_status(server, id, "in_progress")
    return id


def set_first_status(server: StdioServer, workflow: str, status: str) -> Any:
    [first, _] = server.call("workflow_get", {"id": workflow, "include_tasks": True})["tasks"]
    return server.call("task_update_status", {"id": first["id"], "status": status, "outcome": "Done."})


def send_waiting_call(server: StdioServer, workflow: str) -> None:
    arguments = {"workflow_id": workflow, "wait_seconds": 30}
    params = {"name": "workflow_next_tasks", "arguments": arguments}
    server.send({"jsonrpc": "2.0", "id": "waiting", "method": "tools/call", "params": params})


def cancel_waiting_call(server: StdioServer) -> None:
    cancelled = {"requestId": "waiting", "reason": "enough"}
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})


def test_other_calls_are_answered_while_one_waits(server: StdioServer, workflow: str):
    send_waiting_call(server, workflow)

    assert server.call("workflow_progress", {"workflow_id": workflow})["total_tasks"] == 2
    assert server.request("ping")["result"] == {}
    cancel_waiting_call(server)  # a server that stops waits for its calls


def test_a_waiting_call_is_woken_by_another_process(server: StdioServer, workflow: str, tmp_path: Path):
    send_waiting_call(server, workflow)

    with StdioServer(tmp_path) as other:
        set_first_status(other, workflow, "completed")
        answer = server.receive()

    assert answer["id"] == "waiting"
    assert [task["name"] for task in answer["result"]["structuredContent"]["tasks"]] == ["b"]


def test_a_cancelled_call_stops_waiting(server: StdioServer, workflow: str):
    send_waiting_call(server, workflow)
    cancel_waiting_call(server)

    assert server.request("ping")["result"] == {}
    assert server.stop() == 0  # waits for running calls: for this one half a second, not thirty


@pytest.mark.parametrize("seconds", [-1, 31])
def test_nobody_waits_longer_than_half_a_minute(server: StdioServer, workflow: str, seconds: int):
    refused = server.call("workflow_next_tasks", {"workflow_id": workflow, "wait_seconds": seconds})

    assert refused["code"] == "INVALID_INPUT"
