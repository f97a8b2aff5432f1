"""The parent process of one supervised program: it ends the program with everything that that started.

It does so when the program has exited, at a deadline, on a signal, and when the process that started it
closes the control pipe, which the kernel does for a process that was killed. Only then it reports the result.

This file runs as a script, isolated and without site packages, so it imports only the standard library, and
only small modules. Arguments: the descriptors of the control and of the status pipe, seconds, grace, further
descriptors to hold open until the end, such as those of locks, separated by commas, or `-`, and the program.
Lines on the status pipe: `started PID`, or `failed ERRNO`; at the end `ended REASON CODE LEFT`.
`delivery/runner/shim.py` extends it: a supervisor without a control pipe, which outlives the process that
started it.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    Process = tuple[int, str]
    """A process as its pid and start time: a pid alone may be another process a moment later."""

MARKER = "DEEPWORK_PROCESS_TREE"
"""The variable by which the processes of a tree are found: children inherit it."""

MARKER_LENGTH = 32

_PROC = "/proc"
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 0.02
_MAX_POLL_SECONDS = 0.25
_MAX_KILL_SECONDS = 10.0
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


# --- the processes of a tree


def has_proc() -> bool:
    """Return whether processes can be listed; elsewhere than on Linux only the process group is known."""
    return os.path.exists(f"{_PROC}/self/stat")  # noqa: PTH110 (importing pathlib takes longer than all the rest)


def list_marked(marker: str) -> list[Process]:
    """List the living processes that inherited this marker, without the one that asks."""
    return [
        (pid, start) for pid, _, start in _list_processes() if pid != os.getpid() and _has_marker(pid, marker)
    ]


def list_tree(root: int, marker: str) -> list[Process]:
    """List the living descendants of a process, and those that have the marker, without itself."""
    processes = _list_processes()
    children: dict[int, list[int]] = {}
    for pid, parent, _ in processes:
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        below = [pid for pid in children.get(waiting.pop(), ()) if pid not in found]
        found.update(below)
        waiting += below
    return [
        (pid, start)
        for pid, _, start in processes
        if pid != root and (pid in found or _has_marker(pid, marker))
    ]


def list_session(leader: Process) -> list[Process]:
    """List the living processes of the session that this process made, also if it has exited.

    They are found although their environment was cleared. While one of them lives, no other session gets its
    number, so a process that has the leader's pid now and started at another time means that none lives.
    """
    pid, start = leader
    if read_start_time(pid) not in ("", start):
        return []
    return [
        (member, member_start)
        for member, _, member_start in _list_processes()
        if int(member_start) >= int(start) and _get_session(member) == pid
    ]


def ask_processes(find: Callable[[], list[Process]], grace: float, reap: Callable[[], None]) -> None:
    """Ask all processes that `find` finds to end, and give them that many seconds."""
    if grace > 0:
        _signal_all(find(), signal.SIGTERM)
        _wait_until(lambda: not find(), grace, reap)


def end_processes(find: Callable[[], list[Process]], reap: Callable[[], None]) -> int:
    """End all processes that `find` finds, also those that start meanwhile; return how many are left.

    Each is stopped first, so that none can start another, and then killed.
    """
    deadline = time.monotonic() + _MAX_KILL_SECONDS
    while left := find():
        if time.monotonic() > deadline:  # of another user, or stuck in the kernel
            return len(left)
        stopped: set[Process] = set()
        while new := [process for process in find() if process not in stopped]:
            _signal_all(new, signal.SIGSTOP)
            stopped.update(new)
        _signal_all(stopped, signal.SIGKILL)
        _wait_until(lambda: not find(), _POLL_SECONDS, reap)
    return 0


def _wait_until(is_done: Callable[[], bool], seconds: float, reap: Callable[[], None]) -> None:
    began = time.monotonic()
    reap()
    while not is_done() and (waited := time.monotonic() - began) < seconds:
        step = max(_POLL_SECONDS / 4, waited / 16)  # listing processes again and again would keep a core busy
        time.sleep(min(step, seconds / 4, _MAX_POLL_SECONDS))
        reap()


def _list_processes() -> list[tuple[int, int, str]]:
    """List pid, parent and start time of every process that has not exited."""
    pids = [int(name) for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208
    return [(pid, *stat) for pid in pids if (stat := _read_stat(pid)) is not None]


def _read_stat(pid: int) -> tuple[int, str] | None:
    """Return parent and start time of a process; None if it has exited."""
    content = read_file(f"{_PROC}/{pid}/stat")
    words = content.rpartition(b")")[2].split()  # the name before may contain anything
    if not words or words[0] in (b"Z", b"X"):
        return None
    return int(words[1]), words[19].decode()


def read_start_time(pid: int) -> str:
    """Return when a process started, in ticks since the start of the machine; empty if it has exited."""
    stat = _read_stat(pid)
    return stat[1] if stat else ""


def read_parent(pid: int) -> int:
    """Return the parent of a process; 0 if it has exited."""
    stat = _read_stat(pid)
    return stat[0] if stat else 0


def _get_session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:  # it has exited
        return 0


def _has_marker(pid: int, marker: str) -> bool:
    """Return whether a process is in the tree of this name, or in a tree that was started inside it."""
    if len(marker) < MARKER_LENGTH:  # would be found in every process
        return False
    own = f"{MARKER}={marker}".encode()
    variables = read_file(f"{_PROC}/{pid}/environ").split(b"\0")
    return any(variable == own or variable.startswith(own + b"/") for variable in variables)


def read_file(path: str) -> bytes:
    """Read a file of /proc, several times as fast as with `open`; empty if the process has exited."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # it has exited, or belongs to another user
        return b""
    content = b""
    try:
        while chunk := os.read(descriptor, 65536):
            content += chunk
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return content


def _signal_all(processes: Iterable[Process], number: int) -> None:
    for process in processes:
        try:
            signal_process(process, number)
        except OSError:  # it has exited, or belongs to another user
            continue


def signal_process(process: Process, number: int) -> None:
    """Send a signal to exactly this process, and to none that has got its pid since."""
    pid, start = process
    descriptor = os.pidfd_open(pid)
    try:
        stat = _read_stat(pid)
        if stat is not None and stat[1] == start:
            signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


# --- the supervisor


class Supervisor:
    """Starts the program, waits for a reason to end it, ends its tree."""

    def __init__(self, control: int | None, status: int, grace: float) -> None:
        self._control, self._status, self._grace = control, status, grace
        self._marker = os.environ.get(MARKER, "")
        self._child = 0
        self._code: int | None = None
        self._is_stopped = False
        self._is_hurried = False
        self._wakeup, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # any handler makes the wakeup work
        for number in _STOP_SIGNALS:
            signal.signal(number, self._stop)

    def run(self, program: list[str], seconds: float) -> None:
        """Run the program to its end, and report."""
        deadline = time.monotonic() + seconds
        adopt_orphans()
        problem = self._start(program)
        if problem:
            self._report(f"failed {problem}")
            return
        self._report(f"started {self._child}")
        release_output()
        try:
            reason = self._wait(deadline)
            left = self._end_tree()
        except BaseException:  # nobody reads what we print; the process that started us ends what we leave
            signal_group(self._child, signal.SIGKILL)
            raise
        self._report(f"ended {reason} {-signal.SIGKILL if self._code is None else self._code} {left}")

    def _start(self, program: list[str]) -> int:
        """Start the program in a session of its own; return 0, or the number of the error."""
        reading, writing = os.pipe()
        gate, opener = os.pipe()
        parent = os.getpid()
        self._child = os.fork()
        if self._child == 0:
            os.close(opener)
            _become(program, parent, gate, writing)
        os.close(writing)
        try:
            self._record_start()
            os.write(opener, b"!")
        except OSError as error:
            return error.errno or errno.EIO
        finally:
            os.close(gate)
            os.close(opener)  # a child that was not let in exits
        problem = os.read(reading, 16)
        os.close(reading)
        return int(problem or 0)

    def _record_start(self) -> None:
        """Write down what has to be known before the program runs; with an OSError it does not run."""

    def _wait(self, deadline: float) -> str:
        poll = select.poll()
        for descriptor in (self._control, self._wakeup):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        while True:
            if self._has_exited():
                return "exited"
            if self._is_stopped:
                return "stopped"
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return "timeout"
            for descriptor, _ in poll.poll(min(remaining, 3600.0) * 1000):
                if descriptor == self._control:
                    return "ended"
                os.read(self._wakeup, 4096)

    def _has_exited(self) -> bool:
        """Return whether the program has exited; reaps the others, which it left to us."""
        while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if found.si_pid == self._child:
                return True
            os.waitpid(found.si_pid, os.WNOHANG)
        return False

    def _end_tree(self) -> int:
        if not has_proc():
            return self._end_group()

        def find() -> list[Process]:
            return list_tree(os.getpid(), self._marker)

        ask_processes(lambda: [] if self._is_hurried else find(), self._grace, self._reap)
        self._end_children()
        left = end_processes(find, self._reap)
        self._reap()
        return left or int(_has_children())

    def _end_children(self) -> None:
        """End our children until there are none: all that is left below us becomes our child.

        A list of processes misses one that is replaced by its own child again and again. A group is killed at
        once; and until we reap a child, neither its number nor that of its group belongs to another process.
        """
        deadline = time.monotonic() + _MAX_KILL_SECONDS
        while _has_children() and time.monotonic() < deadline:
            for child in _list_children():
                _kill_group_of(child)
            self._reap()
            time.sleep(_POLL_SECONDS / 20)

    def _end_group(self) -> int:
        """End the process group; the program has not been reaped, so its group still has its number."""
        if self._grace > 0:
            signal_group(self._child, signal.SIGTERM)
            _wait_until(lambda: self._code is not None or self._is_hurried, self._grace, self._reap)
        signal_group(self._child, signal.SIGKILL)
        _wait_until(lambda: self._code is not None, _MAX_KILL_SECONDS, self._reap)
        return 0 if self._code is not None else 1

    def _reap(self) -> None:
        """Reap everything that has exited, and keep the exit code of the program."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._child:
                self._code = os.waitstatus_to_exitcode(status)

    def _stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of signal handlers
        self._is_stopped = True

    def _report(self, line: str) -> None:
        try:
            os.write(self._status, f"{line}\n".encode())
        except BrokenPipeError:  # the process that started us is gone
            return


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent exits; a daemon cannot get away."""
    _control_process(_PR_SET_CHILD_SUBREAPER, 1)


def _become(program: list[str], parent: int, gate: int, problems: int) -> None:
    """Replace this process, a new child, by the program, as soon as the gate is open."""
    try:
        os.setsid()
        _control_process(_PR_SET_PDEATHSIG, signal.SIGKILL)  # if the supervisor is killed
        if os.getppid() != parent or not os.read(gate, 1):
            os._exit(1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and programs inherit that
            signal.signal(number, signal.SIG_DFL)
        os.execvp(program[0], program)  # noqa: S606 (argv is ours; never a shell)
    except OSError as error:
        os.write(problems, str(error.errno or errno.EIO).encode())
    finally:
        os._exit(127)


def _has_children() -> bool:
    """Return whether this process has children, running or not reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _list_children() -> list[int]:
    """List the children of this process, also those that are not reaped."""
    listed = read_file(f"{_PROC}/self/task/{os.getpid()}/children")
    if listed:
        return [int(pid) for pid in listed.split()]
    return [pid for pid, parent, _ in _list_processes() if parent == os.getpid()]


def _kill_group_of(child: int) -> None:
    try:
        group = os.getpgid(child)
    except ProcessLookupError:
        return
    if group != os.getpgrp():
        signal_group(group, signal.SIGKILL)


def signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except OSError:  # it has exited
        return


def release_output() -> None:
    """Close our end of the program's pipes, so that readers see their end."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def hide_process() -> None:
    """Keep other processes of this user from reading our environment and memory, where the system can."""
    _control_process(_PR_SET_DUMPABLE, 0)


def _control_process(option: int, value: int) -> None:
    """Call prctl, if this is Linux."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes  # noqa: PLC0415

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main(arguments: list[str]) -> None:
    """Run a program as the arguments say."""
    control, status = int(arguments[0]), int(arguments[1])
    held = [int(word) for word in arguments[4].split(",") if word != "-"]
    for descriptor in (control, status, *held):
        os.set_inheritable(descriptor, False)  # the program must not hold them open
    Supervisor(control, status, float(arguments[3])).run(arguments[5:], float(arguments[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
