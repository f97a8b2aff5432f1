"""Eight processes claim tasks of one plan while some of them die: each task is done once, by its holder."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from application import call_tool, list_events
from chaos.workers import Worker
from deepwork.server.application import Application
from reliability.claims import claim_together, create_plans

SHORTEST_LEASE = 1
ROUNDS = 20


@pytest.mark.parametrize(("kind", "count"), [("sqlite", 1_000), ("postgres", 2_000)])
def test_eight_processes_and_five_kills_do_every_task_once(
    kind: str, count: int, crew: list[Worker], tmp_path: Path, seed: int, request: pytest.FixtureRequest
):
    location = (
        str(tmp_path / "deepwork.db") if kind == "sqlite" else request.getfixturevalue("new_database")()
    )

    result = claim_together(tmp_path, crew, location, count, 5, seed)

    assert result.faults == []
    assert result.counts["lost"] == result.counts["doubled"] == 0
    assert result.counts["claims"] >= count - 5


def test_a_stopped_holder_cannot_finish_a_task_after_its_lease_expired(
    crew: list[Worker],
    new_location: Callable[[], str],
    open_app: Callable[[str], Application],
    tmp_path: Path,
):
    at_once = len(crew)
    location = new_location()
    app = open_app(location)
    [workflow_id] = create_plans(app, ROUNDS)
    tasks = call_tool(app, "workflow_get", id=workflow_id, include_tasks=True, task_limit=1000)["tasks"]

    verdicts: list[str] = []
    for start in range(0, ROUNDS, at_once):
        part = [task["id"] for task in tasks[start : start + at_once]]
        verdicts += claim_while_stopped(app, crew, location, part)

    assert verdicts == ["STALE_CLAIM"] * ROUNDS
    told = [event for event in list_events(app) if event.type == "plan_task:released"]
    assert len(told) == ROUNDS
    assert call_tool(app, "workflow_progress", workflow_id=workflow_id)["by_status"]["completed"] == ROUNDS


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
