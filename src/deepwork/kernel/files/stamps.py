"""File stamps, to detect whether a file has changed since it was read."""

from __future__ import annotations

import os
from collections.abc import Iterable

FileStamp = tuple[int, int, int, int]
"""Modification time, change time, size and inode."""

_CLOCK_TICK_NS = 20_000_000


def read_stamp(path: str) -> FileStamp:
    """Read the current stamp of a file; follows links."""
    status = os.stat(path)  # noqa: PTH116 - creating a Path for each of 500 files costs more than the call
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def find_stamp(path: str) -> FileStamp | None:
    """Read the stamp of a file; None if it is missing or inaccessible."""
    try:
        return read_stamp(path)
    except OSError:
        return None


def are_reliable(stamps: Iterable[FileStamp | None], began: int) -> bool:
    """Whether every file last changed clearly before `began`, in Unix nanoseconds, when reading started.

    File systems take modification times from a clock with coarse ticks. A file that changes twice within
    one tick keeps its stamp, so a stamp as young as the read itself proves nothing (git calls such entries
    "racy").
    """
    newest = max((changed for _, changed, *_ in filter(None, stamps)), default=0)
    return newest < began - _CLOCK_TICK_NS


def to_printable_name(name: str) -> str:
    """Convert a file name to text that can be sent: escapes bytes that are not UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")
