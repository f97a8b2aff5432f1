"""Plays a machine: all processes that are started on it are descendants of this process, and can be killed.

Only in a process of its own: it waits for every process that ends below it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deepwork.kernel.supervision import supervisor

Identity = tuple[int, str]
"""The pid of a process, and when it started: a pid alone may be another process a moment later."""

PATIENCE_SECONDS = float(os.environ.get("DEEPWORK_CHAOS_PATIENCE", "180"))
_POLL_SECONDS = 0.02


class Machine:
    """Starts commands; kills processes, or all of them, as a power failure does."""

    def __init__(self) -> None:
        supervisor.adopt_orphans()
        self.boot = 1
        self._codes: dict[int, int] = {}

    @property
    def variables(self) -> dict[str, str]:
        """The variables by which programs know which boot this is."""
        return {"DEEPWORK_TEST_BOOT_ID": f"boot-{self.boot}"}

    def start(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdout: Path, stderr: Path
    ) -> Identity:
        """Start a command; its output is added to files."""
        with stdout.open("ab") as out, stderr.open("ab") as err:
            process = subprocess.Popen(
                argv, cwd=cwd, env={**env, **self.variables}, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        process.returncode = 0  # we wait for it ourselves
        self._codes.pop(process.pid, None)
        return process.pid, read_start_time(process.pid)

    def kill(self, process: Identity) -> bool:
        """Kill a process; return whether it was alive. When this returns it is dead."""
        if not is_alive(process):
            return False
        try:
            descriptor = os.pidfd_open(process[0])
        except ProcessLookupError:
            return False
        try:
            if not is_alive(process):
                return False
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
        self.wait_until(lambda: not is_there(process), "the end of a killed process")
        return True

    def reboot(self) -> int:
        """Kill everything at once; return how many processes that were."""
        found = self.list_processes()
        left = supervisor.end_processes(self.list_processes, self.reap)
        assert not left, f"{left} processes survived a reboot"
        # The last threads of a killed process may still be ending: until then it has no exit code.
        self.wait_until(lambda: not any(map(is_there, found)), "the end of what a reboot killed")
        self.boot += 1
        return len(found)

    def list_processes(self) -> list[Identity]:
        """List the processes that run on this machine."""
        self.reap()
        return supervisor.list_tree(os.getpid(), "")

    def describe_processes(self) -> list[str]:
        """Describe the processes that run, for messages."""
        return [f"{pid}: {read_command(pid)}" for pid, _ in self.list_processes()]

    def get_code(self, process: Identity) -> int | None:
        """Return the exit code of a command; None while it runs."""
        self.reap()
        return self._codes.get(process[0])

    def reap(self) -> None:
        """Wait for everything that has ended; nobody else does."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._codes[pid] = os.waitstatus_to_exitcode(status)

    def wait_until(self, is_true: Callable[[], object], what: str) -> None:
        """Wait for a condition; raise AssertionError if it does not come."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_true():
            assert time.monotonic() < deadline, (
                f"waited in vain for {what}; running: {self.describe_processes()}"
            )
            self.reap()
            time.sleep(_POLL_SECONDS)


def is_alive(process: Identity) -> bool:
    return bool(process[1]) and read_start_time(process[0]) == process[1]


def is_there(process: Identity) -> bool:
    """Whether a process is alive, or has ended and nobody has waited for it; its threads may still be ending."""
    words = _read_stat(process[0])
    return bool(words) and words[19] == process[1]


def read_start_time(pid: int) -> str:
    """Return when a process started; empty if it has ended."""
    words = _read_stat(pid)
    return "" if not words or words[0] in "ZX" else words[19]


def _read_stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def read_command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:300]
    except OSError:
        return "gone"
