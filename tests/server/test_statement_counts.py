"""How many SQL statements the tools execute that agents call most.

A statement more is a slower call, on PostgreSQL by a round trip. Lower a number when you save a statement.
"""

from __future__ import annotations

from typing import Any

import pytest

from application import LEASE_MS, Clock, call_tool
from deepwork.edge.server.application import Application
from statement_counter import count_statements

STATEMENTS = {
    "agent_heartbeat": 7,
    "message_send": 10,
    "task_claim": 18,
    "task_update_status in_progress": 14,
    "checkpoint_add": 15,
    "task_update_status completed": 22,
}
"""By tool, on SQLite; PostgreSQL appends the audit entry with one statement less. There a claim also asks once
whether work that the task builds on may be on another machine.

All but two look for notices, with one SELECT: nothing is written unless one waits. A checkpoint asks once whether its
task has a tree of which a snapshot is to be taken."""
READS = {
    "agent_get": 1,
    "agent_list": 2,
    "task_get": 3,
    "checkpoint_list": 2,
    "message_list": 5,
    "message_count_unread": 2,
    "workflow_get": 1,
    "workflow_list": 1,
    "workflow_next_tasks": 5,
    "workflow_progress": 5,
    "workflow_get_summary": 6,
    "task_check_dependencies": 3,
    "task_load_context": 10,
}
"""The same for reading tools."""
_ABOUT_A_TASK = ("checkpoint_list", "task_check_dependencies", "task_load_context")
MANY = 300


@pytest.fixture
def agents(app: Application) -> list[str]:
    return [call_tool(app, "agent_register", name=name, runtime="custom")["id"] for name in ("a", "b")]


def create_tasks(app: Application, *tasks: dict[str, Any]) -> list[str]:
    """Create a plan whose tasks wait for nothing, and return their ids."""
    workflow = call_tool(
        app,
        "workflow_create",
        name="release",
        source_type="prompt",
        source_content="Release it.",
        max_parallel_tasks=1000,
    )["id"]
    call_tool(app, "workflow_set_plan", id=workflow, plan={"summary": "In steps.", "tasks": list(tasks)})
    listed = call_tool(app, "workflow_get", id=workflow, include_tasks=True, task_limit=1000)
    return [task["id"] for task in listed["tasks"]]


def name_task(number: int, *files: str) -> dict[str, Any]:
    return {"name": f"task {number}", "sequence": 1, "files_likely_affected": list(files)}


def count_in_loop(app: Application, clock: Clock, agents: list[str], task: str) -> dict[str, int]:
    """Do one task as an agent does, and count the statements of each call."""
    agent, other = agents
    calls: list[tuple[str, dict[str, Any]]] = [
        ("agent_heartbeat", {"agent_id": agent}),
        (
            "message_send",
            {"sender_id": agent, "recipient_id": other, "message_type": "query", "body": "Ready?"},
        ),
        ("task_claim", {"task_id": task, "agent_id": agent}),
        ("task_update_status", {"id": task, "status": "in_progress", "agent_id": agent}),
        ("checkpoint_add", {"task_id": task, "type": "progress", "summary": "Half.", "agent_id": agent}),
        ("task_update_status", {"id": task, "status": "completed", "outcome": "Done.", "agent_id": agent}),
    ]
    counts = {}
    for tool, arguments in calls:
        clock.advance(seconds=1)
        with count_statements() as counter:
            call_tool(app, tool, **arguments)
        counts[f"{tool} {arguments.get('status', '')}".strip()] = counter.count
    return counts


def test_the_calls_of_a_worker_execute_few_statements(
    app: Application, clock: Clock, agents: list[str], location: str
):
    first, second, _ = create_tasks(app, *(name_task(number, f"src/{number}.py") for number in range(3)))
    count_in_loop(app, clock, agents, first)  # starts the workflow, and looks for silent agents

    counts = count_in_loop(app, clock, agents, second)

    is_shared = "://" in location
    expected = {tool: count - is_shared for tool, count in STATEMENTS.items()}
    expected["task_claim"] += is_shared
    assert counts == expected


def test_reading_tools_execute_few_statements(app: Application, agents: list[str]):
    agent, other = agents
    first, _ = create_tasks(app, name_task(1, "src/1.py"), name_task(2, "src/2.py"))
    workflow = call_tool(app, "task_get", id=first)["workflow_id"]
    call_tool(app, "task_claim", task_id=first, agent_id=agent)
    call_tool(app, "checkpoint_add", task_id=first, type="progress", summary="Half.", agent_id=agent)
    call_tool(app, "message_send", sender_id=agent, recipient_id=other, message_type="query", body="Ready?")
    given = {"agent_get": {"id": agent}, "agent_list": {}, "task_get": {"id": first}, "workflow_list": {}}
    given |= {tool: {"task_id": first} for tool in READS if tool in _ABOUT_A_TASK}
    given |= {tool: {"agent_id": other} for tool in READS if tool.startswith("message_")}
    given |= {tool: {"workflow_id": workflow} for tool in ("workflow_next_tasks", "workflow_progress")}
    given |= {tool: {"id": workflow} for tool in ("workflow_get", "workflow_get_summary")}

    counts = {}
    for tool in READS:
        with count_statements() as counter:
            call_tool(app, tool, **given[tool])
        counts[tool] = counter.count

    assert counts == READS


def test_a_claim_reads_no_files_of_running_tasks_that_it_cannot_conflict_with(
    app: Application, agents: list[str]
):
    tasks = [name_task(number, f"src/{number}.py", f"tests/test_{number}.py") for number in range(MANY + 1)]
    *running, last = create_tasks(app, *tasks)
    for task in running:
        call_tool(app, "task_claim", task_id=task, agent_id=agents[0])

    with count_statements() as counter:
        claimed = call_tool(app, "task_claim", task_id=last, agent_id=agents[1])

    assert claimed["success"]
    assert "conflicts_with" not in claimed
    assert counter.count <= STATEMENTS["task_claim"]
    assert counter.rows < 10


@pytest.mark.parametrize("conflicting", [0, 5])
def test_completing_a_task_reads_more_ready_tasks_than_it_names_only_if_those_conflict(
    app: Application, agents: list[str], conflicting: int
):
    tasks = [
        name_task(number, "same.py" if number <= conflicting else f"{number}.py") for number in range(60)
    ]
    running, *ready, last = create_tasks(app, name_task(0, "same.py"), *tasks[1:], name_task(99, "last.py"))
    for task in (running, last):
        call_tool(app, "task_claim", task_id=task, agent_id=agents[0])

    given = {"id": last, "status": "completed", "outcome": "Done.", "agent_id": agents[0]}
    with count_statements() as counter:
        answer = call_tool(app, "task_update_status", **given)

    assert [task["id"] for task in answer["next_tasks"]] == ready[conflicting : conflicting + 3]
    assert (counter.rows > 60) == bool(conflicting)


def test_one_call_saves_the_acting_agent_once(app: Application, agents: list[str], clock: Clock):
    first, second = create_tasks(app, name_task(1), name_task(2))
    call_tool(app, "task_claim", task_id=first, agent_id=agents[0])
    clock.advance(seconds=1)

    with count_statements() as claim:
        call_tool(app, "task_claim", task_id=second, agent_id=agents[0])
    with count_statements() as refused:
        call_tool(app, "task_claim", task_id=second, agent_id=agents[1])
    with count_statements() as completed:
        call_tool(
            app, "task_update_status", id=second, status="completed", outcome="Done.", agent_id=agents[0]
        )

    for counter in (claim, refused, completed):
        assert len([sql for sql in counter.statements if sql.startswith("UPDATE agents SET")]) == 1


def test_agents_are_not_searched_for_silence_before_a_lease_can_have_ended(
    app: Application, agents: list[str], clock: Clock
):
    def count_searches() -> int:
        with count_statements() as counter:
            call_tool(app, "agent_heartbeat", agent_id=agents[0])
        return len([sql for sql in counter.statements if "silent_since = :now" in sql])

    count_searches()

    assert count_searches() == 0
    clock.advance(seconds=LEASE_MS / 1000)
    assert count_searches() == 0
    clock.advance(seconds=1)
    assert count_searches() == 1
    assert count_searches() == 0
