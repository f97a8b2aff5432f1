"""Controls worker processes from a test: send orders, start them together, kill them, get the outcomes."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

TESTS = Path(__file__).parent.parent
PATIENCE = float(os.environ.get("DEEPWORK_CHAOS_PATIENCE") or 600)
"""Seconds without output and without work after which a process counts as hanging."""
LOOK_SECONDS = 5.0


@dataclass(frozen=True)
class Outcome:
    """How an order ended: with an answer, a deepwork error, another error, or a signal."""

    answer: Any = None
    error: dict[str, Any] | None = None
    fault: str | None = None
    signal: int | None = None

    @property
    def is_well(self) -> bool:
        return self.error is None and self.fault is None and self.signal is None


class Worker:
    """A process that executes orders one after another, each in a forked process."""

    def __init__(self, folder: Path, *before: Path) -> None:
        """`before`: folders whose modules take precedence over the installed ones."""
        inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        path = os.pathsep.join(map(str, filter(None, [*before, TESTS, *inherited])))
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("worker_process.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            # Files of bytecode would be written once only, and change the number of system calls.
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._begin(self._process.pid, self._process.stdin, self._process.stdout)

    def _begin(self, pid: int, orders: IO[bytes], said: IO[bytes]) -> None:
        self._pid, self._orders, self._said = pid, orders, said
        self._buffer = bytearray()
        self._handle: int | None = None
        self.number = 0
        """The pid of the process that executes the order."""

    def fork(self) -> Worker:
        """Start another worker, without the second that its imports take; close it before this one."""
        with tempfile.TemporaryDirectory() as folder:
            pipes = [f"{folder}/orders", f"{folder}/said"]
            for pipe in pipes:
                os.mkfifo(pipe)
            self._send({"pipes": pipes})
            # Each end waits until the other one is open.
            orders = Path(pipes[0]).open("wb", buffering=0)  # noqa: SIM115
            said = Path(pipes[1]).open("rb", buffering=0)  # noqa: SIM115
        made = Worker.__new__(Worker)
        made._process = None
        made._begin(self._receive_message()["pid"], orders, said)
        return made

    @property
    def is_idle(self) -> bool:
        """Whether all its orders have ended."""
        return self._handle is None

    def order(self, do: str, **arguments: Any) -> None:
        """Fork a process for an order; it waits for `go`."""
        self._send({"do": do, **arguments})
        self.number = self._receive_message()["pid"]
        # Unlike a pid, this handle can never refer to another process.
        self._handle = os.pidfd_open(self.number)

    def go(self) -> None:
        self._send({})

    def kill(self) -> None:
        """kill -9, unless it has ended by itself."""
        if self._handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def wait_for_outcome(self) -> Outcome:
        """Wait for the end of the order."""
        heard: dict[str, Any] = {}
        while "signal" not in heard:
            heard |= self._receive_message()
        self._forget_child()
        return Outcome(**heard)

    def do(self, do: str, **arguments: Any) -> Outcome:
        """Execute an order from beginning to end."""
        self.order(do, **arguments)
        self.go()
        return self.wait_for_outcome()

    def close(self) -> None:
        self.kill()
        self._forget_child()
        for pipe in (self._orders, self._said):
            pipe.close()
        if self._process is not None:
            self._process.wait(timeout=PATIENCE)

    def _forget_child(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _send(self, message: dict[str, Any]) -> None:
        self._orders.write(json.dumps(message).encode() + b"\n")

    def _receive_message(self) -> dict[str, Any]:
        while True:
            line, found, rest = self._buffer.partition(b"\n")
            if found:
                self._buffer = rest
                if heard := _parse_message(bytes(line)):
                    return heard
            else:
                self._receive()

    def _read_times(self) -> list[str]:
        """Read how long the worker and the process of its order have used a processor."""
        times = []
        for process in (self._pid, self.number):
            with suppress(OSError):  # it has ended
                after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2]
                times += after_name.split()[11:15]
        return times

    def _receive(self) -> None:
        """Wait for output; give up if the process does nothing: on a busy machine it is slow, but works."""
        worked, idle = self._read_times(), 0.0
        while not select.select([self._said], [], [], LOOK_SECONDS)[0]:
            now = self._read_times()
            worked, idle = now, idle + LOOK_SECONDS if now == worked else 0.0
            if idle >= PATIENCE:
                raise AssertionError(f"The process hangs: no output and no work for {PATIENCE:g} s.")
        received = os.read(self._said.fileno(), 1024 * 1024)
        if not received:
            raise AssertionError("The process ended without an answer.")
        self._buffer += received


def run_together(workers: Sequence[Worker], orders: Sequence[dict[str, Any]]) -> list[Outcome]:
    """Execute one order per worker, all starting at the same moment."""
    for worker, order in zip(workers, orders, strict=True):
        worker.order(**order)
    for worker in workers:
        worker.go()
    return [worker.wait_for_outcome() for worker in workers]


def _parse_message(line: bytes) -> dict[str, Any] | None:
    try:
        heard: dict[str, Any] = json.loads(line)
    except ValueError:  # empty, or cut short by a kill
        return None
    return heard
