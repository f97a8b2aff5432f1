"""The status of each phase of a run: a phase of tracked work, a level of a plan, an entry of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from deepwork.kernel.database.engine import Row
from deepwork.views.overview.session_rows import RUNNING_STATUSES

MAX_PHASES = 12
"""Lists of runs have the status of each phase only up to this number of phases."""

COUNTERS_BY_TASK_STATUS = {
    "completed": "done",
    "skipped": "done",
    "failed": "failed",
    "planning": "running",
    "in_progress": "running",
    "paused": "running",
}
"""How the tasks of plans are counted."""


def derive_phase_status(tasks: Mapping[str, int]) -> str:
    """Derive the status of a phase from its numbers of tasks: total, done, running, failed."""
    done, running, failed = (tasks.get(name, 0) for name in ("done", "running", "failed"))
    if done == tasks["total"]:
        return "completed"
    if running:
        return "in_progress"
    if failed:
        return "failed"
    return "in_progress" if done else "pending"


def list_tracked_statuses(started: Mapping[int, str], total: int) -> list[str]:
    """List the statuses of all phases, given those that have started by number."""
    return [started.get(number, "pending") for number in range(1, total + 1)]


def list_level_statuses(rows: Iterable[Row]) -> dict[str, list[str]]:
    """List the statuses of the levels of each plan; the rows count tasks, ordered by level."""
    levels: dict[str, dict[int, dict[str, int]]] = {}
    for row in rows:
        tasks = levels.setdefault(row["workflow_id"], {}).setdefault(row["sequence"], {"total": 0})
        for name in ("total", COUNTERS_BY_TASK_STATUS.get(row["status"])):
            if name is not None:
                tasks[name] = tasks.get(name, 0) + row["tasks"]
    return {id: [derive_phase_status(tasks) for tasks in found.values()] for id, found in levels.items()}


def derive_entry_status(steps: Sequence[str]) -> str:
    """Derive the status of an entry of a job from the statuses of its steps."""
    running = sum(status in RUNNING_STATUSES for status in steps)
    return derive_phase_status({"total": len(steps), "done": steps.count("completed"), "running": running})
