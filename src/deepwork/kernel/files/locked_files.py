"""The files of the stores that this process has open: nothing but SQLite may open them.

SQLite's locks belong to the process. Closing any descriptor of such a file drops them all, even one that was
opened only to read. So code that reads files which a caller named, or every file of a project, opens them
with `open_unlocked`.
"""

from __future__ import annotations

import errno
import os

FileIdentity = tuple[int, int]
"""The device and inode of a file."""

locked_files: set[FileIdentity] = set()
"""The files that SQLite has open in this process; only `kernel/database/store_file.py` changes this."""


def read_file_identity(path: str) -> FileIdentity | None:
    """Read which file is at this path; None if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_locked(status: os.stat_result) -> bool:
    """Return whether SQLite has this file open in this process."""
    return (status.st_dev, status.st_ino) in locked_files


def open_unlocked(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """Open a file, like `os.open`; raises PermissionError for a file of a store. Fits `open(opener=…)`."""
    look = os.lstat if flags & os.O_NOFOLLOW else os.stat
    if locked_files and is_locked(look(path)):
        raise PermissionError(errno.EACCES, "The file belongs to deepwork's store", os.fspath(path))
    return os.open(path, flags | os.O_CLOEXEC)
