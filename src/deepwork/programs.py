"""Run a program within a time and an amount of output; beyond them, end it with all its children."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

_CHUNK = 64 * 1024


_LOOK_EVERY = 0.2


class OutputTooLarge(Exception):
    """The program wrote more than it may."""


class NotWanted(Exception):
    """Nobody waits for the program any more."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that came to its end."""

    code: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a program may run, and how many bytes it may write."""

    seconds: float
    output: int


def run_bounded(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    input: bytes | None,
    bounds: Bounds,
    is_wanted: Callable[[], bool] | None = None,
) -> Finished:
    """Run to the end; at a bound kill program and children, and raise TimeoutError or OutputTooLarge.

    With `is_wanted` also when that turns false, as NotWanted.
    """
    deadline = time.monotonic() + bounds.seconds
    with _as_stdin(input) as stdin, _start(argv, cwd, env, stdin) as process:
        try:
            stdout, stderr = _read(process, deadline, bounds.output, is_wanted)
            _wait(process, deadline)
            _end_with_children(process)
            return Finished(process.returncode, stdout, stderr)
        finally:
            _end_with_children(process)


def _start(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: IO[bytes] | int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 (argv is ours; never a shell)
        argv,
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        close_fds=True,
        start_new_session=True,  # a group of its own, so that one signal reaches all its children
    )


@contextmanager
def _as_stdin(content: bytes | None) -> Iterator[IO[bytes] | int]:
    """A file rather than a pipe: nobody has to feed it while the output is being read."""
    if content is None:
        yield subprocess.DEVNULL
        return
    with TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


def _read(
    process: subprocess.Popen[bytes], deadline: float, max_output: int, is_wanted: Callable[[], bool] | None
) -> tuple[bytes, bytes]:
    stdout, stderr = bytearray(), bytearray()
    with selectors.DefaultSelector() as pipes:
        for pipe, received in ((process.stdout, stdout), (process.stderr, stderr)):
            assert pipe is not None
            pipes.register(pipe, selectors.EVENT_READ, received)
        while pipes.get_map():
            has_ended = _has_ended(process)
            ready = pipes.select(min(deadline - time.monotonic(), 0 if has_ended else _LOOK_EVERY))
            if has_ended and not ready:
                break  # a child that it left behind holds the pipe, and nothing more will come
            if time.monotonic() >= deadline:
                raise TimeoutError
            if is_wanted is not None and not is_wanted():
                raise NotWanted
            for key, _ in ready:
                _receive(pipes, key)
            if len(stdout) + len(stderr) > max_output:
                raise OutputTooLarge
    return bytes(stdout), bytes(stderr)


def _receive(pipes: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    chunk = os.read(key.fd, _CHUNK)
    key.data.extend(chunk)
    if not chunk:
        pipes.unregister(key.fileobj)


def _wait(process: subprocess.Popen[bytes], deadline: float) -> None:
    pause = 0.0001  # most have closed their output because they are ending
    while not _has_ended(process):
        if time.monotonic() >= deadline:
            raise TimeoutError
        time.sleep(pause)
        pause = min(pause * 2, _LOOK_EVERY)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended; it stays a zombie, so that nobody else can get its number."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end_with_children(process: subprocess.Popen[bytes]) -> None:
    """End what is left of it; a program that has ended may have left children."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
