"""Starts the `deepwork` command in a new process, without the second or two that its imports take.

Each test worker has one fork server, which has imported everything and forks for each command. A test asks it for one
(`run`), or starts a small client (`build_command`): it passes its standard streams, folder, environment and arguments
to the fork server, forwards signals, and exits as the command exits. Killing the client kills the command.

Tests of startup, of kills and of a process's resources start the command itself: `PLAIN`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from fastmcp.client.transports import StdioTransport

from quick.client import ask, read_number

PLAIN = (sys.executable, "-P", "-m", "deepwork")
PATIENCE_SECONDS = 600
_HERE = Path(__file__).parent


def build_command(server: ForkServer | None = None) -> list[str]:
    """Return the command line that starts `deepwork`, by this worker's fork server or another; append arguments."""
    if not hasattr(os, "pidfd_open"):
        return list(PLAIN)
    address = (server or _get_fork_server()).address
    return [sys.executable, "-I", "-S", str(_HERE / "client.py"), address]


def run(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
    """Run a command to its end, without a client; return its exit code, output and errors."""
    if not hasattr(os, "pidfd_open"):
        done = subprocess.run(
            [*PLAIN, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr
    variables = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    arguments = [os.fsencode(word) for word in words]
    with os.fdopen(os.memfd_create("out"), "r") as out, os.fdopen(os.memfd_create("err"), "r") as err:
        files = [0, out.fileno(), err.fileno()]
        with closing(
            ask(_get_fork_server().address, files, os.fsencode(folder), variables, arguments)
        ) as line:
            line.settimeout(PATIENCE_SECONDS)
            read_number(line)
            code = read_number(line)
        for written in (out, err):
            written.seek(0)
        return code, out.read(), err.read()


def build_transport(project: Path, *flags: str, **more: Any) -> StdioTransport:
    """Build a transport that starts a project's server over standard input and output, as a client does."""
    program, *words = build_command()
    return StdioTransport(
        program, [*words, "serve", "--path", str(project), *flags], keep_alive=False, **more
    )


class ForkServer:
    """Handle of a fork server, which ends with this process because it reads from its pipe."""

    def __init__(self, *observer: str) -> None:
        """Start it; `observer` is a program that runs it, such as strace."""
        self._folder = tempfile.TemporaryDirectory(prefix="deepwork-fork-")
        self.address = f"{self._folder.name}/line"
        self._process = subprocess.Popen(
            [*observer, sys.executable, "-P", str(_HERE / "fork_server.py"), self.address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def stop(self) -> None:
        """End the fork server now; its commands must have ended."""
        self._process.communicate()
        self._folder.cleanup()


_starting = threading.Lock()


def _get_fork_server() -> ForkServer:
    """Return this worker's fork server; the first caller starts it."""
    with _starting:
        return _start_fork_server()


@cache
def _start_fork_server() -> ForkServer:
    return ForkServer()
