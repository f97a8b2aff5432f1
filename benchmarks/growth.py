"""Measures how calls grow: with the tasks of a plan, with running claims, with servers on one file."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

from benchmarks.clients import SERVE, Caller, StdioClient
from benchmarks.projects import build_plan, claim, complete, create_plan, register_agent
from benchmarks.timing import Effort, Samples, Work, measure_ms, take_turns

SMALL, LARGE = 100, 10_000
MANY_CLAIMS = 300
MANY_SERVERS = 50
MEASURED = 20


def measure_plan_growth(effort: Effort) -> Samples:
    """Measure the same calls on plans of 100 and of 10,000 tasks, in turns."""
    work: dict[str, Work] = {}
    with ExitStack() as stack:
        for size in (SMALL, LARGE):
            folder = str(effort.make_folder(f"growth-{size}"))
            server = stack.enter_context(StdioClient(*SERVE, folder))
            work |= {f"{name} ({size:,} tasks)": call for name, call in _list_calls(server, size).items()}
        return take_turns(work, effort.rounds, max(1, effort.calls // 4))


def _list_calls(server: Caller, size: int) -> dict[str, Work]:
    agent = register_agent(server)
    workflow, tasks = create_plan(server, build_plan(size))
    task = {"task_id": tasks[0]}
    claim(server, tasks[0], agent)
    holding: list[bool] = []

    def claim_or_release() -> Any:
        """Claim a task, or release the one that the call before has claimed."""
        if holding and holding.pop():
            return server.call("task_release", {"task_id": tasks[1], "agent_id": agent})
        holding.append(True)
        return claim(server, tasks[1], agent)

    return {
        "task_get": partial(server.call, "task_get", {"id": tasks[0]}),
        "task_claim and task_release": claim_or_release,
        "checkpoint_add": partial(
            server.call, "checkpoint_add", task | {"type": "progress", "summary": "half", "agent_id": agent}
        ),
        "workflow_next_tasks": partial(server.call, "workflow_next_tasks", {"workflow_id": workflow}),
        "workflow_progress": partial(server.call, "workflow_progress", {"workflow_id": workflow}),
        "task_load_context": partial(server.call, "task_load_context", task),
        "workflow_get_summary": partial(server.call, "workflow_get_summary", {"id": workflow}),
        "task_get_available": partial(
            server.call, "task_get_available", {"agent_id": agent, "workflow_id": workflow}
        ),
    }


def measure_claim_growth(effort: Effort) -> Samples:
    """Measure claims and their end while 1 and while 300 tasks of the plan are running."""
    took: Samples = {}
    with StdioClient(*SERVE, str(effort.make_folder("claims"))) as server:
        agent, other = register_agent(server), register_agent(server, "Bob")
        for running in (1, MANY_CLAIMS):
            _, tasks = create_plan(server, build_plan(MANY_CLAIMS + MEASURED * effort.rounds, "wide"))
            for task in tasks[:running]:
                claim(server, task, other)
            few = min(len(tasks) - running, effort.rounds * 4)
            label = f"{running} running"
            for task in tasks[running : running + few]:
                took.setdefault(f"task_claim ({label})", []).append(
                    measure_ms(partial(claim, server, task, agent))
                )
                took.setdefault(f"task_update_status ({label})", []).append(
                    measure_ms(partial(complete, server, task, agent))
                )
    return took


def measure_server_growth(effort: Effort) -> Samples:
    """Measure one of 1 and one of 50 servers on one file, and 50 that write at once."""
    folder = str(effort.make_folder("servers"))
    took: Samples = {}
    with ExitStack() as stack:
        servers = [stack.enter_context(StdioClient(*SERVE, folder))]
        agent = register_agent(servers[0])
        for count in (1, MANY_SERVERS):
            while len(servers) < count:
                servers.append(stack.enter_context(StdioClient(*SERVE, folder)))
                servers[-1].call("agent_get", {"id": agent})  # opens the store
            label = f"({count} server{'s' * (count > 1)})"
            work = {
                f"agent_get {label}": partial(servers[0].call, "agent_get", {"id": agent}),
                f"agent_heartbeat {label}": partial(servers[0].call, "agent_heartbeat", {"agent_id": agent}),
            }
            took |= take_turns(work, effort.rounds, max(1, effort.calls // 4))
            took[f"agent_heartbeat of all at once, each {label}"] = [
                measure_ms(partial(_beat_at_once, servers, agent)) / count for _ in range(effort.rounds)
            ]
    return took


def _beat_at_once(servers: list[StdioClient], agent: str) -> None:
    for server in servers:
        server.send("agent_heartbeat", {"agent_id": agent})
    for server in servers:
        server.receive()
