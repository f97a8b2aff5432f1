"""Starting, watching, adopting and ending the process of one start of an agent.

The files of the start decide what happened, whichever process was killed at whatever moment: `shim.py` says
how. The shim is the process that we know; below it runs the agent.
"""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from deepwork.delivery.runner.attempt_files import AttemptFiles, read_record
from deepwork.delivery.runner.models import Observation, ProcessState
from deepwork.kernel.environment import get_host_name
from deepwork.kernel.errors import NotAllowed, StorageError
from deepwork.kernel.files.lock import try_flock
from deepwork.kernel.files.private import format_path, make_private_folder, to_storage_error, write_atomically
from deepwork.kernel.foreign_text import MAX_MOMENT, MAX_PID, read_moment, read_pid, read_whole_number
from deepwork.kernel.records import dataclass
from deepwork.kernel.supervision import supervisor
from deepwork.kernel.supervision.supervised_program import name_tree

if TYPE_CHECKING:
    from deepwork.delivery.runner.attempt_files import CpuTimes

DEFAULT_GRACE_SECONDS = 30.0
"""How long an agent that is asked to end gets at most, even if the process that asked was killed."""

_SHIM = Path(__file__).with_name("shim.py")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TEST_BOOT_ID = "DEEPWORK_TEST_BOOT_ID"
_MAX_START_SECONDS = 60.0
_MAX_END_SECONDS = 30.0
_POLL_SECONDS = 0.02
_MAX_CODE = 2**31
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_OUTPUT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_INPUT_FLAGS = os.O_RDONLY | os.O_CLOEXEC


class AlreadyStarted(NotAllowed):
    """This start was started before, or is being started, or will never be: observe it."""


class StartFailed(NotAllowed):
    """The agent cannot be started as it was asked for: its program or its folder is missing."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """The shim of one start, and no other process of any host at any time: pids are used again."""

    host: str
    boot_id: str
    pid: int
    start_time: str


# --- this machine


def read_boot_id() -> str:
    """Return what identifies the time since this machine was started; tests play a reboot by a variable."""
    return os.environ.get(_TEST_BOOT_ID) or _read_boot_id()


@lru_cache(maxsize=1)
def _read_boot_id() -> str:
    with suppress(OSError):
        return _BOOT_ID.read_text().strip()
    for name in ("kern.bootsessionuuid", "kern.boottime"):  # the time changes with the clock
        found = subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, check=False)  # noqa: S603
        if found.returncode == 0 and found.stdout.strip():
            return found.stdout.strip()
    raise StorageError("Cannot find out when this machine was started.")


# --- start


def start_process(
    files: AttemptFiles,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    seconds: float,
    *,
    grace: float = DEFAULT_GRACE_SECONDS,
) -> ProcessIdentity:
    """Start the agent with exactly this environment, detached from this process; `files.prompt` is its input.

    Raises AlreadyStarted if this start may have run before, StartFailed if there is no such program or
    folder, StorageError if a file cannot be written; after the last two nothing runs.
    """
    _require_startable(argv, env, cwd)
    make_private_folder(files.folder)
    with _hold_start(files) as lock:
        tree, words = name_tree(), [str(seconds), str(grace), *argv]
        place = {"host": get_host_name(), "boot_id": read_boot_id(), "tree": tree, "cwd": str(cwd)}
        _write_record(files.launch, **place, argv=list(argv), seconds=seconds)
        answer = _run_shim(files, lock, words, cwd=cwd, env={**env, supervisor.MARKER: tree})
    word, _, rest = answer.partition(" ")
    if word != "failed" and (identity := read_identity(files)) is not None:  # also if it was killed since
        return identity
    _wait_until(lambda: not _is_locked(files), _MAX_END_SECONDS)  # so that it can be started again at once
    raise _build_start_error(files, argv, rest)


def read_identity(files: AttemptFiles) -> ProcessIdentity | None:
    """Return which process this start is, to adopt it; None if it has not been started."""
    with suppress(LookupError):
        return _read_recorded(files)
    return None


@lru_cache(maxsize=1000)
def _read_recorded(files: AttemptFiles) -> ProcessIdentity:
    """Return the process that was written down, which never changes; raises LookupError if none was."""
    process, launch = read_record(files.process), _read_launch(files)
    pid = read_pid(process.get("pid")) if process else None
    if process is None or launch is None or pid is None:
        raise LookupError
    return ProcessIdentity(launch["host"], launch["boot_id"], pid, str(process.get("start_time")))


def _read_launch(files: AttemptFiles) -> dict[str, str] | None:
    """Return where a start was made, and how its processes are marked; None if that was not written."""
    record = read_record(files.launch) or {}
    known = {name: record[name] for name in ("host", "boot_id", "tree") if isinstance(record.get(name), str)}
    return known if len(known) == len(("host", "boot_id", "tree")) else None


def _require_startable(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
    if not cwd.is_dir():
        raise StartFailed(
            f"The folder that the agent works in is gone: {cwd}.",
            suggestion="Release the task, so that its next claim makes a new worktree.",
        )
    if shutil.which(argv[0], path=env.get("PATH", os.defpath)) is None and not (cwd / argv[0]).is_file():
        raise _build_missing_error(argv[0])


@contextmanager
def _hold_start(files: AttemptFiles) -> Iterator[int]:
    """Hold the lock of the start; raises AlreadyStarted if others hold it, or if it may have run."""
    descriptor = _open(files.lock, _LOCK_FLAGS)
    try:
        if not try_flock(descriptor) or files.process.exists() or files.exit.exists():
            raise _build_started_error(files)
        launch = _read_launch(files)
        if launch is not None and launch["boot_id"] != read_boot_id():  # its later files may be lost
            raise _build_started_error(files)
        yield descriptor
    finally:
        os.close(descriptor)


def _run_shim(
    files: AttemptFiles, lock: int, words: Sequence[str], *, cwd: Path, env: Mapping[str, str]
) -> str:
    """Run the shim and return its answer, empty if it was killed before it could answer."""
    status, status_writing = os.pipe()
    script = [
        sys.executable,
        "-I",
        "-S",
        str(_SHIM),
        str(files.folder.absolute()),
        str(lock),
        str(status_writing),
    ]
    with os.fdopen(status, "rb", 0) as answer:
        try:
            with _open_streams(files) as (stdin, stdout, stderr):
                first = subprocess.Popen(  # noqa: S603 (argv is ours; never a shell)
                    [*script, *words],
                    cwd=cwd,
                    env=env,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=(lock, status_writing),
                    start_new_session=True,
                )
        except OSError as error:
            raise to_storage_error("start a process for", files.folder, error) from error
        finally:
            os.close(status_writing)
        line = _read_answer(answer)
        first.wait()
        return line


def _read_answer(answer: IO[bytes]) -> str:
    if not select.select([answer], [], [], _MAX_START_SECONDS)[0]:
        raise StorageError(
            f"The agent did not start within {_MAX_START_SECONDS:g} s.",
            suggestion="This machine is very busy, or the process was stopped; observe it first.",
            recoverable=True,
        )
    return answer.readline().decode().strip()


@contextmanager
def _open_streams(files: AttemptFiles) -> Iterator[list[int]]:
    opened: list[int] = []
    try:
        opened.append(_open(files.prompt, _INPUT_FLAGS))
        opened.extend(_open(path, _OUTPUT_FLAGS) for path in (files.stdout, files.stderr))
        yield opened
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _build_start_error(files: AttemptFiles, argv: Sequence[str], problem: str) -> Exception:
    step, _, number = problem.partition(" ")
    if step == "program" and int(number) in (errno.ENOENT, errno.ENOTDIR):
        return _build_missing_error(argv[0])
    if step == "program":
        return StartFailed(f"The program {argv[0]!r} cannot be started: {os.strerror(int(number))}.")
    if step == "record":
        return to_storage_error("write", files.process, OSError(int(number), os.strerror(int(number))))
    return StorageError(
        f"The process for {format_path(files.folder)} ended before it could start the agent.",
        suggestion="Something killed it, or memory is short. Look at what happened to it, then start again.",
        recoverable=True,
    )


def _build_missing_error(program: str) -> StartFailed:
    return StartFailed(
        f"There is no program {program!r}.",
        suggestion="Install it, or correct `run` of the agent in your agents.yml, then run again.",
    )


def _build_started_error(files: AttemptFiles) -> AlreadyStarted:
    return AlreadyStarted(
        f"The start {format_path(files.folder)} was already made.", suggestion="Use the next start number."
    )


# --- observe


def observe(
    files: AttemptFiles, identity: ProcessIdentity | None = None, cpu_times: CpuTimes | None = None
) -> Observation:
    """Return what the start does; without an identity, that of its files.

    Of a running one it reads one small file; `cpu_ms` is known only with `cpu_times`, which are read once for
    all starts.
    """
    identity = identity or read_identity(files)
    if identity is None:
        return _observe_exit(files) or _observe_launch(files)
    _require_this_host(identity)
    if _is_running(files, identity):
        cpu_ms = cpu_times.measure_tree(identity.pid) if cpu_times is not None else None
        return Observation(ProcessState.RUNNING, cpu_ms=cpu_ms)
    is_same_boot = identity.boot_id == read_boot_id()
    return _observe_exit(files) or Observation(
        ProcessState.VANISHED if is_same_boot else ProcessState.REBOOTED
    )


def _observe_exit(files: AttemptFiles) -> Observation | None:
    record = read_record(files.exit)
    if record is None:
        return None
    reason = record.get("reason")
    return Observation(
        ProcessState.EXITED,
        code=read_whole_number(record.get("code"), _MAX_CODE, least=-_MAX_CODE),
        reason=reason if isinstance(reason, str) else "",
        cpu_ms=read_whole_number(record.get("cpu_ms"), MAX_MOMENT),
        ended_at=read_moment(record.get("ended_at")),
        left=read_whole_number(record.get("left"), MAX_PID) or 0,
    )


def _observe_launch(files: AttemptFiles) -> Observation:
    """Return what is known where no process was written: after a power failure that may be lost."""
    launch = _read_launch(files)
    if launch is None:
        return Observation(ProcessState.NOT_STARTED)
    _require_this_host(ProcessIdentity(launch["host"], launch["boot_id"], 0, ""))
    is_same_boot = launch["boot_id"] == read_boot_id()
    return Observation(ProcessState.NOT_STARTED if is_same_boot else ProcessState.REBOOTED)


def _require_this_host(identity: ProcessIdentity) -> None:
    host = get_host_name()
    if identity.host.partition(".")[0] != host.partition(".")[0]:  # the domain depends on the network
        raise NotAllowed(
            f"This process was started on the host {identity.host!r}, and this is {host!r}.",
            suggestion=f"Run deepwork on {identity.host}, or wait until the task's lease has ended.",
        )


def _is_running(files: AttemptFiles, identity: ProcessIdentity) -> bool:
    if identity.boot_id != read_boot_id():
        return False
    start_time = supervisor.read_start_time(identity.pid)
    if start_time or supervisor.has_proc():
        return start_time == identity.start_time
    return read_identity(files) == identity and _is_locked(files)


def _is_locked(files: AttemptFiles) -> bool:
    """Return whether a shim holds the lock; only for a start that was recorded, since it takes it."""
    try:
        descriptor = os.open(files.lock, _LOCK_FLAGS)
    except OSError:
        return False
    try:
        return not try_flock(descriptor)
    finally:
        os.close(descriptor)


# --- interrupt, end


def interrupt_process(files: AttemptFiles, identity: ProcessIdentity) -> None:
    """Interrupt what the agent is doing, as Ctrl-C does; it may end by that, or go on."""
    _signal_shim(files, identity, signal.SIGUSR2)


def end_process(
    files: AttemptFiles, identity: ProcessIdentity | None = None, grace_seconds: float = DEFAULT_GRACE_SECONDS
) -> None:
    """End the agent with everything that it started, and return when that is done.

    It works whatever was killed before. A start that has not been made can never be made afterwards.
    """
    identity = identity or read_identity(files)
    if identity is None:
        identity = _forbid_start(files)
    if identity is None:
        return
    _require_this_host(identity)
    _end_shim(files, identity, grace_seconds)
    if (ending := _observe_exit(files)) is None or ending.left:
        _end_leftovers(files)


def _end_shim(files: AttemptFiles, identity: ProcessIdentity, grace_seconds: float) -> None:
    asks = (
        (signal.SIGTERM, grace_seconds),
        (signal.SIGUSR1, _MAX_END_SECONDS),
        (signal.SIGKILL, _MAX_END_SECONDS),
    )
    for number, seconds in asks:
        if seconds > 0 and _is_running(files, identity):
            _signal_shim(files, identity, number)
            _wait_until(lambda: not _is_running(files, identity), seconds)


def _end_leftovers(files: AttemptFiles) -> None:
    """End what a killed shim left: all processes with the marker of the start, or in the agent's session."""
    launch = _read_launch(files)
    if launch is None:
        return
    agent = _read_agent(files) if launch["boot_id"] == read_boot_id() else None
    if agent and not supervisor.has_proc():  # its group has the same number as its session
        supervisor.signal_group(agent[0], signal.SIGKILL)
    if not supervisor.has_proc():
        return

    def find() -> list[tuple[int, str]]:
        return supervisor.list_marked(launch["tree"]) + (supervisor.list_session(agent) if agent else [])

    if left := supervisor.end_processes(find, lambda: None):
        raise StorageError(
            f"{left} processes of {format_path(files.folder)} cannot be ended.",
            suggestion="They belong to another user or hang in the kernel; end them, then call again.",
        )


def _read_agent(files: AttemptFiles) -> tuple[int, str] | None:
    """Return the process of the agent, which leads a session, and when it started."""
    process = read_record(files.process) or {}
    pid, start = read_pid(process.get("agent_pid")), process.get("agent_start_time")
    is_known = isinstance(start, str) and (start.isdecimal() or not supervisor.has_proc())
    return (pid, str(start)) if pid and is_known else None


def _forbid_start(files: AttemptFiles) -> ProcessIdentity | None:
    """Make it impossible to make this start, or return the process of one that was being made."""
    make_private_folder(files.folder)
    descriptor = _open(files.lock, _LOCK_FLAGS)
    try:
        found: list[ProcessIdentity] = []

        def is_decided() -> bool:
            found.extend(filter(None, [read_identity(files)]))
            return bool(found) or try_flock(descriptor)

        if not _wait_until(is_decided, _MAX_START_SECONDS):
            raise StorageError(f"The start {format_path(files.folder)} takes too long.", recoverable=True)
        identity = found[0] if found else read_identity(files)
        if identity is None and observe(files).state is ProcessState.NOT_STARTED:
            _write_record(files.exit, reason="stopped", code=None, ended_at=time.time_ns() // 1_000_000)
        return identity
    finally:
        os.close(descriptor)


def _signal_shim(files: AttemptFiles, identity: ProcessIdentity, number: int) -> None:
    """Send a signal to the shim, and to no other process that has its pid now."""
    with suppress(ProcessLookupError):
        if supervisor.has_proc():
            supervisor.signal_process((identity.pid, identity.start_time), number)
        elif _is_running(files, identity):
            os.kill(identity.pid, number)


def _wait_until(is_done: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not is_done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


# --- files


def _write_record(path: Path, **values: Any) -> None:
    write_atomically(path, f"{json.dumps(values)}\n".encode())


def _open(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise to_storage_error("open", path, error) from error
