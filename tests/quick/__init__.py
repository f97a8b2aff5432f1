"""Starts the `deepwork` command in a new process, without the second or two that its imports take.

Each test worker has one fork server, which has imported everything and forks for each command. A test starts a
small client: it passes its standard streams, folder, environment and arguments to the fork server, forwards
signals, and exits as the command exits. Killing the client kills the command.

Tests of startup, of kills and of a process's resources start the command itself: `PLAIN`.
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


def build_command(server: ForkServer | None = None) -> list[str]:
    """Return the command line that starts `deepwork`, by this worker's fork server or another; append arguments."""
    if not hasattr(os, "pidfd_open"):
        return list(PLAIN)
    address = (server or _get_fork_server()).address
    return [sys.executable, "-I", "-S", str(_HERE / "fork_client.py"), address]


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
