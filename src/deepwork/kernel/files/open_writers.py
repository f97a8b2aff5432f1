"""Files that a program has open for writing: their change times do not tell whether they change.

A program that mapped a file into its memory can change it again and again, and only the first change sets its
time. So nothing that such a file has can be proved.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from deepwork.kernel.files.lock import open_unlocked

_SET_SIGNAL = 10
"""F_SETSIG of Linux, which Python does not name."""
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def find_open_for_writing(folder: Path, paths: Iterable[str]) -> list[str]:
    """List the files that some program may write without opening them again; elsewhere than on Linux none."""
    if sys.platform != "linux":
        return []
    start = f"{folder}/"
    return [path for path in paths if _is_open_for_writing(start + path)]


def _is_open_for_writing(path: str) -> bool:
    """Ask the kernel for a lease: it gives none to read a file that somebody may write."""
    try:
        descriptor = open_unlocked(path, _FLAGS)
    except OSError:  # a link, or gone: both are compared elsewhere
        return False
    try:
        # Whoever opens the file at this moment would else end this process: the default of SIGIO.
        fcntl.fcntl(descriptor, _SET_SIGNAL, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:  # other errors: a file of another user, or a file system without leases
        return error.errno == errno.EAGAIN
    finally:
        os.close(descriptor)  # ends the lease
    return False
