"""The lock of one run: held by the process that runs it, and by the supervisor of its command."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OPEN_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_POLL_SECONDS = 0.05


@contextmanager
def hold_run_lock(path: Path) -> Iterator[int]:
    """Hold the lock while the block runs, however long others hold it before; yields its descriptor.

    A program that inherits the descriptor holds it too. If this process is killed, the lock becomes free when
    that program has ended.
    """
    descriptor = _acquire(path)
    try:
        yield descriptor
    finally:
        path.unlink(missing_ok=True)  # those who wait notice that it was replaced
        os.close(descriptor)


def _acquire(path: Path) -> int:
    while True:
        descriptor = os.open(path, _OPEN_FLAGS, 0o600)
        try:
            while not _try_lock(descriptor):
                time.sleep(_POLL_SECONDS)
            if _is_in_place(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_in_place(descriptor: int, path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    mine = os.fstat(descriptor)
    return (mine.st_dev, mine.st_ino) == (found.st_dev, found.st_ino)
