"""Fresh folders for clean runs: no other user can read them, or put settings into one of their parents."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from deepwork.kernel.environment import get_cache_folder
from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.private import make_private_folder, require_safe_parents

_CLEAN = "clean"
_PREFIX = "tree-"
_NAME_PATTERN = re.compile(_PREFIX + r"[a-z0-9_]{8}")
_MIN_AGE_SECONDS = 60
"""A folder that is younger may not be locked yet."""


@contextmanager
def open_clean_folder() -> Iterator[tuple[Path, int]]:
    """Yield an empty folder with an unpredictable name, and the descriptor that keeps it from being removed.

    Tools that look for settings in parent folders find none of the project, and none of another user.
    """
    parent = get_cache_folder() / _CLEAN
    make_private_folder(parent.parent)
    make_private_folder(parent)
    require_safe_parents(parent)
    _remove_left(parent)
    require_nothing_else(parent)
    folder = Path(mkdtemp(prefix=_PREFIX, dir=parent))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder, descriptor
        require_nothing_else(parent)
    finally:
        os.close(descriptor)
        shutil.rmtree(folder, ignore_errors=True)


def require_nothing_else(parent: Path) -> None:
    """Raise StorageError if something is beside the clean folders, or beside the folder that has them all."""
    found = [entry for entry in parent.iterdir() if not _NAME_PATTERN.fullmatch(entry.name)]
    found += [entry for entry in parent.parent.iterdir() if entry != parent]
    if found:
        raise StorageError(
            f"{found[0]} is not a file of deepwork: a tool that runs below could take it for its settings.",
            suggestion="Remove it, then call again.",
        )


def _remove_left(parent: Path) -> None:
    """Remove the folders of processes that were killed: nobody holds a lock on them."""
    for entry in os.scandir(parent):
        if not _NAME_PATTERN.fullmatch(entry.name):
            continue
        with suppress(OSError):
            if time.time() - entry.stat(follow_symlinks=False).st_ctime < _MIN_AGE_SECONDS:
                continue
            descriptor = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                os.close(descriptor)
