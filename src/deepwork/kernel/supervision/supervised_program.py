"""Starting a program under a supervisor, waiting for it, ending it with everything that it started."""

from __future__ import annotations

import os
import secrets
import select
import subprocess
import sys
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Literal, Self

from deepwork.kernel.environment import get_process_tree
from deepwork.kernel.records import dataclass
from deepwork.kernel.supervision import supervisor
from deepwork.kernel.supervision.supervisor import MARKER, MARKER_LENGTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

Reason = Literal["exited", "timeout", "ended", "stopped", "lost"]
Stream = IO[bytes] | int

NO_TIME_LIMIT = 10.0**9
_MAX_START_SECONDS = 60.0
_MAX_END_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ProgramEnding:
    """How a program ended.

    `exited`: by itself. `timeout`: its time was over. `ended`: we ended it. `stopped`: its supervisor got a
    signal. `lost`: its supervisor was killed. `code` is negative for a signal, None if it is unknown; `left`
    is the number of processes that could not be ended.
    """

    reason: Reason
    code: int | None
    left: int = 0


class SupervisedProgram:
    """A running program and all its descendants; use it in a `with` block, in one thread at a time."""

    def __init__(
        self, process: subprocess.Popen[bytes], control: IO[bytes], status: IO[bytes], tree: str, grace: float
    ) -> None:
        self._process, self._control, self._status = process, control, status
        self._tree, self._grace = tree, grace
        self._received = b""
        self._ending: ProgramEnding | None = None
        self.pid = 0
        os.set_blocking(status.fileno(), False)

    @property
    def stdout(self) -> IO[bytes] | None:
        """The reading end of its output, if it is a pipe."""
        return self._process.stdout

    @property
    def stderr(self) -> IO[bytes] | None:
        """The reading end of its error output, if it is a pipe."""
        return self._process.stderr

    def poll(self) -> ProgramEnding | None:
        """Return how it ended, None while it runs. Once it has ended, no process of its tree is left."""
        return self.wait(0)

    def wait(self, seconds: float | None = None) -> ProgramEnding | None:
        """Wait until it has ended, at most this long."""
        if self._ending is None and (line := self._read_line(seconds)) is not None:
            self._ending = self._close(line)
        return self._ending

    def end(self) -> ProgramEnding:
        """End it with all its descendants, if it has not ended, and return when that is done."""
        if self._ending is None:
            self._control.close()
            if self.wait(self._grace + _MAX_END_SECONDS) is None:
                self._ending = self._close(b"")
        assert self._ending is not None
        return self._ending

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._close_output()

    def wait_for_start(self) -> None:
        """Wait until the program runs; raise the OSError with which it could not be started."""
        word, _, number = (self._read_line(_MAX_START_SECONDS) or b"").decode().partition(" ")
        if word == "started":
            self.pid = int(number)
            return
        self._ending = self._close(b"")
        self._close_output()
        if word == "failed":
            raise OSError(int(number), os.strerror(int(number)), self._process.args)
        raise OSError(f"its supervisor could not be started (exit code {self._process.returncode})")

    def _close_output(self) -> None:
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()

    def _read_line(self, seconds: float | None) -> bytes | None:
        """Return the next line of the supervisor, empty if it is gone; None if there is none in time."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._received:
            remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._status], [], [], remaining)[0]:
                return None
            chunk = os.read(self._status.fileno(), 4096)
            if not chunk:
                return b""
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _close(self, line: bytes) -> ProgramEnding:
        """Release everything; without a last line of the supervisor, end what it left."""
        self._control.close()
        if not line:
            with suppress(ProcessLookupError):
                self._process.kill()
        self._process.wait()
        self._status.close()
        if line:
            _, reason, code, left = line.decode().split(" ")
            return ProgramEnding(reason, int(code), int(left))  # type: ignore[arg-type]
        return ProgramEnding("lost", None, end_marked_processes(self._tree))


def start_supervised(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = subprocess.PIPE,
    seconds: float = NO_TIME_LIMIT,
    grace: float = 0,
    held: Sequence[int] = (),
) -> SupervisedProgram:
    """Start a program with exactly this environment, in a session of its own, below a supervisor.

    It ends with all its descendants when it exits, after `seconds`, when `end` is called, and when this
    process ends in any way. With `grace` they get SIGTERM first, and that many seconds. The supervisor holds
    the descriptors in `held` open until all have ended: a lock stays locked although this process was killed.
    """
    tree = name_tree()
    control_reading, control = os.pipe()
    status, status_writing = os.pipe()
    script = [sys.executable, "-I", "-S", supervisor.__file__]
    limits = [str(seconds), str(grace), ",".join(map(str, held)) or "-"]
    try:
        process = subprocess.Popen(  # noqa: S603 (argv is ours; never a shell)
            [*script, str(control_reading), str(status_writing), *limits, *argv],
            cwd=cwd,
            env={**env, MARKER: tree},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            close_fds=True,
            pass_fds=(control_reading, status_writing, *held),
            start_new_session=True,
        )
    except BaseException:
        os.close(control)
        os.close(status)
        raise
    finally:
        os.close(control_reading)
        os.close(status_writing)
    program = SupervisedProgram(process, os.fdopen(control, "wb", 0), os.fdopen(status, "rb", 0), tree, grace)
    program.wait_for_start()
    return program


def end_marked_processes(tree: str) -> int:
    """End the processes that a killed supervisor left; return how many could not be ended."""
    if not supervisor.has_proc():
        return 0
    return supervisor.end_processes(lambda: supervisor.list_marked(tree), lambda: None)


def name_tree() -> str:
    """Name a new tree; inside another one it keeps that name too, so that the outer one finds it."""
    return "/".join(filter(None, (get_process_tree(), secrets.token_hex(MARKER_LENGTH // 2))))
