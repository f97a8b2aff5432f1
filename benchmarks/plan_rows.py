"""Measures plans: small calls next to an echo, and how large plans scale."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count as numbers
from itertools import islice
from pathlib import Path
from typing import Any

from clients import Caller, StdioClient
from deepwork.call import Call
from deepwork.config import load_settings
from deepwork.server.application import Application
from deepwork.server.invocation import invoke

READ, WRITE = 1.6, 2.5
SMALL = 8
SIZES = (10, 100, 1_000, 10_000)
LARGE = (1_000, 10_000)
MOST_CHECKPOINTS = 50_000
SIDE_BY_SIDE = 16
SERVER_MS = {
    "set_plan (1,000)": 60.0,
    "set_plan (10,000)": 500.0,
    **{
        f"{tool} (10,000 {shape})": 12.0
        for tool in ("next_tasks", "progress")
        for shape in ("layered", "wide")
    },
}
"""The highest duration of a call in the server, in milliseconds."""
MOST_BYTES = 20_000
MOST_GROWTH_MB = 60.0


def build_plan(size: int, shape: str = "layered") -> dict[str, Any]:
    """Build a plan: layers of a hundred tasks, each depending on the one before, or all parallel ("wide")."""
    tasks = [
        {
            "name": f"task {number}",
            "description": f"What is to be done in part {number} of the work.",
            "sequence": number // 100 + 1 if shape == "layered" else 1,
            "files_likely_affected": [f"src/part_{number}.py"],
        }
        for number in range(size)
    ]
    return {"summary": "A large plan", "approach": "One after the other.", "tasks": tasks}


class PlanFixture:
    """A small plan to read, and a wide plan to claim tasks from."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.agent = caller.call("agent_register", {"name": "Ada", "runtime": "custom"})["id"]
        self.small, [self.task, *_] = self._create_plan(build_plan(SMALL))
        self.tasks: list[str] = []
        self.claimed: list[str] = []
        self._places = numbers()

    def fill(self, size: int) -> None:
        """Create plans until there are `size` tasks to claim."""
        while len(self.tasks) < size:
            self.tasks += self._create_plan(build_plan(1_000, "wide"), limit=1_000)[1]

    def _create_plan(self, made: dict[str, Any], limit: int = 100) -> tuple[str, list[str]]:
        created = {
            "name": "bench",
            "source_type": "prompt",
            "source_content": "Measure.",
            "max_parallel_tasks": 10_000,
        }
        id: str = self._caller.call("workflow_create", created)["id"]
        self._caller.call("workflow_set_plan", {"id": id, "plan": made})
        tasks = self._caller.call("workflow_get", {"id": id, "include_tasks": True, "task_limit": limit})[
            "tasks"
        ]
        return id, [task["id"] for task in tasks]

    def list_calls(self) -> dict[str, tuple[Callable[[int], Any], float]]:
        """Return every small call, and its highest ratio to the echo."""
        call = self._caller.call
        return {
            "task_get": (lambda _: call("task_get", {"id": self.task}), READ),
            "workflow_next_tasks (8)": (
                lambda _: call("workflow_next_tasks", {"workflow_id": self.small}),
                READ,
            ),
            "workflow_progress (8)": (lambda _: call("workflow_progress", {"workflow_id": self.small}), READ),
            "workflow_create": (self._create, WRITE),
            "task_claim": (self._claim, WRITE),
            "task_update_status": (self._complete, WRITE),
            "checkpoint_add": (self._add_checkpoint, WRITE),
            "task_load_context": (lambda _: call("task_load_context", {"task_id": self.task}), 0.0),
        }

    def _create(self, number: int) -> Any:
        given = {"name": f"plan {number}", "source_type": "prompt", "source_content": "Do it."}
        return self._caller.call("workflow_create", given)

    def _claim(self, _: int) -> Any:
        task = self.tasks[next(self._places)]
        self.claimed.append(task)
        return self._caller.call("task_claim", {"task_id": task, "agent_id": self.agent})

    def _complete(self, _: int) -> Any:
        given = {"id": self.claimed.pop(), "status": "completed", "outcome": "done", "agent_id": self.agent}
        return self._caller.call("task_update_status", given)

    def _add_checkpoint(self, number: int) -> Any:
        given = {
            "task_id": self.task,
            "type": "progress",
            "summary": f"step {number}",
            "agent_id": self.agent,
        }
        return self._caller.call("checkpoint_add", given)


def measure_large_plans(folder: Path) -> Iterator[dict[str, Any]]:
    """Measure milliseconds in the server itself, without a transport, by size of the plan."""
    folder.mkdir()
    app = Application(load_settings(folder, {}, environment={}))

    def ask(tool: str, **arguments: Any) -> Any:
        return invoke(app.database, app.registry[tool], arguments, Call("bench", tool))

    ask("workflow_list")
    for size in SIZES:
        yield _build_figure(
            f"set_plan ({size:,})", [_create_plan(ask, build_plan(size))[1] for _ in range(3)]
        )
    for shape in ("layered", "wide"):
        for size in LARGE:
            id, _ = _create_plan(ask, build_plan(size, shape))
            for name, tool in (("next_tasks", "workflow_next_tasks"), ("progress", "workflow_progress")):
                took = [_measure_ms(lambda: ask(tool, workflow_id=id)) for _ in range(11)]  # noqa: B023
                answer = len(json.dumps(ask(tool, workflow_id=id)).encode())
                yield _build_figure(f"{name} ({size:,} {shape})", took) | {"bytes": answer}
    app.close()


def measure_footprint(folder: Path) -> Iterator[dict[str, Any]]:
    """Measure a server's memory and file size after 10,000 tasks and 50,000 checkpoints."""
    folder.mkdir()
    server = StdioClient("-m", "deepwork", "serve", "--path", str(folder))
    created = {"name": "large", "source_type": "prompt", "source_content": "Weigh."}
    id = server.call("workflow_create", created)["id"]
    before = server.get_memory_mb()
    server.call("workflow_set_plan", {"id": id, "plan": build_plan(10_000)})
    task = server.call("workflow_next_tasks", {"workflow_id": id})["tasks"][0]["id"]
    notes = (
        {"task_id": task, "type": "progress", "summary": f"What was found in step {number} of the work."}
        for number in range(MOST_CHECKPOINTS)
    )
    _call_side_by_side(server, "checkpoint_add", notes)
    growth = server.get_memory_mb() - before
    server.close()
    size = (folder / ".deepwork" / "deepwork.db").stat().st_size / 2**20
    yield {
        "name": "memory grown by 10,000 tasks, 50,000 checkpoints",
        "mb": round(growth, 1),
        "ratio": round(growth / MOST_GROWTH_MB, 2),
        "target": 1.0,
    }
    yield {"name": "file of 10,000 tasks, 50,000 checkpoints", "mb": round(size, 1), "ratio": 0.0}


def _call_side_by_side(server: StdioClient, tool: str, calls: Iterable[dict[str, Any]]) -> None:
    """Send several calls in parallel, as several agents would; sequential calls would take too long."""
    assert server.process.stdin is not None
    assert server.process.stdout is not None
    for batch in _split_batches(enumerate(calls), SIDE_BY_SIDE):
        for number, arguments in batch:
            asked = {"name": tool, "arguments": arguments}
            message = {"jsonrpc": "2.0", "id": f"{tool} {number}", "method": "tools/call", "params": asked}
            server.process.stdin.write(json.dumps(message).encode() + b"\n")
        server.process.stdin.flush()
        for _ in batch:
            answer = json.loads(server.process.stdout.readline())
            assert not answer["result"].get("isError"), answer


def _split_batches(each: Iterable[Any], size: int) -> Iterator[list[Any]]:
    waiting = iter(each)
    while batch := list(islice(waiting, size)):
        yield batch


def _create_plan(ask: Callable[..., Any], made: dict[str, Any]) -> tuple[str, float]:
    """Create a workflow; return its id and how long it took to set its plan."""
    id: str = ask(
        "workflow_create", name="large", source_type="prompt", source_content="x", max_parallel_tasks=8
    )["id"]
    return id, _measure_ms(lambda: ask("workflow_set_plan", id=id, plan=made))


def _measure_ms(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _build_figure(name: str, took: list[float]) -> dict[str, Any]:
    """Build a figure, with its ratio to the target in milliseconds if there is one."""
    p50, most = statistics.median(took), SERVER_MS.get(name)
    figure = {"name": f"in the server {name}", "p50_ms": round(p50, 3), "p99_ms": round(max(took), 3)}
    return figure | ({"ratio": round(p50 / most, 2), "target": 1.0} if most else {"ratio": 0.0})
