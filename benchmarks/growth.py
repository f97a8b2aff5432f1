"""Measures how calls grow: with the tasks of a plan, with running claims, with servers on one file."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from benchmarks.clients import SERVE, Caller, StdioClient
from benchmarks.projects import build_plan, claim, complete, create_plan, register_agent, release
from benchmarks.timing import Effort, Samples, Work, measure_ms, take_turns

SMALL, LARGE = 100, 10_000
MANY_CLAIMS = 300
MANY_SERVERS = 50
MEASURED = 20
GROWING = (
    "task_claim and task_release",
    "task_claim and task_update_status (completed)",
    "workflow_next_tasks",
    "workflow_progress",
    "workflow_get_summary",
    "task_get_available",
)


def measure_plan_growth(effort: Effort) -> Samples:
    """Measure the same calls on plans of 100 and of 10,000 tasks, in turns."""
    work: dict[str, Work] = {}
    with ExitStack() as stack:
        for size in (SMALL, LARGE):
            folder = str(effort.make_folder(f"growth-{size}"))
            server = stack.enter_context(StdioClient(*SERVE, folder))
            work |= {f"{name} ({size:,} tasks)": call for name, call in _list_calls(server, size).items()}
        return take_turns(work, min(effort.rounds, 15), max(1, min(effort.calls // 4, 5)))


def _list_calls(server: Caller, size: int) -> dict[str, Work]:
    agent = register_agent(server)
    workflow, tasks = create_plan(server, build_plan(size))
    claimed, *ready = tasks[:100]  # the first layer, whose tasks can start at once

    def claim_and_release() -> None:
        claim(server, claimed, agent)
        release(server, claimed, agent)

    def claim_and_complete() -> None:
        task = ready.pop()
        claim(server, task, agent)
        complete(server, task, agent)

    calls: tuple[Work, ...] = (
        claim_and_release,
        claim_and_complete,
        partial(server.call, "workflow_next_tasks", {"workflow_id": workflow}),
        partial(server.call, "workflow_progress", {"workflow_id": workflow}),
        partial(server.call, "workflow_get_summary", {"id": workflow}),
        partial(server.call, "task_get_available", {"agent_id": agent, "workflow_id": workflow}),
    )
    return dict(zip(GROWING, calls, strict=True))


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
    """Measure 1 server, and 50 on one file that write at once."""
    folder = str(effort.make_folder("servers"))
    took: Samples = {}
    with ExitStack() as stack:
        servers = [stack.enter_context(StdioClient(*SERVE, folder))]
        agent = register_agent(servers[0])
        for count in (1, MANY_SERVERS):
            while len(servers) < min(count, 3 * effort.calls):
                servers.append(stack.enter_context(StdioClient(*SERVE, folder)))
                servers[-1].call("agent_get", {"id": agent})  # opens the store
            label = f"({count} server{'s' * (count > 1)})"
            took[f"agent_heartbeat {label}"] = [
                measure_ms(partial(_beat_at_once, servers, agent)) / len(servers)
                for _ in range(effort.rounds)
            ]
    return took


def _beat_at_once(servers: list[StdioClient], agent: str) -> None:
    for server in servers:
        server.send("agent_heartbeat", {"agent_id": agent})
    for server in servers:
        server.receive()
