"""Whether a file is still the one that was read."""

from __future__ import annotations

import os

Stamp = tuple[int, int, int, int]
"""What changes when a file does."""


def taken_stamp(path: str) -> Stamp:
    """How a file, or what a link leads to, stands now."""
    status = os.stat(path)  # noqa: PTH116 - a Path for each of 500 files costs more than asking
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def stamp(path: str) -> Stamp | None:
    """The same; None when the file is missing or out of reach."""
    try:
        return taken_stamp(path)
    except OSError:
        return None


def speakable(name: str) -> str:
    """A file's name as text that can be sent: bytes that are not UTF-8 are shown, not kept."""
    return os.fsencode(name).decode(errors="backslashreplace")
