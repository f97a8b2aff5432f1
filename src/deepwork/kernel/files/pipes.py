"""Named pipes and devices: git does not see them, but programs read them like files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path


def list_pipes(root: Path, folders: Iterable[str]) -> list[str]:
    """List the named pipes and devices that are directly in these folders, relative to the root."""
    return [
        f"{folder}/{name}" if folder else name
        for folder in folders
        for name in _list_names(os.path.join(root, folder))  # noqa: PTH118 - faster
    ]


def _list_names(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_usual = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
                if not is_usual and not entry.is_symlink() and not _is_socket(entry):
                    yield entry.name
    except (FileNotFoundError, NotADirectoryError):  # removed meanwhile
        return


def _is_socket(entry: os.DirEntry[str]) -> bool:
    """Return whether nobody can read it like a file."""
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
