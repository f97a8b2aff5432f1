"""Folders without tracked files: a file may be added to one at any moment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from deepwork.kernel.git.command import Git

_MAX_FOLDERS = 10_000


def list_untracked_folders(git: Git) -> list[str]:
    """List untracked folders, with empty and nested ones, relative to the project."""
    return walk_untracked(
        git.root, git.run("ls-files", "-z", "--others", "--directory", "--exclude-standard")
    )


def walk_untracked(root: Path, listed: bytes) -> list[str]:
    """List the folders that `git ls-files --directory` names, and all folders in them."""
    new = [entry.rstrip("/") for entry in os.fsdecode(listed).split("\0") if entry.endswith("/")]
    found: list[str] = []
    for folder in new:
        for inner in _walk_folders(os.fspath(root), folder):
            found.append(inner)
            if len(found) == _MAX_FOLDERS:  # a large tree that is not ignored: its files are listed anyway
                return found
    return found


def _walk_folders(root: str, folder: str) -> Iterator[str]:
    for path, inner, _ in os.walk(os.path.join(root, folder)):  # noqa: PTH118
        inner[:] = [name for name in inner if name != ".git"]
        yield os.path.relpath(path, root)
