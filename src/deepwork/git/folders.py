"""Folders that hold no file git would keep, yet: the first one may come at any moment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepwork.git.command import Git

_MOST = 10_000


def bare_folders(git: Git) -> list[str]:
    """Folders that are new to git, empty ones and those inside them included; relative to the project."""
    listed = os.fsdecode(git.run("ls-files", "-z", "--others", "--directory", "--exclude-standard"))
    new = [entry.rstrip("/") for entry in listed.split("\0") if entry.endswith("/")]
    found: list[str] = []
    for folder in new:
        for inner in _with_inner(os.fspath(git.root), folder):
            found.append(inner)
            if len(found) == _MOST:  # a new tree that nobody ignores: its files are listed anyway
                return found
    return found


def _with_inner(root: str, folder: str) -> Iterator[str]:
    for path, inner, _ in os.walk(os.path.join(root, folder)):  # noqa: PTH118
        inner[:] = [name for name in inner if name != ".git"]
        yield os.path.relpath(path, root)
