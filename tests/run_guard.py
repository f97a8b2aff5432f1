"""Ends what tests leave behind when they are killed: `run_guard.py PARENT_PID FOLDER...`.

It ends the processes that have one of the folders in their environment or command line, and removes the folders.
It is a process of its own, in a session of its own, so no signal to the tests reaches it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LOOK_SECONDS = 0.2

_started: list[subprocess.Popen[bytes]] = []  # nobody waits for them: they outlive this process


def start_guard(*folders: Path) -> subprocess.Popen[bytes]:
    """Start a guard that waits for the end of this process; the folders' names must be unique on this machine."""
    started = subprocess.Popen(
        [sys.executable, "-I", __file__, str(os.getpid()), *folders],
        env={},  # else it would find itself
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _started.append(started)
    return started


def guard(parent: int, folders: list[str]) -> None:
    """Wait until the parent has ended, then end what it left and remove its data."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # `pkill` of everything that tests started
        signal.signal(number, signal.SIG_IGN)
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    while found := list(_find_processes(folders)):
        for process in found:
            with suppress(ProcessLookupError):
                # PostgreSQL then ends all its processes at once, and releases its shared memory.
                os.kill(process, signal.SIGQUIT if _is_postgres(process) else signal.SIGKILL)
        time.sleep(LOOK_SECONDS)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _find_processes(folders: list[str]) -> Iterator[int]:
    words = [folder.encode() for folder in folders]
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to somebody else
            said = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            is_guard = b"\0" + __file__.encode() + b"\0" in said
            if not is_guard and any(word in said for word in words):
                yield int(process.name)


def _is_postgres(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip() == "postgres"
    return False


if __name__ == "__main__":
    guard(int(sys.argv[1]), sys.argv[2:])
