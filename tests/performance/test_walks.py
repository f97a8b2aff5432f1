"""`make walks` follows a request from outside, and counts what worked for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def follow(walk: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-P", "scripts/walks.py", walk], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [cell.strip() for cell in done.stdout.splitlines()[-1].strip("|").split("|")]


def test_a_walk_lists_the_modules_and_git_programs_of_a_request() -> None:
    name, places, calls, programs = follow("claim with a worktree")

    modules, packages = map(int, places.split("/"))
    assert name == "task_claim with a worktree"
    assert 0 < packages < modules
    assert int(calls.replace(",", "")) > modules
    assert 0 < int(programs) <= 3


@pytest.mark.thorough
@pytest.mark.parametrize(("walk", "limit"), [("finished_step", 12), ("run, two attempts", 40)])
def test_a_walk_starts_few_git_programs(walk: str, limit: int) -> None:
    assert 0 < int(follow(walk)[-1]) <= limit
