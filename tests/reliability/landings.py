"""Landings whose processes are killed at random steps: before or after a program of git, or a commit."""

from __future__ import annotations

from pathlib import Path

from application import make_app
from landing.kills import start_kills
from landing.many_tasks import ManyTasks
from reliability.result import Result
from workspaces.make import create_repository, run_git

KINDS = {"doubled": "doubled", "internal error": "internal_errors"}
TASKS = 24


def kill_landings(folder: Path, location: str, kills: int, seed: int) -> Result:
    """Land tasks with processes that are killed at drawn steps; in the end each has landed once."""
    project = create_repository(folder / "project")
    run_git(project, "checkout", "-q", "-b", "desk")
    app = make_app(project, location)
    names = [f"t{number}" for number in range(TASKS)]
    plan = ManyTasks(app, project, {name: {f"{name}.txt": name} for name in names})
    app.close()
    found = start_kills(project, location, plan.id, seed, kills)
    result = Result()
    result.count(lost=0, doubled=0, damaged=0, internal_errors=0, kills=found["kills"])
    for fault in found["faults"]:
        result.report(KINDS.get(fault.partition(":")[0], "damaged"), [fault])
    files = set(run_git(project, "ls-tree", "--name-only", "main").split())
    result.report("lost", [f"{name} has not landed" for name in names if f"{name}.txt" not in files])
    return result
