"""Runs the command of a check: supervised, with bounded time and output."""

from __future__ import annotations

import select
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from deepwork.gates.checks.models import Check
from deepwork.kernel.records import dataclass
from deepwork.kernel.supervision.supervised_program import ProgramEnding, SupervisedProgram, start_supervised

MAX_OUTPUT_BYTES = 64 * 2**20
"""A command that writes more is ended."""
_MAX_HEAD_BYTES = 64 * 2**10
_MAX_TAIL_BYTES = 2**20
_CHUNK_BYTES = 64 * 2**10
_POLL_SECONDS = 0.2
_GRACE_SECONDS = 2.0


class BoundedOutput:
    """The beginning and the end of what a program wrote."""

    def __init__(self) -> None:
        self.size = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0

    def add(self, chunk: bytes) -> None:
        """Take the next part."""
        self.size += len(chunk)
        room = _MAX_HEAD_BYTES - len(self._head)
        self._head += chunk[:room]
        if rest := chunk[room:] if room > 0 else chunk:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail_size - len(self._tail[0] if self._tail else b"") > _MAX_TAIL_BYTES:
            self._tail_size -= len(self._tail.popleft())

    def to_bytes(self) -> bytes:
        """Return what was kept, with a line about the rest."""
        left_out = self.size - len(self._head) - self._tail_size
        gap = f"\n[… {left_out:,} bytes left out …]\n".encode() if left_out else b""
        return bytes(self._head) + gap + b"".join(self._tail)


@dataclass(frozen=True)
class CommandRun:
    """One run of a command; `problem` says what else was wrong than its exit code."""

    exit_code: int | None
    is_timeout: bool
    output: bytes
    duration_ms: int
    problem: str | None = None

    @property
    def is_green(self) -> bool:
        return self.exit_code == 0 and not self.is_timeout and self.problem is None


def run_command(
    check: Check, folder: Path, environment: Mapping[str, str], held: Sequence[int] = ()
) -> CommandRun:
    """Run the command once in a folder; no process of it is left. `held` stays open until then."""
    began = time.monotonic()
    output = BoundedOutput()
    try:
        with start_supervised(
            check.run,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            seconds=check.timeout_seconds,
            grace=_GRACE_SECONDS,
            held=held,
        ) as program:
            ending = _read_to_end(program, output)
    except OSError as error:
        problem = f"{check.run[0]!a} cannot be started: {error.strerror or error}."
        return CommandRun(None, False, b"", _measure(began), problem)
    return CommandRun(
        exit_code=ending.code if ending.reason == "exited" else None,
        is_timeout=ending.reason == "timeout",
        output=output.to_bytes(),
        duration_ms=_measure(began),
        problem=_find_problem(ending, output),
    )


def _read_to_end(program: SupervisedProgram, output: BoundedOutput) -> ProgramEnding:
    pipe = program.stdout
    assert pipe is not None
    is_open = True
    while (ending := program.poll()) is None:
        if not is_open:
            program.wait(_POLL_SECONDS)
        elif select.select([pipe], [], [], _POLL_SECONDS)[0]:
            is_open = _receive(pipe, output)
        if output.size > MAX_OUTPUT_BYTES:
            return program.end()
    while is_open and select.select([pipe], [], [], 0)[0] and output.size <= MAX_OUTPUT_BYTES:
        is_open = _receive(pipe, output)
    return ending


def _receive(pipe: IO[bytes], output: BoundedOutput) -> bool:
    chunk = pipe.read1(_CHUNK_BYTES)  # type: ignore[attr-defined]  # a pipe of Popen is a BufferedReader
    output.add(chunk)
    return bool(chunk)


def _find_problem(ending: ProgramEnding, output: BoundedOutput) -> str | None:
    if output.size > MAX_OUTPUT_BYTES:
        return f"It wrote more than {MAX_OUTPUT_BYTES:,} bytes and was ended."
    if ending.left:
        return f"{ending.left} of its processes could not be ended."
    if ending.reason in ("stopped", "lost", "ended"):
        return "Somebody ended the process that supervises it."
    return None


def _measure(began: float) -> int:
    return round(1000 * (time.monotonic() - began))
