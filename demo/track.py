"""Part of `make demo`: a tracked workflow of two phases with parallel agents in one tree, and who changed what."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

DEEPWORK = [sys.executable, "-P", "-m", "deepwork"]
GIT_IDENTITY = {
    "GIT_AUTHOR_NAME": "demo",
    "GIT_AUTHOR_EMAIL": "demo@example.org",
    "GIT_COMMITTER_NAME": "demo",
    "GIT_COMMITTER_EMAIL": "demo@example.org",
}


def git(project: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=project, env={**os.environ, **GIT_IDENTITY}, check=True)


def build_transport(project: Path) -> StdioTransport:
    """Build the transport to a new server process on the project's store."""
    return StdioTransport(
        DEEPWORK[0],
        [*DEEPWORK[1:], "serve", "--log-level", "warning", "--path", str(project), "--toolsets", "tracking"],
        keep_alive=False,
    )


async def call(client: Client[Any], tool: str, **arguments: Any) -> Any:
    return (await client.call_tool(tool, arguments)).structured_content


async def run_subagent(
    project: Path, ids: dict[str, str], name: str, area: str, begun: anyio.Event, go: anyio.Event
) -> None:
    """Start a task, write into its area, log a decision and complete the task, with its own server."""
    async with Client(build_transport(project)) as client:
        task = await call(
            client,
            "start_task",
            **ids,
            caller_type="subagent",
            agent_name=name,
            name=f"write the {area}",
            goal=f"A first {area}",
            areas=[area],
        )
        begun.set()
        await go.wait()
        (project / area).mkdir()
        (project / area / f"{name}.md").write_text(f"What {name} wrote.\n")
        (project / "notes.md").open("a").write(f"{name} was here.\n")
        await call(
            client,
            "log_decision",
            task_id=task["task_id"],
            category="trade_off",
            question=f"How much {area}?",
            chosen="Little",
            reasoning="It can grow later.",
        )
        done = await call(
            client,
            "complete_task",
            task_id=task["task_id"],
            status="success",
            outcome={"summary": f"The {area} is written."},
        )
        for path, how in done["attribution"].items():
            print(f"  {name:<4} changed {path:<14} ({how})", flush=True)


async def run_phase(client: Client[Any], project: Path, workflow_id: str, number: int, **crew: str) -> None:
    """Run a phase: its agents work in parallel, and it ends after all of them."""
    name = ("Draft", "Finish")[number - 1]
    print(f"Phase {number}: {name}")
    started = await call(
        client, "start_phase", workflow_id=workflow_id, number=number, name=name, is_parallel=len(crew) > 1
    )
    ids = {"workflow_id": workflow_id, "phase_id": started["phase_id"]}
    begun, go = [anyio.Event() for _ in crew], anyio.Event()
    async with anyio.create_task_group() as group:
        for event, (agent, area) in zip(begun, crew.items(), strict=True):
            group.start_soon(run_subagent, project, ids, agent, area, event, go)
        for event in begun:
            await event.wait()
        go.set()
    await call(client, "complete_phase", phase_id=started["phase_id"], status="completed")


async def main(project: Path) -> str:
    git(project, "init", "--quiet")
    (project / "notes.md").write_text("Notes\n")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "first")
    async with Client(build_transport(project)) as client:
        workflow = await call(client, "start_workflow", name="manual", objective="A manual that is read")
        await run_phase(client, project, workflow["workflow_id"], 1, Ada="guide", Bo="examples")
        await run_phase(client, project, workflow["workflow_id"], 2, Cy="index")
        ended = await call(
            client,
            "complete_workflow",
            workflow_id=workflow["workflow_id"],
            status="completed",
            summary="The manual has a guide, examples and an index.",
        )
        figures = ended["metrics"]
        context = await call(client, "get_context", workflow_id=workflow["workflow_id"], include=["tasks"])
        last = context["tasks"][-1]["id"]
        shown = await call(client, "get_task_diff", task_id=last, path="notes.md")
        print(f"\nWhat the last task changed in notes.md:\n\n{shown['files'][0]['diff']}", end="")
        return (
            f"{figures['total_phases']} phases, {figures['total_tasks']} tasks, {figures['decisions']} decisions,"
            f" {figures['files_changed']} files changed; {ended['status']}"
        )


def show(project: Path) -> str:
    """Run a tracked workflow in this project; return what happened."""
    print("A record of work as it happens: three agents, two phases, and who changed what\n")
    return anyio.run(main, project)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="deepwork-demo-") as own:
        print(show(Path(own)))
