"""A repository with checks, trusted or not, and requests to prove them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

from deepwork.edge.server.application import Application
from deepwork.gates.checks.definitions import parse_checks
from deepwork.gates.checks.models import CHECKS_FILE, Proof, ProofRequest, ProofSubject
from deepwork.gates.checks.service import CheckService
from deepwork.gates.checks.trusting import pin_checks
from deepwork.kernel.errors import GateClosed

SUBJECT = ProofSubject("task", "pt_000000000001")
COUNT = "echo run >> .counter"
"""A command that leaves a line for each time that it ran; the file is ignored."""


def run_git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def shell(command: str) -> str:
    """The `run` of a check, as YAML: a command of a shell."""
    return f"[sh, -c, {json.dumps(command)}]"


def python(code: str) -> str:
    """The `run` of a check, as YAML: a program in Python."""
    return f"['{sys.executable}', -c, {json.dumps(code)}]"


class Project:
    """A repository with `src/a.py`, `docs/a.md` and checks."""

    def __init__(self, folder: Path, app: Application) -> None:
        self.folder, self.app = folder, app
        run_git(folder, "init", "-q", "-b", "main")
        self.write(".gitignore", "__pycache__/\n.counter\n*.db*\n*.log\nbuild/\n")
        self.write("src/a.py", "a = 1\n")
        self.write("docs/a.md", "text\n")
        self.base = ""

    @property
    def service(self) -> CheckService:
        return self.app.checks

    def write(self, path: str, content: str | bytes) -> Path:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return place

    def commit(self, message: str = "work") -> str:
        run_git(self.folder, "add", "-A", "-f", ".deepwork/checks.yml")
        run_git(self.folder, "add", "-A")
        run_git(self.folder, "commit", "-q", "--allow-empty", "-m", message)
        return run_git(self.folder, "rev-parse", "HEAD")

    def define(self, text: str, *, trust: bool = True) -> None:
        """Commit these checks, which become the base."""
        self.write(CHECKS_FILE, text)
        self.base = self.commit("checks")
        if trust:
            self.trust(text)

    def define_check(self, run: str, more: str = "", guarded: str = "[]", *, trust: bool = True) -> None:
        """Commit one check called `tests`."""
        self.define(f"checks:\n  tests: {{run: {run}{more}}}\nguarded: {guarded}\n", trust=trust)

    def trust(self, text: str) -> None:
        pin_checks(self.folder, parse_checks(text.encode()), proof="token", trusted_at="now")

    def prove(self, *names: str, **more: Any) -> tuple[Proof, ...]:
        request = ProofRequest(
            **{
                "subject": SUBJECT,
                "tree": self.folder,
                "base": self.base,
                "names": names or ("tests",),
                "changed_paths": (),
                "wait_seconds": None,
                **more,
            }
        )
        return self.service.prove(request)

    def fail(self, *names: str, **more: Any) -> GateClosed:
        """Prove, and return why that does not work."""
        try:
            self.prove(*names, **more)
        except GateClosed as error:
            return error
        raise AssertionError("the gate is open")

    def count_runs(self) -> int:
        counter = self.folder / ".counter"
        return len(counter.read_text().splitlines()) if counter.exists() else 0


def list_processes_below(folder: Path) -> list[int]:
    """List the processes whose current folder is in this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink().is_relative_to(folder):
                    found.append(int(entry.name))
            except OSError:
                continue
    return [pid for pid in found if pid != os.getpid()]


def replace_object(folder: Path, name: str, other: str) -> None:
    """Store the content of an object under the name of another one of its kind."""
    kind = run_git(folder, "cat-file", "-t", other)
    content = subprocess.run(
        ["git", "cat-file", kind, other], cwd=folder, check=True, capture_output=True
    ).stdout
    place = folder / ".git/objects" / name[:2] / name[2:]
    place.unlink()
    place.write_bytes(zlib.compress(f"{kind} {len(content)}\0".encode() + content))
