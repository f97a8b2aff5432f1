"""Finding out which commit and branch a working tree is on, without running git."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from deepwork.kernel.files.repositories import find_git_folder, find_tree_root

_HASH_PATTERN = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_BRANCH_PREFIX = "refs/heads/"
_ELSEWHERE = "refs/heads/.invalid"
"""What HEAD says where git keeps its refs in tables instead of files."""


class Head(NamedTuple):
    """The commit that a tree is on, and its branch; None if HEAD is detached."""

    commit: str
    branch: str | None


class RefsElsewhere(Exception):
    """The refs are not in files: only git can tell."""


def read_head(folder: Path) -> Head | None:
    """Return the commit and branch of the tree that contains the folder; None without one or a commit.

    Raises RefsElsewhere if git has to be asked.
    """
    root = find_tree_root(folder)
    if root is None:
        return None
    git_folder = find_git_folder(root)
    said = _read_line(git_folder / "HEAD")
    if not said.startswith("ref: "):
        return Head(said, None) if _HASH_PATTERN.fullmatch(said) else None
    ref = said.removeprefix("ref: ").strip()
    if ref == _ELSEWHERE:
        raise RefsElsewhere
    commit = _resolve(_find_shared_folder(git_folder), ref)
    branch = ref.removeprefix(_BRANCH_PREFIX) if ref.startswith(_BRANCH_PREFIX) else None
    return Head(commit, branch) if commit else None


def _resolve(git_folder: Path, ref: str) -> str | None:
    """Return the commit of a ref, from its own file or from the file of packed refs."""
    said = _read_line(git_folder / ref)
    if _HASH_PATTERN.fullmatch(said):
        return said
    try:
        packed = (git_folder / "packed-refs").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    found = re.search(rf"^([0-9a-f]{{40,64}}) {re.escape(ref)}$", packed, re.MULTILINE)
    return found[1] if found and _HASH_PATTERN.fullmatch(found[1]) else None


def _find_shared_folder(git_folder: Path) -> Path:
    """Return the folder with the branches, which linked worktrees share."""
    common = _read_line(git_folder / "commondir")
    return git_folder / common if common else git_folder


def _read_line(file: Path) -> str:
    """Return the first line; an empty text if the file cannot be read."""
    try:
        with file.open(encoding="utf-8", errors="surrogateescape") as opened:
            return opened.readline(4096).rstrip("\n")
    except OSError:
        return ""
