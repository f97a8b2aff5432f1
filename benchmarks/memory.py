"""Measures memory: of servers after many calls, and after storing much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from benchmarks.clients import BARE, HELLO, RAW, SERVE, HttpClient, StdioClient, open_http_servers
from benchmarks.crowd import Crowd, repeat_call
from benchmarks.projects import build_plan, register_agent
from benchmarks.timing import Effort, Samples, read_memory_mb

CALLS = 20_000
CHECKPOINTS = 50_000
SIDE_BY_SIDE = 16


def measure_memory(effort: Effort) -> Samples:
    """Measure megabytes after 20,000 calls, one in ten of which writes."""
    calls = min(CALLS, 800 * effort.calls)
    with StdioClient(RAW) as raw, StdioClient(*SERVE, str(effort.make_folder("memory"))) as ours:
        _call_side_by_side(raw, (HELLO for _ in range(calls)))
        _call_side_by_side(ours, _mix_calls(register_agent(ours), calls))
        took = {"raw memory": [raw.get_memory_mb()], "idle memory, stdio": [ours.get_memory_mb()]}
    with StdioClient(BARE) as bare:
        bare.call(*HELLO)
        took["echo memory"] = [bare.get_memory_mb()]
    return took | _measure_http_memory(effort, calls)


def measure_footprint(effort: Effort) -> Samples:
    """Measure what 10,000 tasks and 50,000 checkpoints occupy in the server and on disk."""
    folder = effort.make_folder("footprint")
    with StdioClient(RAW) as raw, StdioClient(*SERVE, str(folder)) as server:
        created = {"name": "large", "source_type": "prompt", "source_content": "Weigh."}
        id = server.call("workflow_create", created)["id"]
        before = server.get_memory_mb()
        server.call("workflow_set_plan", {"id": id, "plan": build_plan(10_000)})
        task = server.call("workflow_next_tasks", {"workflow_id": id})["tasks"][0]["id"]
        _call_side_by_side(server, _note_steps(task, min(CHECKPOINTS, 2_500 * effort.calls)))
        growth = server.get_memory_mb() - before
        floor = raw.get_memory_mb()
    size = (folder / ".deepwork" / "deepwork.db").stat().st_size / 2**20
    return {
        "raw memory": [floor],
        "memory grown by 10,000 tasks, 50,000 checkpoints": [growth],
        "file of 10,000 tasks, 50,000 checkpoints": [size],
    }


def _measure_http_memory(effort: Effort, calls: int) -> Samples:
    with open_http_servers(effort.make_folder("http-memory")) as (_, ours):
        agent = register_agent(HttpClient(ours.port))
        crowd = Crowd(ours.port, 8)
        for _ in range(calls // 160):
            crowd.run([repeat_call("agent_get", {"id": agent}, 18) for _ in range(8)])
            crowd.run([repeat_call("agent_heartbeat", {"agent_id": agent}, 2) for _ in range(8)])
        crowd.close()
        return {"idle memory, HTTP": [read_memory_mb(ours.process.pid)]}


def _mix_calls(agent: str, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for number in range(count):
        yield ("agent_get", {"id": agent}) if number % 10 else ("agent_heartbeat", {"agent_id": agent})


def _note_steps(task: str, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for number in range(count):
        summary = f"What was found in step {number} of the work."
        yield "checkpoint_add", {"task_id": task, "type": "progress", "summary": summary}


def _call_side_by_side(server: StdioClient, calls: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Send several calls in parallel, as several agents would; sequential calls would take too long."""
    waiting = iter(calls)
    while batch := list(islice(waiting, SIDE_BY_SIDE)):
        for tool, arguments in batch:
            server.send(tool, arguments)
        for _ in batch:
            server.receive()
