"""The parent process of one start of an agent: it outlives the runner, and writes down how the agent ended.

It holds the lock of the start for its whole life. It writes `process` before the agent runs, and `exit` after
the agent has ended with everything that it started; both are complete or not there. So a process that looks
later, after any process was killed at any moment, knows what ran: without `process` the agent has never run,
with `process` and without `exit` it runs as long as this process does.

This file runs as a script, isolated and without site packages, so it imports only the standard library and
the supervisor, by its path. Arguments: the folder of the start, the descriptors of the lock and of the status
pipe, seconds, grace, and the program. Lines on the status pipe: `started PID START_TIME`, or
`failed STEP ERRNO`. Signals: SIGTERM ends the agent after the grace, SIGUSR1 at once, SIGUSR2 interrupts it.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from deepwork.kernel.supervision import supervisor
else:
    _FLOOR = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 (fast start)
    sys.path.append(os.path.join(os.path.dirname(_FLOOR), "kernel", "supervision"))  # noqa: PTH118, PTH120
    import supervisor

LEFTOVER_GRACE_SECONDS = 2.0
"""What the agent left running when it exited gets at most this long to end by itself."""

_EXIT_RETRY_SECONDS = 30.0
_RETRY_PAUSE_SECONDS = 0.2
_OUTPUT_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Shim(supervisor.Supervisor):
    """Runs the agent, detached from the process that started it."""

    def __init__(self, folder: str, status: int, grace: float) -> None:
        super().__init__(None, status, grace)
        self._folder = folder
        self._start_time = supervisor.read_start_time(os.getpid()) or str(time.time_ns())
        self._is_recorded = False
        signal.signal(signal.SIGUSR1, self._hurry)
        signal.signal(signal.SIGUSR2, self._interrupt)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the process that started us may have blocked some

    def run(self, program: list[str], seconds: float) -> None:
        """Run the agent to its end, and write down how it ended."""
        deadline = time.monotonic() + seconds
        supervisor.adopt_orphans()
        problem = self._start(program)
        if problem:
            self._give_up(problem)
            return
        self._report(f"started {os.getpid()} {self._start_time}")
        supervisor.release_output()
        os.chdir("/")  # the tree may be removed
        try:
            reason = self._wait(deadline)
            if reason == "exited":
                self._grace = min(self._grace, LEFTOVER_GRACE_SECONDS)
            left = self._end_tree()
        except BaseException:  # nobody reads what we print; a runner that finds no `exit` ends what we leave
            supervisor.signal_group(self._child, signal.SIGKILL)
            raise
        self._write_exit(reason, left)

    def _record_start(self) -> None:
        """Write down who we are, before the agent runs."""
        agent_start = supervisor.read_start_time(self._child)
        content = (
            f'{{"pid": {os.getpid()}, "start_time": "{self._start_time}", '
            f'"agent_pid": {self._child}, "agent_start_time": "{agent_start}"}}\n'
        )
        write_file(self._folder, "process", content)
        self._is_recorded = True

    def _give_up(self, problem: int) -> None:
        """Report why the agent does not run; what could not even be recorded may be started again."""
        if self._is_recorded:
            self._write_exit("failed", 0)
        self._report(f"failed {'program' if self._is_recorded else 'record'} {problem}")

    def _write_exit(self, reason: str, left: int) -> None:
        """Write the exit code; while the disk is full, try again for a while."""
        code = "null" if self._code is None else str(self._code)
        content = (
            f'{{"reason": "{reason}", "code": {code}, "left": {left}, '
            f'"cpu_ms": {measure_ended_children()}, "ended_at": {time.time_ns() // 1_000_000}}}\n'
        )
        deadline = time.monotonic() + _EXIT_RETRY_SECONDS
        while True:
            try:
                self._flush_output()
                write_file(self._folder, "exit", content, is_durable=True)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_PAUSE_SECONDS)
            else:
                return

    def _flush_output(self) -> None:
        """Bring the output to the disk before the exit code: after a power failure it must not be shorter.

        The agent may have removed a file, or put a pipe in its place, which must not hold us up.
        """
        for name in ("stdout", "stderr"):
            try:
                descriptor = os.open(f"{self._folder}/{name}", _OUTPUT_FLAGS)
            except OSError:
                continue
            try:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _hurry(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of signal handlers
        self._is_stopped = self._is_hurried = True

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._child and self._code is None:  # not reaped yet: its number belongs to nobody else
            supervisor.signal_group(self._child, signal.SIGINT)


def measure_ended_children() -> int:
    """Return the milliseconds of CPU that our children used, with the children that they waited for."""
    times = os.times()
    return round((times.children_user + times.children_system) * 1000)


def write_file(folder: str, name: str, content: str, *, is_durable: bool = False) -> None:
    """Write a new file that is complete or not there, and on the disk if it has to be durable."""
    temporary = f"{folder}/.{name}.{os.getpid()}.tmp"
    try:
        descriptor = os.open(temporary, _NEW_FILE_FLAGS, 0o600)
        try:
            if os.write(descriptor, content.encode()) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if is_durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, f"{folder}/{name}")  # noqa: PTH104
    except BaseException:
        remove_file(temporary)
        raise
    if is_durable:
        sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Bring the names of the files in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    os.fsync(descriptor)
    os.close(descriptor)


def remove_file(path: str) -> None:
    """Remove a file, if it is there."""
    try:
        os.unlink(path)  # noqa: PTH108
    except OSError:
        return


def main(arguments: list[str]) -> None:
    """Detach from the process that started us, and run a program as the arguments say."""
    if os.fork() != 0:
        os._exit(0)  # who started us waits for this process only; nobody waits for its child
    folder, lock, status = arguments[0], int(arguments[1]), int(arguments[2])
    for descriptor in (lock, status):
        os.set_inheritable(descriptor, False)  # the agent must not hold them open
    Shim(folder, status, float(arguments[4])).run(arguments[5:], float(arguments[3]))


if __name__ == "__main__":
    main(sys.argv[1:])
