"""Part of `make demo`: a plan of eight tasks and three agent processes, one of which dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

DEEPWORK = [sys.executable, "-P", "-m", "deepwork"]
LEASE_SECONDS = 2
DOOMED = "Bo"

PLAN = {
    "summary": "A shop that takes orders",
    "approach": "Agree on the data, build both halves side by side, then put them together.",
    "tasks": [
        {"name": "agree on the data", "description": "What an order is.", "sequence": 1},
        *(
            {
                "name": f"build {part}",
                "description": f"The {part} of an order.",
                "sequence": 2,
                "parallel_group": "build",
                "files_likely_affected": [f"shop/{part}/**"],
            }
            for part in ("page", "store", "mail")
        ),
        {"name": "put together", "description": "All three as one shop.", "sequence": 3},
        *(
            {
                "name": f"test {part}",
                "description": f"Try the {part}.",
                "sequence": 4,
                "parallel_group": "test",
            }
            for part in ("buying", "returning")
        ),
        {"name": "write the manual", "description": "For the salespeople.", "sequence": 5},
    ],
}


def build_transport(project: Path) -> StdioTransport:
    """Build the transport to a new server process on the project's store."""
    arguments = [
        *DEEPWORK[1:],
        "serve",
        "--log-level",
        "warning",
        "--path",
        str(project),
        "--toolsets",
        "plans,agents",
    ]
    environment = {**os.environ, "DEEPWORK_LEASE_SECONDS": str(LEASE_SECONDS)}
    return StdioTransport(DEEPWORK[0], arguments, env=environment, keep_alive=False)


async def call(client: Client[Any], tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    return result.structured_content


async def work(project: Path, workflow_id: str, name: str) -> None:
    """Work as an agent: claim tasks, add checkpoints, report results, until the plan is done."""
    async with Client(build_transport(project)) as client:
        me = (await call(client, "agent_register", name=name, runtime="custom"))["id"]
        while True:
            free = (await call(client, "task_get_available", agent_id=me, workflow_id=workflow_id))["tasks"]
            if not free:
                if (await call(client, "workflow_next_tasks", workflow_id=workflow_id))["all_complete"]:
                    return
                await anyio.sleep(0.1)
                continue
            claim = await call(client, "task_claim", task_id=free[0]["id"], agent_id=me)
            if claim["success"]:
                await do(client, free[0], me, name)


async def do(client: Client[Any], task: dict[str, Any], me: str, name: str) -> None:
    """Start a task, add a checkpoint, and complete it; the doomed agent never completes."""
    context = await call(client, "task_load_context", task_id=task["id"], max_tokens=2000)
    checkpoints = context["current_task"]["checkpoints"]
    notes = [note["summary"] for note in checkpoints if note["type"] == "progress"]
    again = f" and continues from the checkpoint: {notes[-1]}" if notes else ""
    print(f"  {name:<4} takes {task['name']!r}{again}", flush=True)
    await call(client, "task_update_status", id=task["id"], status="in_progress", agent_id=me)
    summary = f"{name} wrote the first half of {task['name']!r}"
    await call(client, "checkpoint_add", task_id=task["id"], type="progress", summary=summary, agent_id=me)
    if name == DOOMED:
        print(f"  {name:<4} is in the middle of {task['name']!r}", flush=True)
        await anyio.sleep_forever()
    await anyio.sleep(0.2)
    outcome = f"{task['name']} is done"
    await call(client, "task_update_status", id=task["id"], status="completed", outcome=outcome, agent_id=me)


def begin_agent(project: Path, workflow_id: str, name: str) -> subprocess.Popen[str]:
    """Start an agent process, which starts its own server; both are in one process group."""
    command = [sys.executable, "-P", __file__, name, str(project), workflow_id]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, start_new_session=True)


def follow(process: subprocess.Popen[str]) -> None:
    """Print an agent's output; kill the doomed agent in the middle of its task."""
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        if "in the middle" in line:
            os.killpg(process.pid, signal.SIGKILL)
            print(f"  {DOOMED:<4} is killed (kill -9)", flush=True)


async def main(project: Path) -> str:
    async with Client(build_transport(project)) as client:
        made = await call(
            client,
            "workflow_create",
            name="shop",
            source_type="prompt",
            max_parallel_tasks=3,
            source_content="We want to sell things on the web.",
        )
        planned = await call(client, "workflow_set_plan", id=made["id"], plan=PLAN)
        print(
            f"A plan of {planned['tasks_created']} tasks with {planned['parallelizable_groups']} parallel groups:"
        )
        agents = [begin_agent(project, made["id"], name) for name in ("Ada", DOOMED, "Cy")]
        async with anyio.create_task_group() as watchers:
            for agent in agents:
                watchers.start_soon(anyio.to_thread.run_sync, follow, agent)
        for agent in agents:
            agent.wait(timeout=60)
        summary = await call(client, "workflow_get_summary", id=made["id"], format="markdown")
        print(f"\n{summary['summary']}")
        status = (await call(client, "workflow_get", id=made["id"]))["status"]
        return f"{planned['tasks_created']} tasks, {status}; {DOOMED} was killed, and another agent took its task over"


def show(project: Path) -> str:
    """Run a plan with three agents in this project; return what happened."""
    print("A plan and three agents, one of which dies\n")
    return anyio.run(main, project)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        anyio.run(work, Path(sys.argv[2]), sys.argv[3], sys.argv[1])
    else:
        with tempfile.TemporaryDirectory(prefix="deepwork-demo-") as own:
            print(show(Path(own)))
