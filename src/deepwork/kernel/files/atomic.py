"""Atomic, durable file writes."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from deepwork.kernel.files.os_errors import to_storage_error

if TYPE_CHECKING:
    from pathlib import Path

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
