"""End of `make demo`: the landed branch, why one of its lines exists, and a rewind that is undone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DEEPWORK = [sys.executable, "-P", "-m", "deepwork"]


def show(project: Path, environment: Mapping[str, str]) -> int:
    """Show what became of a plan that was run with `--land`; return how many tasks landed."""
    work = LandedWork(project, environment)
    print(f"\n  git     the branch {work.branch} has one merge for each task:")
    work.print_history()
    print(f"\n  person  deepwork why {work.file}:1 --at BRANCH")
    print_indented(work.call_deepwork("why", f"{work.file}:1", "--at", work.branch))
    print(f"\n  person  deepwork rewind {work.task}")
    rewound = work.call_deepwork("rewind", work.task, "--dependents", "keep", "--yes")
    print_indented(rewound)
    work.print_history()
    found = re.search(r"rw_[0-9a-z]{12}", rewound)
    assert found is not None, rewound
    print(f"\n  person  deepwork rewind --undo {found[0]}")
    print_indented(work.call_deepwork("rewind", "--undo", found[0], "--yes"))
    work.print_history()
    return work.count


class LandedWork:
    """The branch that a plan landed on, and the first task on it."""

    def __init__(self, project: Path, environment: Mapping[str, str]) -> None:
        self._project, self._environment = project, environment
        landings: Any = json.loads(self.call_deepwork("landings", "list", "--json"))["landings"]
        first, self.count = landings[-1], len(landings)
        self.branch, self.task = str(first["branch"]), str(first["task_id"])
        self.file = f"{self.task}.txt"

    def call_deepwork(self, *words: str) -> str:
        return self._run([*DEEPWORK, *words, "--path", str(self._project)])

    def print_history(self) -> None:
        """Print the first-parent history of the branch, the newest first."""
        print_indented(self._run(["git", "log", "--first-parent", "--format=* %s", self.branch]))

    def _run(self, command: list[str]) -> str:
        ended = subprocess.run(
            command,
            cwd=self._project,
            env=self._environment,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        return ended.stdout


def print_indented(text: str) -> None:
    for line in text.rstrip().splitlines():
        print(f"          {line}".rstrip(), flush=True)
