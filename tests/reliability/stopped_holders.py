"""Holders that are paused until their lease has expired: none can finish a task that another agent took over."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from application import call_tool, list_event_types, make_app
from chaos.workers import Worker
from deepwork.edge.server.application import Application
from reliability.claims import create_plans
from reliability.result import Result

A_DAY = 86_400
SHORTEST_LEASE = 1
PATIENCE = 600


def stop_holders(folder: Path, crew: list[Worker], location: str, rounds: int) -> Result:
    """Pause this many holders, as many at once as there are workers."""
    result = Result()
    app = make_app(folder, location, lease_seconds=A_DAY)
    try:
        [plan] = create_plans(app, rounds)
        tasks = call_tool(app, "workflow_get", id=plan, include_tasks=True, task_limit=1000)["tasks"]
        for start in range(0, rounds, len(crew)):
            part = [task["id"] for task in tasks[start : start + len(crew)]]
            verdicts = claim_while_stopped(app, crew, location, part)
            result.count(rounds=len(part), calls=len(part))
            result.report(
                "doubled", [f"a late holder got {each}" for each in verdicts if each != "STALE_CLAIM"]
            )
        completed = call_tool(app, "workflow_progress", workflow_id=plan)["by_status"]["completed"]
        released = list_event_types(app).count("plan_task:released")
        result.report("lost", [f"{completed} of {rounds} tasks are completed"] * (completed != rounds))
        result.faults += [f"{released} of {rounds} tasks were released"] * (released != rounds)
    finally:
        app.close()
    return result


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
    end = time.monotonic() + PATIENCE
    while not file.exists():
        assert time.monotonic() < end, f"{file.name} did not appear"
        time.sleep(0.01)
