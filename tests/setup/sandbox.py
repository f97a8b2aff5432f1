"""Runs the command in this process, with its own home and project: faster than a process per test."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deepwork.edge.cli.main import main


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Sandbox:
    """A home folder, a project, and a PATH with or without deepwork."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.project, self.bin = folder / "home", folder / "project", folder / "bin"
        for each in (self.home, self.project, self.bin):
            each.mkdir()
        self._patch = monkeypatch
        (self.bin / "git").symlink_to(shutil.which("git") or "git")
        for name in list(os.environ):
            if name.startswith(("DEEPWORK_", "XDG_CONFIG", "CLAUDE_", "CODEX_", "GEMINI_")):
                monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setenv("PATH", str(self.bin))
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.chdir(self.project)
        self.install("deepwork")

    def install(self, program: str) -> Path:
        path = self.bin / program
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    def run(self, *words: str) -> CommandResult:
        self._patch.setattr(sys, "argv", ["deepwork", *words])
        out, err, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as done:
                code = int(done.code or 0)
        return CommandResult(code, out.getvalue(), err.getvalue())

    def read_files(self) -> dict[str, str]:
        """Read all files of the project and the home folder."""
        roots = (("", self.project), ("~/", self.home))
        return {
            f"{name}{path.relative_to(root)}": path.read_bytes().decode()
            for name, root in roots
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }

    def write(self, name: str, text: str) -> Path:
        path = self.home / name[2:] if name.startswith("~/") else self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path
