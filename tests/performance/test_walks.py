"""`make walks` follows a request from outside, and counts what worked for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_walk_lists_the_modules_and_git_programs_of_a_request() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "scripts/walks.py", "claim with a worktree"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip

    *_, row = done.stdout.splitlines()
    _, name, places, calls, programs, _ = (cell.strip() for cell in row.split("|"))
    modules, packages = map(int, places.split("/"))
    assert name == "task_claim with a worktree"
    assert 0 < packages < modules
    assert int(calls.replace(",", "")) > modules
    assert int(programs) > 0
