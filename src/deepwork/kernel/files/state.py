"""Files that hold the state of something, and what tells whether a file changed."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.private import make_folder, write_atomically

FileStamp = tuple[int, int, int, int]
"""Modification time, change time, size and inode."""

_CLOCK_TICK_NS = 20_000_000


def read_stamp(path: str) -> FileStamp:
    """Read the current stamp of a file; follows links."""
    status = os.stat(path)  # noqa: PTH116 - creating a Path for each of 500 files costs more than the call
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def find_stamp(path: str) -> FileStamp | None:
    """Read the stamp of a file; None if it is missing or inaccessible."""
    try:
        return read_stamp(path)
    except OSError:
        return None


def are_reliable(stamps: Iterable[FileStamp | None], began: int) -> bool:
    """Whether every file last changed clearly before `began`, in Unix nanoseconds, when reading started.

    File systems take modification times from a clock with coarse ticks. A file that changes twice within
    one tick keeps its stamp, so a stamp as young as the read itself proves nothing (git calls such entries
    "racy").
    """
    newest = max((changed for _, changed, *_ in filter(None, stamps)), default=0)
    return newest < began - _CLOCK_TICK_NS


def to_printable_name(name: str) -> str:
    """Convert a file name to text that can be sent: escapes bytes that are not UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")


_STATE_FOLDER = ".deepwork"
_SUBFOLDERS = ("checks", "hooks", "runs", "snapshots", "tmp", "worktrees")
"""Folders in which deepwork itself writes and deletes files."""
_WITH_KNOWN_NAMES = ("hooks", "snapshots", "tmp")
"""Those with folders in them whose names others can know, and so bring along as links."""
_GITIGNORE_TEXT = """\
# Written by deepwork: definitions and settings belong to the project, everything else to this machine.
*
!checks.yml
!config.yml
!jobs/
!jobs/**
!templates/
!templates/**
"""
_FORMER_TEXT = _GITIGNORE_TEXT.replace("*\n", "*\n!.gitignore\n", 1)
_FORMER_TEXTS = (_FORMER_TEXT, _FORMER_TEXT.replace("!checks.yml\n", ""))
"""What earlier versions wrote: git listed the file itself before there was anything to commit."""


def make_state_folder(folder: Path) -> None:
    """Create the folder with a .gitignore that admits definitions and settings, and close it to other users.

    A clone can bring the folder along: readable by all, or with links that lead out of the project.
    The .gitignore ignores itself too: git lists the folder only when it has a definition, and no commit
    brings the file to other trees.
    """
    try:
        make_folder(folder)
        for path in _list_own_paths(folder):
            if problem := find_link_problem(path):
                raise problem
        status = folder.stat()
        if status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) & 0o077:
            folder.chmod(0o700)
        _write_gitignore(folder / ".gitignore")
    except OSError as error:
        raise StorageError(
            f"{folder.name}/ cannot be written in the project: {error.strerror}.",
            suggestion="Make the project writable for this user, or store everything elsewhere with --db.",
        ) from error


def _list_own_paths(folder: Path) -> Iterator[Path]:
    """List what deepwork writes in and deletes from; each is checked before it is looked into."""
    yield folder
    for name in _SUBFOLDERS:
        yield folder / name
        if name in _WITH_KNOWN_NAMES:
            with suppress(FileNotFoundError), os.scandir(folder / name) as entries:
                yield from (Path(entry.path) for entry in entries if entry.is_symlink())


def read_state_file(path: Path) -> bytes:
    """Read a file of ours; follow no link and wait at no named pipe, which an archive can have there."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        return file.readall() or b""


def remove_old_files(folder: Path, pattern: re.Pattern[str], max_age_seconds: float) -> dict[str, float]:
    """Remove files of ours that nobody needs any more; return the others by name, with their age in seconds.

    Those whose names do not match were not written by deepwork, and stay.
    """
    now, kept = time.time(), {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if not pattern.fullmatch(entry.name):
                continue
            with suppress(FileNotFoundError):  # another process was faster
                age = now - entry.stat(follow_symlinks=False).st_mtime
                if age > max_age_seconds:
                    Path(entry.path).unlink()
                else:
                    kept[entry.name] = age
    return kept


def find_hidden_checks(folder: Path) -> str | None:
    """Say how to commit the checks if a .gitignore that an earlier version wrote hides them."""
    try:
        is_hidden = "!checks.yml" not in (folder / ".gitignore").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    if not is_hidden or not (folder / "checks.yml").exists():
        return None
    return (
        f"Git does not see {folder.name}/checks.yml: add the line `!checks.yml` to {folder.name}/.gitignore."
    )


def find_link_problem(path: Path) -> StorageError | None:
    """Return the error of a path that is a link: state behind it would be elsewhere, with other locks."""
    if not path.is_symlink():
        return None
    return StorageError(
        f"{path.parent.name}/{path.name} is a link; deepwork keeps its state in real folders and files.",
        suggestion="Replace the link by a folder or file of its own, or name the store with --db.",
    )


def find_store_link_problem(path: Path) -> StorageError | None:
    """Return the error of a store that is a link, or whose `.deepwork` folder is one.

    Only that folder can come with a clone. Others may be links, since their owner made them.
    """
    folder = path.parent if path.parent.name == _STATE_FOLDER else path
    return find_link_problem(folder) or find_link_problem(path)


def _write_gitignore(path: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(path, flags, 0o644), "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            file.write(_GITIGNORE_TEXT)
    except FileExistsError:
        if _is_former(path):
            write_atomically(path, _GITIGNORE_TEXT.encode(), mode=0o644)


def _is_former(path: Path) -> bool:
    """Whether an earlier version wrote the file, and nobody changed or committed it."""
    from deepwork.kernel.files.repositories import is_tracked  # noqa: PLC0415 - only an old project needs it

    if path.is_symlink() or path.stat().st_size > len(_FORMER_TEXT):
        return False
    return path.read_bytes().decode(errors="replace") in _FORMER_TEXTS and is_tracked(path) is False
