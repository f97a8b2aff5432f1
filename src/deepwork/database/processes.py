"""Finds the processes that have a file open, through /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROCESSES = Path("/proc")


def find_processes_with_open(path: Path) -> list[int] | None:
    """Return pids of other processes, visible to this user, that have the file open; None without /proc."""
    if not (_PROCESSES / "self" / "fd").is_dir():
        return None
    wanted = str(path.resolve())
    numbers = (int(entry.name) for entry in _PROCESSES.glob("[0-9]*"))
    return sorted(
        number for number in numbers if number != os.getpid() and wanted in _list_open_files(number)
    )


def _list_open_files(number: int) -> Iterator[str]:
    folder = _PROCESSES / str(number) / "fd"
    with suppress(OSError):  # it has exited, or belongs to another user
        for name in os.listdir(folder):  # noqa: PTH208 - names are enough
            with suppress(OSError):
                yield str((folder / name).readlink())
