"""Measures tracking: snapshots of many files of which a few change, and the context of many tasks."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.echo.commit import connect
from benchmarks.large_plans import open_application
from benchmarks.timing import Effort, Samples, Work, measure_ms, take_turns

from deepwork.kernel.git.command import Git
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.values import new_id
from deepwork.work.tracking.models import CallerType, TrackedTask, TrackedTaskStatus
from deepwork.work.tracking.store import TrackStore

CHANGED = 10
TARGETS = {10_000: 2.0, 100_000: 2.5}
"""By number of files, the highest ratio of a snapshot and its diff to two plain git diffs.

The plain diffs see neither new files nor earlier changes.
"""
PLAIN, SNAPSHOT, AGAIN, FIRST = (
    "two plain diffs",
    "snapshot and diff",
    "snapshot, nothing new",
    "snapshot, first",
)

_YESTERDAY = time.time() - 24 * 3600


def create_repository(root: Path, count: int, *, with_checks: bool = False) -> str:
    """Create a repository with `count` files in folders of twenty; return the first commit."""
    for number in range(count):
        _write(
            root / f"src/part_{number // 1000}/area_{number // 20 % 50}/module_{number % 20}.py",
            f"{number}\n" * 40,
        )
    _write(root / ".gitignore", ".deepwork/*\n!.deepwork/checks.yml\n" if with_checks else ".deepwork/\n")
    _git(root, "init", "--quiet", "--initial-branch=main")
    _commit(root, "All of it")
    start = _git(root, "rev-parse", "HEAD").decode().strip()
    _write(root / "src/part_0/area_0/module_0.py", "since the start\n")
    _commit(root, "Some of it, again")
    return start


def measure_snapshots(effort: Effort) -> Samples:
    took: Samples = {}
    for count in TARGETS:
        took |= _measure_tree(effort.folder / "tracking", max(1, effort.rounds * 3 // 5), count)
    return took


def _measure_tree(folder: Path, rounds: int, count: int) -> Samples:
    """Measure one working tree; the rows take turns with git's diffs on the same changes."""
    root = folder / f"files-{count}"
    start = create_repository(root, count)
    snapshots = SnapshotStore(
        Git(root, environment={"PATH": os.environ["PATH"], "HOME": str(folder)}), root / ".deepwork/snapshots"
    )
    kept: list[Any] = []
    took: Samples = {FIRST: [measure_ms(lambda: kept.append(snapshots.take()))]}
    [before] = kept
    work: dict[str, Work] = {
        PLAIN: lambda: _run_plain_diffs(root, start),
        SNAPSHOT: lambda: snapshots.diff(before, snapshots.take()),
        AGAIN: snapshots.take,
    }
    for number in range(rounds + 1):
        _change(root, number)
        for name, call in work.items():
            spent = measure_ms(call)
            if number:  # the first round warms up
                took.setdefault(name, []).append(spent)
    found = snapshots.diff(before, snapshots.take()).files
    assert len(found) == 2 * CHANGED, f"{len(found)} changes instead of {2 * CHANGED}"
    return {f"{name} ({count:,})": values for name, values in took.items()}


def measure_context(effort: Effort, count: int = 10_000) -> Samples:
    """Measure `get_context` in the server itself, in turns with counting the same tasks."""
    folder = effort.make_folder("context")
    app, ask = open_application(folder, toolsets=("tracking",))
    workflow = ask("start_workflow", name="large", objective="Weigh.")["workflow_id"]
    phases = [
        ask("start_phase", workflow_id=workflow, number=number, name=f"phase {number}")["phase_id"]
        for number in range(1, 11)
    ]
    with app.database.transaction() as tx:
        store = TrackStore(tx)
        for number in range(count):
            store.add_task(_build_task(workflow, phases[number % len(phases)], number, tx.now))
    parts = ["phase_summary", "tasks", "decisions", "milestones", "blockers"]
    raw = connect(str(folder / ".deepwork/deepwork.db"))
    counted = "SELECT phase_id, status, count(*) FROM tracked_tasks WHERE workflow_id = ? GROUP BY 1, 2"
    work: dict[str, Work] = {
        "raw count of tracked tasks": lambda: raw.execute(counted, (workflow,)).fetchall(),
        "get_context (10,000 tasks)": lambda: ask("get_context", workflow_id=workflow, include=parts),
    }
    took = take_turns(work, effort.starts, calls=2)
    raw.close()
    app.close()
    return took


def _build_task(workflow: str, phase: str, number: int, now: int) -> TrackedTask:
    return TrackedTask(
        id=new_id("tt"),
        workflow_id=workflow,
        phase_id=phase,
        parent_task_id=None,
        name=f"task {number}",
        goal="Weigh.",
        status=TrackedTaskStatus.SUCCESS,
        caller_type=CallerType.SUBAGENT,
        agent_name="ada",
        areas=("src",),
        started_at=now + number,
        last_sign_at=now + number,
        completed_at=now + number + 1000,
        outcome={"summary": f"What came of {number}."},
    )


def _run_plain_diffs(root: Path, start: str) -> None:
    _git(root, "diff", "--name-status", start, "HEAD")
    _git(root, "diff", "--name-status", "HEAD")


def _change(root: Path, number: int) -> None:
    """Edit some files and write some new ones, with different content each time."""
    for each in range(CHANGED):
        (root / f"src/part_1/area_{each}/module_3.py").write_text(f"round {number}\n" * 40)
        (root / f"src/part_2/area_{each}/new.py").write_text(f"round {number}\n" * 40)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (_YESTERDAY, _YESTERDAY))  # git reads the content of files that are as new as its index


def _commit(root: Path, message: str) -> None:
    _git(root, "add", "--all")
    _git(root, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "-m", message)


def _git(root: Path, *words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True).stdout
