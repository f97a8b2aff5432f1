"""Measures single calls, one client after another, over stdio and HTTP."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from benchmarks.clients import (
    BARE,
    COMMIT,
    HELLO,
    RAW,
    SERVE,
    Caller,
    HttpClient,
    StdioClient,
    open_http_servers,
)
from benchmarks.projects import (
    add_checkpoint,
    begin,
    build_plan,
    claim,
    complete,
    create_heavy_task,
    create_plan,
    create_workflow,
    register_agent,
)
from benchmarks.timing import Effort, Samples, Work, take_turns

READS = (
    "agent_get",
    "task_get",
    "checkpoint_list",
    "message_list (3)",
    "message_list (20)",
    "workflow_next_tasks (8)",
    "workflow_progress (8)",
    "task_load_context",
    "task_load_context, heavy task",
    "workflow_get_summary",
)
WRITES = (
    "agent_heartbeat",
    "checkpoint_add",
    "message_send",
    "task_claim",
    "task_update_status (begun)",
    "task_update_status (completed)",
    "workflow_create",
)
_TASK = ("task_claim", "task_update_status (begun)", "task_update_status (completed)")
OVER_HTTP = ("agent_get", "workflow_next_tasks (8)", "task_load_context, heavy task", *_TASK)
"""What is also measured over HTTP; to end a task, it must have been begun."""


class CallFixture:
    """A project with agents, messages and plans, and the calls that are measured in it."""

    def __init__(self, caller: Caller) -> None:
        self._call: Callable[..., Any] = caller.call
        self._caller = caller
        self._ada, self._bob, self._max, self._eve = (
            register_agent(caller, name) for name in ("Ada", "Bob", "Max", "Eve")
        )
        for number in range(33):  # Bob has 3 messages, Max has 30
            self._send_message(self._bob if number < 3 else self._max, number)
        self._small, [self._task, *_] = create_plan(caller, build_plan(8))
        claim(caller, self._task, self._ada)
        self._heavy_workflow, self._heavy_task = create_heavy_task(caller, self._ada)
        self._unclaimed: list[str] = []
        self._claimed: list[str] = []
        self._begun: list[str] = []
        self._numbers = count()

    def list_reads(self) -> dict[str, Work]:
        small, task, heavy = {"workflow_id": self._small}, {"task_id": self._task}, self._heavy_workflow
        return {
            "agent_get": partial(self._call, "agent_get", {"id": self._ada}),
            "task_get": partial(self._call, "task_get", {"id": self._task}),
            "checkpoint_list": partial(self._call, "checkpoint_list", task | {"limit": 5}),
            "message_list (3)": partial(self._call, "message_list", {"agent_id": self._bob}),
            "message_list (20)": partial(self._call, "message_list", {"agent_id": self._max, "limit": 20}),
            "workflow_next_tasks (8)": partial(self._call, "workflow_next_tasks", small),
            "workflow_progress (8)": partial(self._call, "workflow_progress", small),
            "task_load_context": partial(self._call, "task_load_context", task),
            "task_load_context, heavy task": partial(
                self._call, "task_load_context", {"task_id": self._heavy_task}
            ),
            "workflow_get_summary": partial(self._call, "workflow_get_summary", {"id": heavy}),
        }

    def list_writes(self) -> dict[str, Work]:
        return {
            "agent_heartbeat": partial(self._call, "agent_heartbeat", {"agent_id": self._ada}),
            "checkpoint_add": lambda: self._add_checkpoint(next(self._numbers)),
            "message_send": lambda: self._send_message(self._eve, next(self._numbers)),
            "task_claim": self._claim,
            "task_update_status (begun)": self._begin,
            "task_update_status (completed)": self._complete,
            "workflow_create": lambda: create_workflow(self._caller),
        }

    def add_tasks(self, wanted: int) -> None:
        """Create plans until there are so many tasks to claim."""
        while len(self._unclaimed) < wanted:
            self._unclaimed += create_plan(self._caller, build_plan(1_000, "wide"))[1]

    def _claim(self) -> None:
        self._claimed.append(self._unclaimed.pop())
        claim(self._caller, self._claimed[-1], self._ada)

    def _begin(self) -> None:
        self._begun.append(self._claimed.pop())
        begin(self._caller, self._begun[-1], self._ada)

    def _complete(self) -> None:
        complete(self._caller, self._begun.pop(), self._ada)

    def _add_checkpoint(self, number: int) -> None:
        add_checkpoint(self._caller, self._task, self._ada, f"step {number}")

    def _send_message(self, recipient: str, number: int) -> None:
        given = {"sender_id": self._ada, "recipient_id": recipient, "message_type": "query"}
        self._call("message_send", given | {"body": f"message {number}"})


def measure_stdio_calls(effort: Effort) -> Samples:
    folder = effort.make_folder("calls")
    with (
        StdioClient(RAW) as raw,
        StdioClient(BARE) as bare,
        StdioClient(COMMIT, str(folder / "floor.db")) as floor,
        StdioClient(*SERVE, str(folder)) as ours,
    ):
        fixture = CallFixture(ours)
        fixture.add_tasks((effort.rounds + 2) * effort.calls)
        floors = {"raw call": raw, "echo call": bare, "commit": floor}
        work: dict[str, Work] = {name: partial(caller.call, *HELLO) for name, caller in floors.items()}
        return take_turns(work | fixture.list_reads() | fixture.list_writes(), effort.rounds, effort.calls)


def measure_http_calls(effort: Effort) -> Samples:
    folder = effort.make_folder("http-calls")
    with open_http_servers(folder) as (bare, ours):
        fixture = CallFixture(HttpClient(ours.port))
        rounds = max(1, effort.rounds // 3)
        fixture.add_tasks((rounds + 2) * effort.calls)
        calls = fixture.list_reads() | fixture.list_writes()
        work: dict[str, Work] = {"echo call": partial(HttpClient(bare.port).call, *HELLO)}
        work |= {name: call for name, call in calls.items() if name in OVER_HTTP}
        return take_turns(work, rounds, effort.calls)
