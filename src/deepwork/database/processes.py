"""Which processes have a file open, where the system tells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROCESSES = Path("/proc")


def with_open(path: Path) -> list[int] | None:
    """Other processes that have the file open, as far as this user may look; None where nobody can tell."""
    if not (_PROCESSES / "self" / "fd").is_dir():
        return None
    wanted = str(path.resolve())
    numbers = (int(entry.name) for entry in _PROCESSES.glob("[0-9]*"))
    return sorted(number for number in numbers if number != os.getpid() and wanted in _open_files(number))


def _open_files(number: int) -> Iterator[str]:
    folder = _PROCESSES / str(number) / "fd"
    with suppress(OSError):  # it is gone, or another user's
        for name in os.listdir(folder):  # noqa: PTH208 - names are enough
            with suppress(OSError):
                yield str((folder / name).readlink())
