"""Runs `deepwork` in a new process, in a pipe or in a terminal; returns its exit code and output."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import quick


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run_deepwork(project: Path, *words: str, environment: dict[str, str] | None = None) -> CommandResult:
    code, out, err = quick.run(words, project, {**os.environ, "COLUMNS": "200", **(environment or {})})
    return CommandResult(code, out, err)


def run_in_terminal(
    project: Path,
    *words: str,
    columns: int = 100,
    environment: dict[str, str] | None = None,
    program: Sequence[str] = (sys.executable, "-P", "-m", "deepwork"),
    typed: Sequence[str] = (),
) -> CommandResult:
    """Run the command in a real terminal of this width; standard error is part of the output.

    `typed` is what the person answers: it waits in the terminal until it is asked for.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    plain = {
        key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
    }
    process = subprocess.Popen(
        [*program, *words], cwd=project, stdin=theirs, stdout=theirs, stderr=theirs,
        env={**plain, "TERM": "xterm-256color", **(environment or {})},
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, "".join(typed).encode())
    output = b"".join(_read_until_closed(ours))
    os.close(ours)
    return CommandResult(process.wait(timeout=60), output.decode().replace("\r\n", "\n"), "")


def _read_until_closed(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux: no process has it open any more
            return
        if not piece:
            return
        yield piece
