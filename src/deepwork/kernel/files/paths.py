"""Resolves untrusted paths and keeps them inside the project."""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from deepwork.kernel.errors import Code, InvalidInput
from deepwork.kernel.files.lock import is_locked

Kind = Literal["file", "directory", "any"]

_MAX_PATH_BYTES = 4096
_MAX_NAME_BYTES = 255
_OUTSIDE_PATH_PATTERN = re.compile(r"~|[A-Za-z]:|//|\\\\")
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def confine(root: Path, user_path: str, *, must_exist: bool = True, kind: Kind = "any") -> Path:
    """Resolve `user_path` inside `root` to an absolute path, following every symbolic link.

    The result may be outdated when it is used; to read a file, use `read_confined`, which is race-free.
    """
    _check_spelling(user_path)
    project = Path(os.path.realpath(root))
    path = _resolve(project / user_path, user_path)
    if not path.is_relative_to(project):
        raise _build_outside_error(user_path, "leads outside the project")
    mode = _get_mode(path, user_path)
    if mode is not None:
        _check_kind(mode, kind, user_path)
    elif must_exist:
        raise InvalidInput(f"The path {_format_path(user_path)} does not exist.")
    return path


def read_confined(root: Path, user_path: str, *, max_bytes: int) -> bytes:
    """Read a regular file inside `root`, safely even if someone swaps links meanwhile."""
    path = confine(root, user_path, kind="file")
    project = Path(os.path.realpath(root))
    try:
        return _read_below(project, path.relative_to(project), user_path, max_bytes)
    except OSError as error:
        raise _build_open_error(user_path, error) from error


def _check_spelling(user_path: str) -> None:
    if not user_path.strip():
        raise InvalidInput("The path is empty.")
    if "\0" in user_path:
        raise InvalidInput("The path contains a NUL character.")
    if _OUTSIDE_PATH_PATTERN.match(user_path):
        raise InvalidInput(
            f"The path {_format_path(user_path)} starts with a home directory, a drive or a network share.",
            suggestion="Name the file relative to the project's root.",
        )
    _check_length(user_path)


def _check_length(user_path: str) -> None:
    try:
        encoded = user_path.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"The path {_format_path(user_path)} is not valid Unicode.") from None
    if len(encoded) > _MAX_PATH_BYTES or max(map(len, encoded.split(b"/"))) > _MAX_NAME_BYTES:
        raise InvalidInput(f"The path {_format_path(user_path)} is too long.")


def _resolve(path: Path, user_path: str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except OSError as error:  # a link vanished while it was being followed
        raise _build_open_error(user_path, error) from error


def _get_mode(path: Path, user_path: str) -> int | None:
    """Return the file mode, or None if nothing is there; raises for a file of a store."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _build_open_error(user_path, error) from error
    if is_locked(status):
        raise InvalidInput(
            f"The path {_format_path(user_path)} belongs to deepwork's own store.",
            suggestion="Name a file of the project.",
        )
    mode = status.st_mode
    if stat.S_ISLNK(mode):  # every link was followed, so a remaining one is a cycle
        raise _build_open_error(user_path, OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
    return mode


def _check_kind(mode: int, kind: Kind, user_path: str) -> None:
    if kind != "directory" and stat.S_ISREG(mode):
        return
    if kind != "file" and stat.S_ISDIR(mode):
        return
    wanted = {"file": "regular file", "directory": "directory", "any": "regular file or directory"}[kind]
    raise InvalidInput(f"The path {_format_path(user_path)} is not a {wanted}.")


def _read_below(project: Path, relative: Path, user_path: str, max_bytes: int) -> bytes:
    """Open each path component relative to its parent directory and never through a link."""
    with ExitStack() as opened:
        descriptor = os.open(project, _OPEN_FLAGS | os.O_DIRECTORY)
        opened.callback(os.close, descriptor)
        for name in relative.parts:
            descriptor = os.open(name, _OPEN_FLAGS, dir_fd=descriptor)
            opened.callback(os.close, descriptor)
        _check_kind(os.fstat(descriptor).st_mode, "file", user_path)
        return _read_limited(descriptor, user_path, max_bytes)


def _read_limited(descriptor: int, user_path: str, max_bytes: int) -> bytes:
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        content = file.read(max_bytes + 1) if os.fstat(descriptor).st_size <= max_bytes else None
    if content is None or len(content) > max_bytes:
        raise InvalidInput(
            f"The file {_format_path(user_path)} is larger than {max_bytes:,} bytes.",
            code=Code.TOO_LARGE,
            suggestion="Shorten the file, or name a smaller one.",
        )
    return content


def _build_open_error(user_path: str, error: OSError) -> InvalidInput:
    if error.errno == errno.ELOOP:
        return _build_outside_error(user_path, "goes through a symbolic link that cannot be followed")
    return InvalidInput(f"The path {_format_path(user_path)} cannot be opened: {error.strerror}.")


def _build_outside_error(user_path: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"The path {_format_path(user_path)} {what}.",
        code=Code.PATH_OUTSIDE_PROJECT,
        suggestion="Name a file inside the project.",
    )


def _format_path(user_path: str) -> str:
    return ascii(user_path if len(user_path) <= 200 else f"{user_path[:200]}...")
