"""Reading refs without running git: which commit and branch a working tree is on, and where a branch is."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from deepwork.kernel.files.repositories import find_git_folder, find_tree_root

_COMMIT_PATTERN = re.compile(r"([0-9a-f]{40}(?:[0-9a-f]{24})?)(?:\s|$)")
_REFUSED_PATTERN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/$|\.$|/\.|\.lock(/|$)")
_MAX_LINE, _MAX_STEPS = 4096, 5
BRANCH_PREFIX = "refs/heads/"
_ELSEWHERE = "refs/heads/.invalid"
"""What HEAD says where git keeps its refs in tables instead of files."""


class Head(NamedTuple):
    """The commit that a tree is on, and its branch; None if HEAD is detached."""

    commit: str
    branch: str | None


class RefsElsewhere(Exception):
    """The refs are not in files: only git can tell."""


class Ref(NamedTuple):
    """What a ref says: the commit it is at, or the other ref that it stands for."""

    commit: str | None
    target: str | None = None


def read_head(folder: Path) -> Head | None:
    """Return the commit and branch of the tree that contains the folder; None without one or a commit.

    Raises RefsElsewhere if git has to be asked.
    """
    root = find_tree_root(folder)
    if root is None:
        return None
    ref, commit = resolve_ref(find_git_folder(root), "HEAD")
    branch = ref.removeprefix(BRANCH_PREFIX) if ref.startswith(BRANCH_PREFIX) else None
    return Head(commit, branch) if commit else None


def resolve_ref(git_folder: Path, ref: str) -> tuple[str, str | None]:
    """Return the ref that a ref stands for in the end, mostly itself, and its commit, if it has one.

    Raises RefsElsewhere if git has to be asked.
    """
    for _ in range(_MAX_STEPS):
        said = read_ref(git_folder, ref)
        if said is None or said.target is None:
            return ref, said and said.commit
        ref = said.target
    raise RefsElsewhere


def read_ref(git_folder: Path, ref: str) -> Ref | None:
    """Read `HEAD` or a ref such as `refs/heads/main`; None if there is none.

    Raises RefsElsewhere if git has to be asked.
    """
    if not is_ref_name(ref):
        raise RefsElsewhere
    shared = _find_shared_folder(git_folder)
    said = _read_own_file((git_folder if ref == "HEAD" else shared) / ref)
    if said is None:
        if os.path.lexists(shared / "reftable"):
            raise RefsElsewhere
        return _find_packed(shared, ref)
    if said.startswith("ref:"):
        target = said.removeprefix("ref:").strip()
        if target == _ELSEWHERE:
            raise RefsElsewhere
        return Ref(None, target)
    if found := _COMMIT_PATTERN.match(said):
        return Ref(found[1])
    raise RefsElsewhere  # damaged: git says how


def is_ref_name(ref: str) -> bool:
    """Return whether git accepts a name below `refs/`, or `HEAD`."""
    is_placed = ref == "HEAD" or (ref.startswith("refs/") and ref != "refs/heads/HEAD")
    return is_placed and not _REFUSED_PATTERN.search(ref)


def _find_packed(git_folder: Path, ref: str) -> Ref | None:
    try:
        packed = (git_folder / "packed-refs").read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RefsElsewhere from error
    name = re.escape(os.fsencode(ref))
    found = re.search(rb"^([0-9a-f]{40}(?:[0-9a-f]{24})?) " + name + rb"$", packed, re.MULTILINE)
    return Ref(found[1].decode()) if found else None


def _read_own_file(file: Path) -> str | None:
    """Return what the file of a ref says; None if it has no file."""
    try:
        if file.is_symlink():  # the old form of a symbolic ref
            raise RefsElsewhere
        with file.open(encoding="utf-8", errors="surrogateescape") as opened:
            return opened.readline(_MAX_LINE).rstrip("\n")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise RefsElsewhere from error


def _find_shared_folder(git_folder: Path) -> Path:
    """Return the folder with the branches, which linked worktrees share."""
    try:
        with (git_folder / "commondir").open(encoding="utf-8", errors="surrogateescape") as opened:
            return git_folder / opened.readline(_MAX_LINE).rstrip("\r\n")
    except OSError:
        return git_folder
