"""Starts programs with bounded output, and finds which program a name stands for.

`run_bounded` is for programs that we know, such as git: it kills their process group. `run_supervised` is
for programs that may start anything: it ends every descendant, even after this process was killed.

An agent chooses the environment in which it starts deepwork, and can write some folders of the PATH.
Neither may decide which program runs.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from shutil import which
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.records import dataclass
from deepwork.kernel.user_settings import Pins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_CHUNK_BYTES = 64 * 1024
_POLL_SECONDS = 0.2


class OutputTooLarge(Exception):
    """The program exceeded its output limit."""


class ProgramCancelled(Exception):
    """The program was killed because its result is no longer needed."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """The exit code and output of a finished program."""

    code: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """The maximum run time and output bytes of a program."""

    seconds: float
    output: int


def run_bounded(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    input: bytes | None,
    bounds: ProgramLimits,
    should_continue: Callable[[], bool] | None = None,
) -> ProgramResult:
    """Run a program; at a limit, kill it with its children and raise TimeoutError or OutputTooLarge.

    If `should_continue` returns false, kill it too and raise ProgramCancelled.
    """
    deadline = time.monotonic() + bounds.seconds
    with _open_stdin(input) as stdin, _start(argv, cwd, env, stdin) as process:
        watch = _Watch(deadline, bounds.output, should_continue, lambda: _has_ended(process))
        try:
            stdout, stderr = _read_output(process.stdout, process.stderr, watch)
            _wait_for_end(watch)
            _end_with_children(process)
            return ProgramResult(process.returncode, stdout, stderr)
        finally:
            _end_with_children(process)


def run_supervised(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    input: bytes | None,
    bounds: ProgramLimits,
    should_continue: Callable[[], bool] | None = None,
) -> ProgramResult:
    """Run a program as `run_bounded` does, under a supervisor that ends all its descendants."""
    from deepwork.kernel.supervision.supervised_program import start_supervised  # noqa: PLC0415

    deadline = time.monotonic() + bounds.seconds
    with (
        _open_stdin(input) as stdin,
        start_supervised(argv, cwd=cwd, env=env, stdin=stdin, seconds=bounds.seconds) as program,
    ):
        watch = _Watch(deadline, bounds.output, should_continue, lambda: program.poll() is not None)
        stdout, stderr = _read_output(program.stdout, program.stderr, watch)
        _wait_for_end(watch)
        ending = program.end()
    if ending.reason == "timeout":
        raise TimeoutError
    return ProgramResult(-signal.SIGKILL if ending.code is None else ending.code, stdout, stderr)


@dataclass(frozen=True, slots=True)
class _Watch:
    """When to stop waiting for a program."""

    deadline: float
    max_output: int
    should_continue: Callable[[], bool] | None
    has_ended: Callable[[], bool]

    def check(self) -> None:
        """Raise TimeoutError or ProgramCancelled if the program must end."""
        if time.monotonic() >= self.deadline:
            raise TimeoutError
        if self.should_continue is not None and not self.should_continue():
            raise ProgramCancelled


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
        start_new_session=True,  # its own process group, so that one signal reaches all its children
    )


@contextmanager
def _open_stdin(content: bytes | None) -> Iterator[IO[bytes] | int]:
    """Open stdin as a file, not a pipe, so that nothing has to write to it while output is read."""
    if content is None:
        yield subprocess.DEVNULL
        return
    with TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


def _read_output(
    stdout_pipe: IO[bytes] | None, stderr_pipe: IO[bytes] | None, watch: _Watch
) -> tuple[bytes, bytes]:
    stdout, stderr = bytearray(), bytearray()
    with selectors.DefaultSelector() as pipes:
        for pipe, received in ((stdout_pipe, stdout), (stderr_pipe, stderr)):
            assert pipe is not None
            pipes.register(pipe, selectors.EVENT_READ, received)
        while pipes.get_map():
            has_ended = watch.has_ended()
            ready = pipes.select(min(watch.deadline - time.monotonic(), 0 if has_ended else _POLL_SECONDS))
            if has_ended and not ready:
                break  # a leftover child keeps the pipe open, but no more output is coming
            watch.check()
            for key, _ in ready:
                _receive(pipes, key)
            if len(stdout) + len(stderr) > watch.max_output:
                raise OutputTooLarge
    return bytes(stdout), bytes(stderr)


def _receive(pipes: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    chunk = os.read(key.fd, _CHUNK_BYTES)
    key.data.extend(chunk)
    if not chunk:
        pipes.unregister(key.fileobj)


def _wait_for_end(watch: _Watch) -> None:
    """Wait for a program that has closed its output; it may run on."""
    pause = 0.0001  # most programs exit right after closing their output
    while not watch.has_ended():
        watch.check()
        time.sleep(pause)
        pause = min(pause * 2, _POLL_SECONDS)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether it has exited; leaves a zombie, so that its pid cannot be reused."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end_with_children(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group; a program that has exited may have left children."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


_Stamps = tuple[tuple[int, int, int] | None, ...]


def resolve_pins(run: Sequence[str], environment: Mapping[str, str] = os.environ) -> Pins:
    """Find the program of a command, and everything else that it depends on besides the files of the tree."""
    kept = build_child_environment(environment)
    path = os.pathsep.join(_list_folders(kept.get("PATH", "")))
    return Pins(find_program(run[0], path), {**kept, "PATH": path}, find_shadowed(path))


def find_program(word: str, path: str) -> str | None:
    """Return the program that a word means; a relative path stays one, because the tree has it."""
    return word if os.sep in word else which(word, path=path)


def find_shadowed(path: str) -> dict[str, str]:
    """Map each name that several folders of a PATH have to the folder whose program is used."""
    folders = _list_folders(path)
    return dict(_find_shadowed(folders, _read_stamps(folders)))


def find_problem(pins: Pins) -> str | None:
    """Say why a command would not run as it was trusted; None if it does."""
    is_pinned = pins.program is not None and pins.program.startswith(os.sep)
    if is_pinned and not os.access(pins.program or "", os.X_OK):
        return f"{pins.program} does not exist any more."
    for name, folder in find_shadowed(pins.environment["PATH"]).items():
        if pins.shadowed.get(name) != folder:
            return f"The program {name} in {folder} hides another one of this name since then."
    return None


def _list_folders(path: str) -> tuple[str, ...]:
    """List the folders of a PATH; a relative one would be part of the tree that is judged."""
    named = (each for each in path.split(os.pathsep) if each.startswith(os.sep))
    return tuple(dict.fromkeys(map(os.path.normpath, named)))


def _read_stamps(folders: Sequence[str]) -> _Stamps:
    return tuple(map(_read_stamp, folders))


def _read_stamp(folder: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(folder)  # noqa: PTH116 - each decision asks this
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


@lru_cache(maxsize=8)
def _find_shadowed(folders: tuple[str, ...], stamps: _Stamps) -> dict[str, str]:
    used: dict[str, str] = {}
    shadowed: dict[str, str] = {}
    seen = set()
    for folder, stamp in zip(folders, stamps, strict=True):
        if stamp is None or stamp[:2] in seen:  # on many systems /bin is /usr/bin
            continue
        seen.add(stamp[:2])
        for name in _list_names(folder):
            if used.setdefault(name, folder) != folder:
                shadowed[name] = used[name]
    return shadowed


def _list_names(folder: str) -> list[str]:
    """List the files of a folder, whatever their mode: it can change without a trace in the folder."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if not entry.is_dir()]
    except OSError:
        return []
