"""Measures tasks with worktrees beside plain git: claiming one, and completing it after a commit."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.clients import SERVE, StdioClient
from benchmarks.projects import build_plan, claim, complete, create_workflow, list_tasks, register_agent
from benchmarks.timing import Effort, Samples, measure_ms
from benchmarks.tracking import create_repository

ADD, CLAIM = "git worktree add", "task_claim, with a worktree"
STATUS, COMPLETE = "git status", "task_update_status (completed), with a worktree"
SIZES = {200: 20, 20_000: 3}
"""By the number of files, how many tasks are measured at most."""
EDITED = "src/part_0/area_0/module_1.py"
_AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")


def measure_worktrees(effort: Effort) -> Samples:
    took: Samples = {}
    for size, most in SIZES.items():
        root = effort.make_folder(f"worktrees-{size}") / "repository"
        create_repository(root, min(size, 1_000 * effort.calls))
        for name, values in _measure_tasks(root, min(effort.rounds, most)).items():
            took[f"{name} ({size:,} files)"] = values
    return took


def _measure_tasks(root: Path, rounds: int) -> Samples:
    took: Samples = {}
    with StdioClient(*SERVE, str(root)) as caller:
        agent = register_agent(caller)
        for number, task in enumerate(_create_tasks(caller, rounds + 1)):
            for name, spent in _measure_task(caller, root, task, agent).items():
                if number:  # the first task warms up
                    took.setdefault(name, []).append(spent)
    return took


def _create_tasks(caller: StdioClient, number: int) -> list[str]:
    id = create_workflow(caller, number, auto_create_workspaces=True)
    plan = build_plan(number, "wide")
    for task in plan["tasks"]:
        task |= {"parallel_group": "all", "files_likely_affected": []}
    caller.call("workflow_set_plan", {"id": id, "plan": plan})
    return list_tasks(caller, id)


def _measure_task(caller: StdioClient, root: Path, task: str, agent: str) -> dict[str, float]:
    # Side by side, and none is removed: where files were deleted a moment ago, new ones are written slowly.
    plain, claimed = root / ".deepwork/worktrees" / f"plain-{task}", list[Any]()
    took = {
        ADD: measure_ms(partial(_git, root, "worktree", "add", "--quiet", "-b", plain.name, str(plain))),
        CLAIM: measure_ms(lambda: claimed.append(claim(caller, task, agent))),
    }
    tree = Path(claimed[0]["workspace_path"])
    caller.call("task_update_status", {"id": task, "status": "in_progress", "agent_id": agent})
    (tree / EDITED).write_text(f"for {task}\n" * 40)
    _git(tree, "commit", "--quiet", "--all", "--message", f"Work on {task}")
    return took | {
        STATUS: measure_ms(partial(_git, tree, "status")),
        COMPLETE: measure_ms(lambda: complete(caller, task, agent)),
    }


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *_AUTHOR, *words], cwd=folder, check=True, capture_output=True)
