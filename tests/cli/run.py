"""The command, run as a person would: a new process, its output and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def deepwork(project: Path, *words: str, environment: dict[str, str] | None = None) -> Ran:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "deepwork", *words],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "COLUMNS": "200", **(environment or {})},
    )
    return Ran(done.returncode, done.stdout, done.stderr)
