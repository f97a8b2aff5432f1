"""Finding the git repository and the working tree of a folder, without running git."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path


def find_repository(folder: Path) -> Path | None:
    """Return the main tree of the repository that contains the folder, also from a linked worktree."""
    tree = find_tree_root(folder)
    return tree and (find_main_tree(tree) or tree)


def find_tree_root(folder: Path) -> Path | None:
    """Return the root of the working tree that contains the folder."""
    # Not `Path.exists`, which takes several times as long: every change of a task asks this.
    return next((each for each, mark in _list_marks(folder) if os.path.exists(mark)), None)  # noqa: PTH110


@lru_cache
def _list_marks(folder: Path) -> list[tuple[Path, str]]:
    """List the folder and its parents, each with the path that exists if it is the root of a working tree."""
    return [(each, f"{each}/.git") for each in (folder, *folder.parents)]


def find_main_tree(root: Path) -> Path | None:
    """Return the main tree if this folder is a linked git worktree, otherwise None.

    The worktree's `.git` file and git's `gitdir` file must point at each other, so that a forged `.git` file
    in a downloaded project cannot choose which store is used.
    """
    try:
        gitdir = root / _read_pointer(root / ".git", "gitdir: ")
        points_back = (gitdir / _read_pointer(gitdir / "gitdir")).resolve() == (root / ".git").resolve()
    except (OSError, ValueError):
        return None
    main = gitdir.resolve().parents[2:3]
    is_worktree = gitdir.parent.name == "worktrees" and gitdir.parent.parent.name == ".git"
    return main[0] if is_worktree and points_back and main else None


def is_tree_of(repository: Path, folder: Path) -> bool:
    """Return whether the folder is in a working tree of this repository: its main tree or a linked one."""
    own, other = find_tree_root(repository), find_tree_root(folder)
    if own is None or other is None:
        return False
    if own.resolve() == other.resolve():
        return True
    return _get_git_folder(own) == _get_git_folder(other)


def find_git_folder(tree: Path) -> Path:
    """Return the git folder of a working tree, which has its index; that of a submodule is elsewhere."""
    try:
        return tree / _read_pointer(tree / ".git", "gitdir: ")
    except (OSError, ValueError):
        return tree / ".git"


def is_shallow(tree: Path) -> bool:
    """Return whether the repository of a working tree lacks the beginning of its history."""
    return (_get_git_folder(tree) / "shallow").exists()


def _get_git_folder(root: Path) -> Path:
    """Return the git folder of a tree; linked worktrees share that of their repository."""
    return _find_shared_git_folder(root) or (root / ".git").resolve()


def _find_shared_git_folder(root: Path) -> Path | None:
    """Return the git folder that a linked worktree shares with the other trees; None for any other tree."""
    try:
        gitdir = root / _read_pointer(root / ".git", "gitdir: ")
        points_back = (gitdir / _read_pointer(gitdir / "gitdir")).resolve() == (root / ".git").resolve()
        return (gitdir / _read_pointer(gitdir / "commondir")).resolve() if points_back else None
    except (OSError, ValueError):
        return None


def _read_pointer(file: Path, before: str = "") -> str:
    if file.is_dir():
        raise ValueError
    text = file.read_text(encoding="utf-8", errors="surrogateescape").removesuffix("\n")
    if not text.startswith(before):
        raise ValueError
    return text.removeprefix(before)
