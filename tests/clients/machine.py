"""A user's machine: a home folder, a git project, and the clients and deepwork on PATH."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

START_TIMEOUT_MS = 90_000
"""How long clients wait for a server; a busy machine needs more than their default of a few seconds."""


class Machine:
    def __init__(self, folder: Path, clients: Path) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        here = Path(sys.executable).parent
        kept = {name: value for name, value in os.environ.items() if name in ("LANG", "TERM", "TMPDIR")}
        self.environment = {
            **kept,
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(here), str(clients), os.environ["PATH"]]),
            "DISABLE_AUTOUPDATER": "1",
            "NO_COLOR": "1",
        }
        self.run("git", "init", "-q")

    def run(self, *words: str) -> str:
        """Run a program and return its output without colours."""
        done = subprocess.run(
            words, cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=180, check=False,
        )  # fmt: skip
        return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)

    def setup(self, *words: str) -> dict[str, Any]:
        done = subprocess.run(
            ["deepwork", "setup", *words, "--json"], cwd=self.project, env=self.environment,
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def read(self, name: str) -> str:
        return self._resolve(name).read_text()

    def write(self, name: str, text: str) -> None:
        path = self._resolve(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def change(self, name: str, **values: Any) -> None:
        """Add to our entry in a JSON file, as a user might."""
        data = json.loads(self.read(name))
        data["mcpServers"]["deepwork"].update(values)
        self.write(name, json.dumps(data, indent=2))

    def _resolve(self, name: str) -> Path:
        return self.home / name[2:] if name.startswith("~/") else self.project / name
