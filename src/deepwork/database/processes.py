"""Finds the processes that have a file open, through /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# A plain string: there are thousands of open files, and a `Path` for each costs more than reading its link.
_PROCESSES = "/proc"


def find_processes_with_open(path: Path) -> list[int] | None:
    """Return pids of other processes, visible to this user, that have the file open; None without /proc."""
    if not Path(_PROCESSES, "self", "fd").is_dir():
        return None
    wanted = str(path.resolve())
    numbers = (int(name) for name in os.listdir(_PROCESSES) if name.isdecimal())  # noqa: PTH208
    return sorted(
        number for number in numbers if number != os.getpid() and wanted in _list_open_files(number)
    )


def _list_open_files(number: int) -> Iterator[str]:
    folder = f"{_PROCESSES}/{number}/fd"
    with suppress(OSError):  # it has exited, or belongs to another user
        for name in os.listdir(folder):  # noqa: PTH208
            with suppress(OSError):
                yield os.readlink(f"{folder}/{name}")  # noqa: PTH115
