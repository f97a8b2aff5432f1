"""Files that belong to this user alone: no links are followed, and no other user may have written them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.os_errors import format_path, to_storage_error

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
