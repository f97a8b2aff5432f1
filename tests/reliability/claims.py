"""Many processes claim the same tasks while some of them are killed: each task is done once, by its holder."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path

from application import call_tool, make_app
from chaos.claimer import Note, read_notes
from chaos.workers import Outcome, Worker
from deepwork.edge.server.application import Application
from reliability.result import Result

A_DAY = 86_400
LEASE_SECONDS = 3


def claim_together(
    folder: Path, crew: list[Worker], location: str, count: int, kills: int, seed: int, plans: int = 1
) -> Result:
    """Let all workers claim and complete this many tasks, and kill some of them meanwhile."""
    result = Result()
    app = make_app(folder, location, lease_seconds=A_DAY)
    try:
        ids = create_plans(app, count, plans)
        storm = Storm(crew, folder, location, ids, seed)
        result.count(kills=storm.kill_some(kills))
        outcomes = storm.wait_for_outcomes()
        result.faults += [str(outcome) for outcome in outcomes if not outcome.is_well]
        result.faults += find_unfinished(app, ids)
        check_claims(result, app, count, read_notes(folder))
        result.faults += find_unfairness(storm, outcomes, result.counts["completed"])
    finally:
        app.close()
    return result


def create_plans(app: Application, count: int, plans: int = 1) -> list[str]:
    """Create plans with this many independent tasks in total."""
    assert count % plans == 0
    return [_create_plan(app, count // plans) for _ in range(plans)]


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

    def kill_some(self, kills: int) -> int:
        """Kill claimers at random moments, and start new ones in their place; return how many still ran."""
        killed = 0
        for _ in range(kills):
            time.sleep(self._chance.uniform(0.05, 0.4))
            place = self._chance.randrange(len(self._crew))
            self.spared.discard(place)
            self._crew[place].kill()
            outcome = self._crew[place].wait_for_outcome()
            assert outcome.signal in (signal.SIGKILL, None)
            killed += outcome.signal == signal.SIGKILL
            self._begin(self._crew[place])
        return killed

    def wait_for_outcomes(self) -> list[Outcome]:
        return [worker.wait_for_outcome() for worker in self._crew]

    def _begin(self, worker: Worker) -> None:
        self._number += 1
        ledger = str(self._folder / f"{self._number}.notes")
        worker.order("claim_all", **self._order, seed=self._number, ledger=ledger)
        worker.go()


def find_unfinished(app: Application, plans: list[str]) -> list[str]:
    """List plans that are not completed."""
    status = {plan: call_tool(app, "workflow_get", id=plan)["status"] for plan in plans}
    return [f"{plan} is {each}" for plan, each in status.items() if each != "completed"]


def check_claims(result: Result, app: Application, count: int, notes: list[Note]) -> None:
    """Compare the answers that the claimers got with each other and with the store."""
    said = Counter(what for what, _, _, _ in notes)
    result.count(
        claims=said["claimed"], refused=said["refused"], completed=said["completed"],
        calls=sum(said.values()),
    )  # fmt: skip
    claimed = Counter((task, epoch) for what, task, _, epoch in notes if what == "claimed")
    completed = Counter(task for what, task, _, _ in notes if what == "completed")
    stored, held = _load_completed(app)
    result.report("doubled", [f"{claim} was given {n} times" for claim, n in claimed.items() if n > 1])
    result.report("doubled", [f"{task} was completed {n} times" for task, n in completed.items() if n > 1])
    result.report("lost", [f"{count - len(stored)} tasks are not completed"] if len(stored) != count else [])
    result.report("lost", _find_lost(stored, notes))
    result.faults += [f"{held} completed tasks are still held"] if held else []


def _find_lost(stored: dict[str, tuple[str, int]], notes: list[Note]) -> list[str]:
    """List acknowledged completions that the store does not have, or has from somebody else."""
    return [
        f"{agent} completed {task} with claim {epoch}, but the store has {stored.get(task)}"
        for what, task, agent, epoch in notes
        if what == "completed" and stored.get(task) != (agent, epoch)
    ]


def _load_completed(app: Application) -> tuple[dict[str, tuple[str, int]], int]:
    """Load who completed each task, with which claim, and how many leases are held."""
    with app.database.reading() as tx:
        rows = tx.fetch_all(
            """
            SELECT t.id, t.outcome, max(c.epoch) AS epoch
              FROM plan_tasks t JOIN plan_claims c ON c.task_id = t.id
             WHERE t.status = 'completed' GROUP BY t.id, t.outcome
            """
        )
        held = tx.fetch_value("SELECT count(*) FROM leases WHERE who IS NOT NULL")
    return {row["id"]: (row["outcome"], row["epoch"]) for row in rows}, held


def find_unfairness(storm: Storm, outcomes: list[Outcome], completed: int) -> list[str]:
    """Report a process that was never killed and still did less than half of its share."""
    shares = sorted(outcomes[place].answer for place in storm.spared if outcomes[place].is_well)
    if not shares or shares[0] >= completed / len(outcomes) / 2:
        return []
    return [f"the slowest of {len(outcomes)} processes completed {shares[0]} of {completed} tasks"]
