"""Tracking under the stopwatch: snapshots of many files, a few of which change; the state of many tasks."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deepwork.config import load_settings
from deepwork.database.call import Call
from deepwork.git.command import Git
from deepwork.git.snapshot import Snapshots
from deepwork.names import new_id
from deepwork.server.application import Application
from deepwork.server.invocation import invoke
from deepwork.tracking.models import CallerType, Task, TaskStatus
from deepwork.tracking.store import TrackStore

FILES = (10_000, 100_000)
CHANGED = 10

PLAIN, SNAPSHOT, AGAIN, FIRST = (
    "two plain diffs",
    "snapshot and diff",
    "snapshot, nothing new",
    "snapshot, first",
)
YARDSTICKS = {
    f"{name} ({count:,})": f"{PLAIN} ({count:,})" for count in FILES for name in (SNAPSHOT, AGAIN, FIRST)
}
"""What a row is measured by: git's own two diffs, which see neither new files nor what was there before."""
TARGETS = {f"{SNAPSHOT} (10,000)": 2.0, f"{SNAPSHOT} (100,000)": 2.5}
"""The most that a median may be of its yardstick's."""

CONTEXT_MS = 20.0
"""How long the state of 10,000 tasks may take in the server."""

_YESTERDAY = time.time() - 24 * 3600


def repository(root: Path, count: int) -> str:
    """So many files in folders of twenty, committed; tells the commit."""
    for number in range(count):
        _write(
            root / f"src/part_{number // 1000}/area_{number // 20 % 50}/module_{number % 20}.py",
            f"{number}\n" * 40,
        )
    _write(root / ".gitignore", ".deepwork/\n")
    _git(root, "init", "--quiet", "--initial-branch=main")
    _commit(root, "All of it")
    start = _git(root, "rev-parse", "HEAD").decode().strip()
    _write(root / "src/part_0/area_0/module_0.py", "since the start\n")
    _commit(root, "Some of it, again")
    return start


def measure(folder: Path, rounds: int, count: int) -> dict[str, list[float]]:
    """Milliseconds by row; each takes its turn with git's own, on the same changes."""
    root = folder / f"files-{count}"
    start = repository(root, count)
    snapshots = Snapshots(
        Git(root, environment={"PATH": os.environ["PATH"], "HOME": str(folder)}), root / ".deepwork/snapshots"
    )
    began = time.perf_counter()
    before = snapshots.take()
    took: dict[str, list[float]] = {FIRST: [(time.perf_counter() - began) * 1000]}
    work: dict[str, Callable[[], Any]] = {
        PLAIN: lambda: _two_plain_diffs(root, start),
        SNAPSHOT: lambda: snapshots.diff(before, snapshots.take()),
        AGAIN: snapshots.take,
    }
    for number in range(rounds + 1):
        _change(root, number)
        for name, call in work.items():
            began = time.perf_counter()
            call()
            if number:  # the first round warms up
                took.setdefault(name, []).append((time.perf_counter() - began) * 1000)
    found = snapshots.diff(before, snapshots.take()).files
    assert len(found) == 2 * CHANGED, f"{len(found)} changes instead of {2 * CHANGED}"
    return {f"{name} ({count:,})": values for name, values in took.items()}


def context(folder: Path, count: int = 10_000) -> dict[str, list[float]]:
    """Milliseconds in the server itself for the state of a workflow with so many tasks."""
    folder.mkdir(parents=True)
    app = Application(load_settings(folder, {"toolsets": ("tracking",)}, environment={}))

    def ask(tool: str, **arguments: Any) -> Any:
        return invoke(app.database, app.registry[tool], arguments, Call("bench", tool))

    workflow = ask("start_workflow", name="large", objective="Weigh.")["workflow_id"]
    phases = [
        ask("start_phase", workflow_id=workflow, number=number, name=f"phase {number}")["phase_id"]
        for number in range(1, 11)
    ]
    with app.database.transaction() as tx:
        store = TrackStore(tx)
        for number in range(count):
            store.add_task(_task(workflow, phases[number % len(phases)], number, tx.now))
    parts = ["phase_summary", "tasks", "decisions", "milestones", "blockers"]
    took = []
    for _ in range(15):
        began = time.perf_counter()
        ask("get_context", workflow_id=workflow, include=parts)
        took.append((time.perf_counter() - began) * 1000)
    app.close()
    return {f"get_context ({count:,} tasks)": took}


def _task(workflow: str, phase: str, number: int, now: int) -> Task:
    return Task(
        id=new_id("tt"), workflow_id=workflow, phase_id=phase, parent_task_id=None, name=f"task {number}",
        goal="Weigh.", status=TaskStatus.SUCCESS, caller_type=CallerType.SUBAGENT, agent_name="ada",
        areas=("src",), started_at=now + number, last_sign_at=now + number, completed_at=now + number + 1000,
        outcome={"summary": f"What came of {number}."},
    )  # fmt: skip


def _two_plain_diffs(root: Path, start: str) -> None:
    _git(root, "diff", "--name-status", start, "HEAD")
    _git(root, "diff", "--name-status", "HEAD")


def _change(root: Path, number: int) -> None:
    """Edit some files and write some new ones, each time with other content."""
    for each in range(CHANGED):
        (root / f"src/part_1/area_{each}/module_3.py").write_text(f"round {number}\n" * 40)
        (root / f"src/part_2/area_{each}/new.py").write_text(f"round {number}\n" * 40)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (_YESTERDAY, _YESTERDAY))  # of files as new as its index git would read the content


def _commit(root: Path, message: str) -> None:
    _git(root, "add", "--all")
    _git(root, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "-m", message)


def _git(root: Path, *words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True).stdout
