"""File stamps, to detect whether a file has changed since it was read."""

from __future__ import annotations

import os

FileStamp = tuple[int, int, int, int]
"""Modification time, change time, size and inode."""


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


def to_printable_name(name: str) -> str:
    """Convert a file name to text that can be sent: escapes bytes that are not UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")
