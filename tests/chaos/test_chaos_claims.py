"""Eight processes claim tasks of one plan while some of them die: each task is done once, by its holder."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from application import call_tool, list_events
from chaos.claimer import read_notes, scale
from chaos.workers import Outcome, Worker
from deepwork.server.application import Application

KILLS = 5
LEASE_SECONDS = 3
SHORTEST_LEASE = 1
LARGEST = 10_000


def create_plans(app: Application, count: int) -> list[str]:
    """Create plans with this many independent tasks in total."""
    sizes = [min(LARGEST, count - start) for start in range(0, count, LARGEST)]
    return [_create_plan(app, size) for size in sizes]


def _create_plan(app: Application, size: int) -> str:
    made = call_tool(
        app,
        "workflow_create",
        name="storm",
        source_type="prompt",
        source_content="x",
        max_parallel_tasks=1000,
    )
    tasks = [{"name": f"task {number}", "depends_on": []} for number in range(size)]
    call_tool(app, "workflow_set_plan", id=made["id"], plan={"summary": "storm", "tasks": tasks})
    id: str = made["id"]
    return id


class Storm:
    """Running claimers, some of which are killed and replaced."""

    def __init__(self, crew: list[Worker], folder: Path, location: str, plans: list[str], seed: int) -> None:
        self._crew, self._folder, self._chance = crew, folder, random.Random(seed)
        self._order = {"location": location, "workflow_ids": plans, "lease_seconds": LEASE_SECONDS}
        self._number = 0
        self.spared = set(range(len(crew)))
        for worker in crew:
            self._begin(worker)

    def kill_some(self, kills: int) -> None:
        """Kill claimers at random moments, and start new ones in their place."""
        for _ in range(kills):
            time.sleep(self._chance.uniform(0.05, 0.4))
            place = self._chance.randrange(len(self._crew))
            self.spared.discard(place)
            self._crew[place].kill()
            assert self._crew[place].wait_for_outcome().signal in (signal.SIGKILL, None)
            self._begin(self._crew[place])

    def outcomes(self) -> list[Outcome]:
        return [worker.wait_for_outcome() for worker in self._crew]

    def _begin(self, worker: Worker) -> None:
        self._number += 1
        ledger = str(self._folder / f"{self._number}.notes")
        worker.order("claim_all", **self._order, seed=self._number, ledger=ledger)
        worker.go()


@pytest.mark.timeout(0 if os.environ.get("DEEPWORK_CHAOS") else 900)
@pytest.mark.parametrize(
    ("kind", "count"), [("sqlite", scale(1_000, 50_000)), ("postgres", scale(2_000, 200_000))]
)
def test_eight_processes_and_five_kills_do_every_task_once(
    kind: str,
    count: int,
    crew: list[Worker],
    tmp_path: Path,
    seed: int,
    open_app: Callable[[str], Application],
    request: pytest.FixtureRequest,
):
    location = (
        str(tmp_path / "deepwork.db") if kind == "sqlite" else request.getfixturevalue("new_database")()
    )
    app = open_app(location)
    plans = create_plans(app, count)

    storm = Storm(crew, tmp_path, location, plans, seed)
    storm.kill_some(KILLS)
    outcomes = storm.outcomes()

    assert [outcome for outcome in outcomes if not outcome.is_well] == []
    assert {call_tool(app, "workflow_get", id=plan)["status"] for plan in plans} == {"completed"}
    notes = read_notes(tmp_path)
    assert_each_was_done_once(app, count, notes)
    shares = Counter(agent for what, _, agent, _ in notes if what == "completed")
    spared = sorted(outcomes[place].answer for place in storm.spared)
    assert spared[0] >= sum(shares.values()) / len(crew) / 2, shares


def assert_each_was_done_once(app: Application, count: int, notes: list[tuple[str, str, str, int]]) -> None:
    """Check the answers that the claimers got, and the store."""
    completed = [(task, agent, epoch) for what, task, agent, epoch in notes if what == "completed"]
    claimed = Counter((task, epoch) for what, task, _, epoch in notes if what == "claimed")
    assert len({task for task, _, _ in completed}) == len(completed), "a task was completed twice"
    assert max(claimed.values()) == 1, "two agents were given the same claim"
    with app.database.reading() as tx:
        rows = tx.fetch_all(
            """
            SELECT t.id, t.outcome, max(c.epoch) AS epoch
              FROM plan_tasks t JOIN plan_claims c ON c.task_id = t.id
             WHERE t.status = 'completed' GROUP BY t.id, t.outcome
            """
        )
        held = tx.fetch_value("SELECT count(*) FROM leases WHERE who IS NOT NULL")
    last = {row["id"]: (row["outcome"], row["epoch"]) for row in rows}
    assert len(last) == count
    assert all(last[task] == (agent, epoch) for task, agent, epoch in completed), (
        "a stale holder completed a task"
    )
    assert held == 0, "a completed task is still held"


def test_a_stopped_holder_cannot_finish_a_task_after_its_lease_expired(
    crew: list[Worker],
    new_location: Callable[[], str],
    open_app: Callable[[str], Application],
    tmp_path: Path,
):
    rounds, at_once = scale(20, 200), len(crew)
    location = new_location()
    app = open_app(location)
    [workflow_id] = create_plans(app, rounds)
    tasks = call_tool(app, "workflow_get", id=workflow_id, include_tasks=True, task_limit=1000)["tasks"]

    verdicts: list[str] = []
    for start in range(0, rounds, at_once):
        part = [task["id"] for task in tasks[start : start + at_once]]
        verdicts += claim_while_stopped(app, crew, location, part)

    assert verdicts == ["STALE_CLAIM"] * rounds
    told = [event for event in list_events(app) if event.type == "plan_task:released"]
    assert len(told) == rounds
    assert call_tool(app, "workflow_progress", workflow_id=workflow_id)["by_status"]["completed"] == rounds


def claim_while_stopped(
    app: Application, crew: list[Worker], location: str, task_ids: list[str]
) -> list[str]:
    """Stop holders after they claimed, until another agent has completed their task; then let them continue."""
    sleepers = list(zip(crew, task_ids, strict=False))
    for worker, task_id in sleepers:
        worker.order("hold_and_finish", location=location, task_id=task_id, lease_seconds=SHORTEST_LEASE)
        worker.go()
    homes = {task_id: Path(f"/proc/{worker.number}/cwd").resolve() for worker, task_id in sleepers}
    for worker, task_id in sleepers:
        wait_for(homes[task_id] / f"{task_id}.claimed")
        os.kill(worker.number, signal.SIGSTOP)
    time.sleep(SHORTEST_LEASE + 0.2)
    taker = call_tool(app, "agent_register", name="taker", runtime="custom")["id"]
    for _, task_id in sleepers:
        assert call_tool(app, "task_claim", task_id=task_id, agent_id=taker)["success"]
        call_tool(app, "task_update_status", id=task_id, status="completed", outcome="mine", agent_id=taker)
    for worker, task_id in sleepers:
        (homes[task_id] / f"{task_id}.wake").touch()
        os.kill(worker.number, signal.SIGCONT)
    return [worker.wait_for_outcome().answer["code"] for worker, _ in sleepers]


def wait_for(file: Path) -> None:
    end = time.monotonic() + 120
    while not file.exists():
        assert time.monotonic() < end, f"{file.name} did not appear"
        time.sleep(0.01)
