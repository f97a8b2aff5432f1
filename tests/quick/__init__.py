"""The `deepwork` command in a process of its own, without the second or two that its imports take.

One process per test worker, the forge, has imported everything and forks for each command. What a test starts
is a small program in front of it: it hands over its standard streams, folder, environment and arguments,
passes signals on and ends as the command ends. Who kills it kills the command.

Tests of starting, of killing and of what a process holds start the command itself: `PLAIN`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any

from fastmcp.client.transports import StdioTransport

PLAIN = (sys.executable, "-P", "-m", "deepwork")
_HERE = Path(__file__).parent


def command() -> list[str]:
    """The words that start the command; arguments follow."""
    if not hasattr(os, "pidfd_open"):
        return list(PLAIN)
    return [sys.executable, "-I", "-S", str(_HERE / "front.py"), _forge().address]


def serving(project: Path, *flags: str, **more: Any) -> StdioTransport:
    """The server of a project as a client starts it, over standard input and output."""
    program, *words = command()
    return StdioTransport(
        program, [*words, "serve", "--path", str(project), *flags], keep_alive=False, **more
    )


class _Forge:
    """The process that forks, as the test worker sees it; it ends with the worker, whose pipe it reads."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="deepwork-forge-")
        self.address = f"{self._folder.name}/line"
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_HERE / "forge.py"), self.address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"


_starting = threading.Lock()


def _forge() -> _Forge:
    """The one of this worker, whichever thread asks first."""
    with _starting:
        return _start_forge()


@cache
def _start_forge() -> _Forge:
    return _Forge()
