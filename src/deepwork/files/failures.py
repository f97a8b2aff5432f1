"""The one way in which an error of the operating system becomes one of ours."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from deepwork.errors import Code, StorageError

if TYPE_CHECKING:
    from pathlib import Path

_FULL = {errno.ENOSPC, errno.EDQUOT}


def shown(path: Path) -> str:
    """A file as callers may know it: its folder and its name, nothing of the machine around them."""
    return "/".join(path.parts[-2:])


def storage_failure(action: str, path: Path, error: OSError) -> StorageError:
    """Say what could not be done to which file, and what would help."""
    if error.errno in _FULL:
        return StorageError(
            f"Cannot {action} {shown(path)}: the disk is full.",
            code=Code.STORAGE_FULL,
            suggestion="Free some space, then call again; nothing was changed.",
            recoverable=True,
        )
    return StorageError(f"Cannot {action} {shown(path)}: {error.strerror or error}.")
