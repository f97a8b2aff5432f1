"""Finding the git repository and the working tree of a folder, without running git."""

from __future__ import annotations

from pathlib import Path


def find_repository(folder: Path) -> Path | None:
    """Return the main tree of the repository that contains the folder, also from a linked worktree."""
    tree = find_tree_root(folder)
    return tree and (find_main_tree(tree) or tree)


def find_tree_root(folder: Path) -> Path | None:
    """Return the root of the working tree that contains the folder."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


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


def _read_pointer(file: Path, before: str = "") -> str:
    if file.is_dir():
        raise ValueError
    text = file.read_text(encoding="utf-8", errors="surrogateescape").removesuffix("\n")
    if not text.startswith(before):
        raise ValueError
    return text.removeprefix(before)
