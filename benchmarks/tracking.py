"""Measures tracking: snapshots of many files of which a few change."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.timing import Effort, Samples, Work, measure_ms

from deepwork.kernel.git.command import Git
from deepwork.kernel.git.snapshot import SnapshotStore

CHANGED = 10
FILES = 10_000
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
    """Measure one working tree; the rows take turns with git's diffs on the same changes.

    The plain diffs see neither new files nor earlier changes.
    """
    folder = effort.make_folder("tracking")
    root = folder / "repository"
    start = create_repository(root, min(FILES, 3_000 * effort.calls))
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
    for number in range(max(1, effort.rounds * 3 // 5) + 1):
        _change(root, number)
        for name, call in work.items():
            spent = measure_ms(call)
            if number:  # the first round warms up
                took.setdefault(name, []).append(spent)
    found = snapshots.diff(before, snapshots.take()).files
    assert len(found) == 2 * CHANGED, f"{len(found)} changes instead of {2 * CHANGED}"
    return took


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
