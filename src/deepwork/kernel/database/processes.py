"""Finds the processes that have a file open, through /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from deepwork.kernel.files.lock import FileIdentity, read_file_identity

# A plain string: there are thousands of open files, and a `Path` for each costs more than reading its link.
_PROCESSES = "/proc"


def find_processes_with_open(path: Path) -> list[int] | None:
    """Return pids of other processes, visible to this user, that have the file open; None without /proc."""
    if not Path(_PROCESSES, "self", "fd").is_dir():
        return None
    wanted = str(path.resolve())
    identity = read_file_identity(wanted)
    numbers = (int(name) for name in os.listdir(_PROCESSES) if name.isdecimal())  # noqa: PTH208
    return sorted(
        number for number in numbers if number != os.getpid() and _has_open(number, wanted, identity)
    )


def _has_open(number: int, wanted: str, identity: FileIdentity | None) -> bool:
    """Return whether a process has the file open, perhaps through another mount of its folder."""
    folder, name = f"{_PROCESSES}/{number}/fd", wanted[wanted.rindex("/") :]
    with suppress(OSError):  # it has exited, or belongs to another user
        for descriptor in os.listdir(folder):  # noqa: PTH208
            with suppress(OSError):
                place = os.readlink(f"{folder}/{descriptor}")  # noqa: PTH115
                if place == wanted:
                    return True
                if place.endswith(name) and identity == _read_identity(f"{folder}/{descriptor}"):
                    return True
    return False


def _read_identity(path: str) -> FileIdentity:
    status = os.stat(path)  # noqa: PTH116 - follows the link to the open file
    return status.st_dev, status.st_ino
