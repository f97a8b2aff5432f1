"""A program with bad manners, for the tests of supervision. Arguments: a folder, and what it does.

Each of its processes writes its pid into the folder.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    folder, *acts = sys.argv[1:]
    _record(Path(folder), "main")
    for act in acts:
        ACTS[act](Path(folder))


def hang(_: Path) -> None:
    time.sleep(600)


def start_daemon(folder: Path) -> None:
    """Start a process in a session of its own, without a parent, that ignores SIGTERM."""
    _start_daemon(folder, "daemon", clears_environment=False)


def start_nameless_daemon(folder: Path) -> None:
    """Start a daemon that cannot be found by its environment."""
    _start_daemon(folder, "nameless", clears_environment=True)


def close_output(folder: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    (folder / "closed").touch()


def flood(_: Path) -> None:
    while True:
        os.write(1, b"x" * 65536)


def respawn(folder: Path) -> None:
    """Start a process that is replaced by a child of its own again and again.

    It ends by itself after a minute: if supervision fails, nothing else could catch it.
    """
    if os.fork() == 0:
        os.setsid()
        _record(folder, "respawning")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if os.fork() != 0:
                os._exit(0)
            time.sleep(0.001)
        os._exit(0)


def ignore_term(_: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def clean_up_on_term(folder: Path) -> None:
    def clean_up(*_: object) -> None:
        (folder / "cleaned").touch()
        sys.exit(0)

    signal.signal(signal.SIGTERM, clean_up)


def list_descriptors(_: Path) -> None:
    found = []
    for descriptor in range(3, 64):
        try:
            os.fstat(descriptor)
            found.append(descriptor)
        except OSError:
            continue
    print(found, flush=True)


def answer(_: Path) -> None:
    print("out", flush=True)
    print("err", file=sys.stderr, flush=True)
    sys.exit(7)


ACTS = {
    "hang": hang,
    "daemon": start_daemon,
    "nameless": start_nameless_daemon,
    "close": close_output,
    "flood": flood,
    "respawn": respawn,
    "ignore": ignore_term,
    "clean": clean_up_on_term,
    "descriptors": list_descriptors,
    "answer": answer,
}


def _start_daemon(folder: Path, name: str, *, clears_environment: bool) -> None:
    if (child := os.fork()) != 0:
        os.waitpid(child, 0)
        while not (folder / f"{name}.pid").exists():
            time.sleep(0.01)
        return
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _record(folder, name)
    environment = {} if clears_environment else dict(os.environ)
    os.execve("/bin/sleep", ["sleep", "600"], environment)


def _record(folder: Path, name: str) -> None:
    beside = folder / f".{name}-{os.getpid()}"
    beside.write_text(str(os.getpid()))
    beside.rename(folder / f"{name}.pid")


if __name__ == "__main__":
    main()
