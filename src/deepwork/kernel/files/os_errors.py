"""Converts errors of the operating system to StorageError."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from deepwork.kernel.errors import Code, StorageError

if TYPE_CHECKING:
    from pathlib import Path

_DISK_FULL_ERRNOS = {errno.ENOSPC, errno.EDQUOT}


def format_path(path: Path) -> str:
    """Format a path for messages: only its folder and name, to hide the machine's other paths."""
    return "/".join(path.parts[-2:])


def to_storage_error(action: str, path: Path, error: OSError) -> StorageError:
    """Build an error that says which action failed for which file, with a suggestion."""
    if error.errno in _DISK_FULL_ERRNOS:
        return StorageError(
            f"Cannot {action} {format_path(path)}: the disk is full.",
            code=Code.STORAGE_FULL,
            suggestion="Free some space, then call again; nothing was changed.",
            recoverable=True,
        )
    return StorageError(f"Cannot {action} {format_path(path)}: {error.strerror or error}.")
