"""Copies ignored files from the main tree to a worktree: `workspace.copy`.

Nothing is read or written outside of the two trees, nothing that exists is replaced, and a copy appears as a
whole or not at all. Where the file system can, copies share their blocks with the original.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deepwork.kernel.errors import DeepworkError, InvalidInput
from deepwork.kernel.files.lock import open_unlocked
from deepwork.kernel.files.paths import confine
from deepwork.kernel.files.private import to_storage_error
from deepwork.kernel.git.command import Git

_FICLONE = 0x40049409  # ioctl of Linux: let a file share the blocks of another
_OWN_FOLDERS = {".git", ".deepwork"}


@dataclass(frozen=True)
class _Copy:
    """One path to copy."""

    name: str
    source: Path
    target: Path


def copy_ignored(git: Git, main: Path, tree: Path, names: Sequence[str], staging: Path) -> list[str]:
    """Copy these files and folders; return a note for each that could not be copied.

    `git` is that of the tree. `staging` is a folder for unfinished copies, which this function removes.
    """
    notes: list[str] = []
    found = []
    for name in names:
        try:
            found += _find_copies(main, tree, name)
        except DeepworkError as error:
            notes.append(f"{name!a} was not copied: {error.message}")
    ignored = _filter_ignored(git, [_name_for_git(copy, tree) for copy in found])
    _remove(staging)  # left by a killed process
    try:
        for copy in found:
            if _name_for_git(copy, tree) in ignored:
                _copy_whole(copy, staging)
            else:
                notes.append(
                    f"{copy.name!a} was not copied: git does not ignore it, so it would be committed."
                )
    finally:
        _remove(staging)
    return notes


def _find_copies(main: Path, tree: Path, name: str) -> list[_Copy]:
    """Return what to copy, nothing if the tree has it; raises InvalidInput for what may not be copied."""
    source, target = confine(main, name), confine(tree, name, must_exist=False)
    parts = {*source.relative_to(main.resolve()).parts, *target.relative_to(tree.resolve()).parts}
    if parts & _OWN_FOLDERS:
        raise InvalidInput("It belongs to git or to deepwork.")
    return [] if os.path.lexists(target) else [_Copy(name, source, target)]


def _name_for_git(copy: _Copy, tree: Path) -> str:
    """Name the target as `git check-ignore` needs it: a pattern may be only for folders."""
    return f"{copy.target.relative_to(tree.resolve()).as_posix()}{'/' if copy.source.is_dir() else ''}"


def _filter_ignored(git: Git, paths: Collection[str]) -> set[str]:
    if not paths:
        return set()
    listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
    answer = git.run("check-ignore", "-z", "--stdin", input=listed, ok_codes=(0, 1))
    return {os.fsdecode(path) for path in answer.split(b"\0") if path}


def _copy_whole(copy: _Copy, staging: Path) -> None:
    """Copy to the staging folder, then move into place."""
    try:
        copy.target.parent.mkdir(parents=True, exist_ok=True)
        place = _choose_staging(staging, copy.target)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _copy_content(copy.source, place)
        place.rename(copy.target)
        shutil.copystat(copy.source, copy.target)  # now, because a read-only folder cannot be moved
    except OSError as error:
        raise to_storage_error("copy", copy.source, error) from error


def _choose_staging(staging: Path, target: Path) -> Path:
    """Return where to build the copy: on the target's file system, so that it can be moved into place."""
    if staging.parent.stat().st_dev == target.parent.stat().st_dev:
        return staging / target.name
    beside = target.with_name(f"{target.name}.deepwork-copy")
    _remove(beside)  # left by a killed process
    return beside


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)  # noqa: PTH101 - what is in a read-only folder cannot be removed
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _copy_content(source: Path, target: Path) -> None:
    """Copy a file or a folder; links stay links, and sockets, pipes and devices are left out."""
    if not source.is_dir():
        _copy_file(source, target)
        return
    target.mkdir(mode=0o700)
    for entry in os.scandir(source):
        _copy_entry(Path(entry.path), target / entry.name)


def _copy_entry(source: Path, target: Path) -> None:
    mode = source.lstat().st_mode
    if stat.S_ISLNK(mode):
        target.symlink_to(source.readlink())
    elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        _copy_content(source, target)
        shutil.copystat(source, target)


def _copy_file(source: Path, target: Path) -> None:
    with (
        os.fdopen(open_unlocked(source, os.O_RDONLY | os.O_NOFOLLOW), "rb") as reading,
        target.open("xb") as writing,
    ):
        if not _try_to_clone(reading.fileno(), writing.fileno()):
            shutil.copyfileobj(reading, writing, 1024 * 1024)


def _try_to_clone(source: int, target: int) -> bool:
    if sys.platform != "linux":
        return False
    with suppress(OSError):  # most file systems cannot
        fcntl.ioctl(target, _FICLONE, source)
        return True
    return False
