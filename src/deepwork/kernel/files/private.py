"""Writes files that are complete or not there, keeps some private, and locks those with a state."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from deepwork.kernel.errors import Code, StorageError

_DISK_FULL_ERRNOS = {errno.ENOSPC, errno.EDQUOT}
_LEAST_ROOM = 64 * 1024
"""Less is no room: SQLite cannot even create what a reader needs beside the file."""


def find_full_disk(path: Path) -> Path | None:
    """Return the disk that a path is on, by the folder where it is mounted, if it is full; else None."""
    folder = next(each for each in (path.absolute(), *path.absolute().parents) if each.is_dir())
    try:
        found = os.statvfs(folder)
        if found.f_bavail * found.f_frsize >= _LEAST_ROOM and (found.f_favail or not found.f_files):
            return None
        device = folder.stat().st_dev
        same = takewhile(lambda each: each.stat().st_dev == device, (folder, *folder.parents))
        return list(same)[-1]
    except OSError:  # it cannot be asked
        return None


def is_disk_full(error: OSError) -> bool:
    """Return whether an error says that a disk, or the user's share of it, is full."""
    return error.errno in _DISK_FULL_ERRNOS


def format_path(path: Path) -> str:
    """Format a path for messages: only its folder and name, to hide the machine's other paths."""
    return "/".join(path.parts[-2:])


def to_storage_error(action: str, path: Path, error: OSError) -> StorageError:
    """Build an error that says which action failed for which file, with a suggestion."""
    if is_disk_full(error):
        return StorageError(
            f"Cannot {action} {format_path(path)}: the disk is full.",
            code=Code.STORAGE_FULL,
            suggestion="Free some space, then call again; nothing was changed.",
            recoverable=True,
        )
    return StorageError(f"Cannot {action} {format_path(path)}: {error.strerror or error}.")


_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def write_atomically(
    path: Path, data: bytes, *, mode: int = 0o600, keep_previous: bool = False, is_durable: bool = True
) -> None:
    """Replace the file's content; when this returns, the new content has reached the disk.

    After a crash at any moment the file holds either the old content or the new. With `keep_previous` the old
    content is kept beside it as `<name>.prev`. With `is_durable=False`, for content that can be recreated,
    readers still never see half of it, but a power failure may lose it.
    """
    temporary = _build_temporary_path(path)
    try:
        _write_new(temporary, data, mode, is_durable=is_durable)
        if keep_previous:
            _link_previous(path)
        temporary.replace(path)
        if is_durable:
            sync_directory(path.parent)
    except OSError as error:
        raise to_storage_error("write", path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def make_folder(path: Path) -> None:
    """Create a folder for this user, with its parents; when this returns, their names have reached the disk.

    Otherwise a power failure could take the folder away, with every flushed file in it.
    """
    if path.is_dir():
        return
    for parent in reversed(path.parents):
        _make_one_folder(parent, 0o777)
    _make_one_folder(path, 0o700)


def _make_one_folder(path: Path, mode: int) -> None:
    if path.is_dir():
        return
    path.mkdir(mode=mode, exist_ok=True)
    with suppress(PermissionError):  # who may not list the parent cannot flush it
        sync_directory(path.parent)


def flush(descriptor: int) -> None:
    """Flush a file to the disk; on macOS a plain fsync only reaches the drive's cache."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def move_durably(path: Path, to: Path) -> None:
    """Rename a finished file; when this returns, its content and its name have reached the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            flush(descriptor)
        finally:
            os.close(descriptor)
        path.replace(to)
        sync_directory(to.parent)
    except OSError as error:
        raise to_storage_error("write", to, error) from error


def _build_temporary_path(path: Path) -> Path:
    return path.with_name(f".{path.name[:40]}.{os.urandom(8).hex()}.tmp")


def _write_new(path: Path, data: bytes, mode: int, *, is_durable: bool) -> None:
    with os.fdopen(os.open(path, _NEW_FILE_FLAGS, mode), "wb") as file:
        file.write(data)
        file.flush()
        if is_durable:
            flush(file.fileno())


def _link_previous(path: Path) -> None:
    # A hard link avoids a copy, and the file is never without its own name.
    second_name = _build_temporary_path(path)
    try:
        os.link(path, second_name, follow_symlinks=False)
        second_name.replace(path.with_name(f"{path.name}.prev"))
    except FileNotFoundError:
        return
    finally:
        # Still there if both names are links to one file: renaming one onto the other then does nothing.
        second_name.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Bring the names of the files in a folder to the disk."""
    descriptor = os.open(directory, _DIRECTORY_FLAGS)
    try:
        flush(descriptor)
    finally:
        os.close(descriptor)


_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def make_private_folder(folder: Path) -> None:
    """Create the folder, and close it to other users; raises StorageError if it is not this user's."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_own(folder, folder.lstat(), stat.S_ISDIR)
        if stat.S_IMODE(folder.lstat().st_mode) & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise to_storage_error("make", folder, error) from error


def require_safe_parents(folder: Path) -> None:
    """Raise StorageError if another user could put something into a parent folder, or replace one.

    Tools look for their settings in parent folders. So a sticky folder such as /tmp is not safe either.
    """
    for parent in folder.parents:
        status = parent.lstat()
        is_ours = status.st_uid in (0, os.getuid())
        others = 0o002 if _is_own_group(status.st_gid) else 0o022
        if not is_ours or not stat.S_ISDIR(status.st_mode) or status.st_mode & others:
            raise _build_refusal(parent)


def _is_own_group(gid: int) -> bool:
    """Return whether only this user is in the group, as on systems that give each user a group."""
    import grp  # noqa: PLC0415 - hardly ever needed
    import pwd  # noqa: PLC0415 - hardly ever needed

    try:
        group, me = grp.getgrgid(gid), pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return False
    return gid == os.getgid() and group.gr_name == me and set(group.gr_mem) <= {me}


def read_private_file(path: Path) -> bytes | None:
    """Return the content of a file in a private folder; None if there is none.

    Raises StorageError if the folder or the file is a link, or if another user owns it or may write it.
    """
    try:
        _require_unwritable(path.parent, path.parent.lstat(), stat.S_ISDIR)
        descriptor = os.open(path, _READ_FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        if path.is_symlink():
            raise _build_refusal(path) from None
        raise to_storage_error("read", path, error) from error
    with os.fdopen(descriptor, "rb") as file:
        _require_unwritable(path, os.fstat(descriptor), stat.S_ISREG)
        return file.read()


def _require_unwritable(path: Path, status: os.stat_result, is_expected: Callable[[int], bool]) -> None:
    _require_own(path, status, is_expected)
    if status.st_mode & 0o022:
        raise _build_refusal(path)


def _require_own(path: Path, status: os.stat_result, is_expected: Callable[[int], bool]) -> None:
    if not is_expected(status.st_mode) or status.st_uid != os.getuid():
        raise _build_refusal(path)


def _build_refusal(path: Path) -> StorageError:
    return StorageError(
        f"{format_path(path)} is a link, or another user owns it or may write it.",
        suggestion=f"Look at {path}: make it a real file or folder of yours that only you may write.",
    )


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
