"""Measures eight HTTP clients at once: calls per second, and tasks per second of whole worker loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from benchmarks.clients import HELLO, HttpClient, open_http_servers
from benchmarks.crowd import CallFailed, Calls, Crowd, repeat_call
from benchmarks.projects import build_plan, create_plan, register_agent, release
from benchmarks.timing import Effort, Samples

SIZE = 8


def measure_crowds(effort: Effort) -> Samples:
    """Measure per second; the rows take turns with the echo."""
    with open_http_servers(effort.make_folder("crowds")) as (bare, ours):
        crowd, echo = Crowd(ours.port, SIZE), Crowd(bare.port, SIZE)
        fixture = CrowdFixture(crowd, HttpClient(ours.port), effort.calls)
        hello = partial(_measure_same_call, echo, *HELLO, 5 * effort.calls)
        work: dict[str, Callable[[], float]] = {"echo, 8 clients": hello} | fixture.list_rows()
        took: Samples = {name: [] for name in work}
        for _ in range(max(1, effort.rounds // 5)):
            for name, measure in work.items():
                took[name].append(measure())
        crowd.close()
        echo.close()
    return took


class CrowdFixture:
    """Eight agents of one server, each with its own connection."""

    def __init__(
        self, crowd: Crowd, caller: HttpClient, calls: int, begins: Sequence[str] = ("in_progress",)
    ) -> None:
        self._crowd, self._caller, self._calls, self._begins = crowd, caller, calls, begins
        self._agents = [register_agent(caller, f"Agent {number}") for number in range(SIZE)]

    def list_rows(self) -> dict[str, Callable[[], float]]:
        read = ("agent_get", {"id": self._agents[0]}, 20 * self._calls)
        heartbeat = ("agent_heartbeat", {"agent_id": self._agents[0]}, 5 * self._calls)
        return {
            "reads, 8 clients": partial(_measure_same_call, self._crowd, *read),
            "heartbeats, 8 clients": partial(_measure_same_call, self._crowd, *heartbeat),
            "claims, 8 clients": self._measure_claims,
            "claim race, 8 clients": self._measure_claim_race,
            "whole tasks, 8 clients": self._measure_worker_loops,
        }

    def _measure_claims(self) -> float:
        count = 2 * self._calls
        _, tasks = create_plan(self._caller, build_plan(SIZE * count, "wide"))
        lots = [tasks[number::SIZE] for number in range(SIZE)]
        return self._claim_at_once(lots)

    def _measure_claim_race(self) -> float:
        """Let all of them ask for the same tasks: one wins each, seven are refused."""
        _, tasks = create_plan(self._caller, build_plan(2 * self._calls, "wide"))
        return self._claim_at_once([tasks] * SIZE)

    def _claim_at_once(self, lots: list[list[str]]) -> float:
        won: dict[str, str] = {}
        clients = [_claim_each(tasks, agent, won) for tasks, agent in zip(lots, self._agents, strict=True)]
        rate = sum(map(len, lots)) / self._crowd.run(clients)
        assert len(won) == len({task for tasks in lots for task in tasks}), "A task was claimed by nobody."
        for task, agent in won.items():  # so that the next round does not begin with claimed tasks
            release(self._caller, task, agent)
        return rate

    def _measure_worker_loops(self) -> float:
        workflow, _ = create_plan(self._caller, build_plan(SIZE * self._calls, "wide"), parallel=SIZE)
        clients = [
            _work(workflow, agent, place, self._calls, self._begins)
            for place, agent in enumerate(self._agents)
        ]
        return SIZE * self._calls / self._crowd.run(clients)


def _measure_same_call(crowd: Crowd, tool: str, arguments: dict[str, Any], count: int) -> float:
    return SIZE * count / crowd.run([repeat_call(tool, arguments, count) for _ in range(SIZE)])


def _claim_each(tasks: list[str], agent: str, won: dict[str, str]) -> Calls:
    for task in tasks:
        answer = yield "task_claim", {"task_id": task, "agent_id": agent}
        if answer.parse()["success"]:
            assert task not in won, "A task was claimed twice."
            won[task] = agent


def _work(workflow: str, agent: str, place: int, count: int, begins: Sequence[str]) -> Calls:
    """Do so many tasks: find one, claim it, load its context, start it, leave a checkpoint, complete it."""
    for number in range(count):
        task = yield from _claim_next(workflow, agent, place)
        given = {"id": task, "agent_id": agent}
        yield "task_load_context", {"task_id": task}
        for status in begins:
            yield "task_update_status", given | {"status": status}
        note = {"type": "progress", "summary": f"Half of task {number} is done."}
        yield "checkpoint_add", {"task_id": task, "agent_id": agent} | note
        yield "task_update_status", given | {"status": "completed", "outcome": "done"}


def _claim_next(workflow: str, agent: str, place: int) -> Any:
    while True:
        offered = (yield "workflow_next_tasks", {"workflow_id": workflow}).parse()["tasks"]
        for each in _begin_at(offered, place):
            with suppress(CallFailed):  # another client has completed it since
                answer = yield "task_claim", {"task_id": each["id"], "agent_id": agent}
                if answer.parse()["success"]:
                    return each["id"]


def _begin_at(offered: list[Any], place: int) -> Iterator[Any]:
    """Begin at another place than the other agents, so that they rarely ask for the same task."""
    first = place % len(offered) if offered else 0
    yield from offered[first:]
    yield from offered[:first]
