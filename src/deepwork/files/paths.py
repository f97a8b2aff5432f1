"""Paths that others name, kept inside the project."""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from deepwork.errors import Code, InvalidInput

Kind = Literal["file", "directory", "any"]

_LONGEST_PATH = 4096
_LONGEST_NAME = 255
_ELSEWHERE = re.compile(r"~|[A-Za-z]:|//|\\\\")
_INSIDE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def confine(root: Path, user_path: str, *, must_exist: bool = True, kind: Kind = "any") -> Path:
    """The absolute path that `user_path` means inside `root`, with every symbolic link followed.

    It tells how things stand now; to read what it names, use `read_confined`, which nobody can redirect.
    """
    _check_spelling(user_path)
    project = Path(os.path.realpath(root))
    path = _resolved(project / user_path, user_path)
    if not path.is_relative_to(project):
        raise _outside(user_path, "leads out of the project")
    mode = _mode(path, user_path)
    if mode is not None:
        _check_kind(mode, kind, user_path)
    elif must_exist:
        raise InvalidInput(f"The path {_shown(user_path)} does not exist.")
    return path


def read_confined(root: Path, user_path: str, *, max_bytes: int) -> bytes:
    """The content of a regular file inside `root`, even while somebody swaps links under our feet."""
    path = confine(root, user_path, kind="file")
    project = Path(os.path.realpath(root))
    try:
        return _read_below(project, path.relative_to(project), user_path, max_bytes)
    except OSError as error:
        raise _cannot_open(user_path, error) from error


def _check_spelling(user_path: str) -> None:
    if not user_path.strip():
        raise InvalidInput("The path is empty.")
    if "\0" in user_path:
        raise InvalidInput("The path contains a NUL character.")
    if _ELSEWHERE.match(user_path):
        raise InvalidInput(
            f"The path {_shown(user_path)} starts with a home directory, a drive or a network share.",
            suggestion="Name the file relative to the project's root.",
        )
    _check_length(user_path)


def _check_length(user_path: str) -> None:
    try:
        encoded = user_path.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"The path {_shown(user_path)} is not valid Unicode.") from None
    if len(encoded) > _LONGEST_PATH or max(map(len, encoded.split(b"/"))) > _LONGEST_NAME:
        raise InvalidInput(f"The path {_shown(user_path)} is too long.")


def _resolved(path: Path, user_path: str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except OSError as error:  # a link vanished while it was being followed
        raise _cannot_open(user_path, error) from error


def _mode(path: Path, user_path: str) -> int | None:
    """The kind and rights of what is there, or None when nothing is."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _cannot_open(user_path, error) from error
    if stat.S_ISLNK(mode):  # every link was followed, so what is left goes round in a circle
        raise _cannot_open(user_path, OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
    return mode


def _check_kind(mode: int, kind: Kind, user_path: str) -> None:
    if kind != "directory" and stat.S_ISREG(mode):
        return
    if kind != "file" and stat.S_ISDIR(mode):
        return
    wanted = {"file": "regular file", "directory": "directory", "any": "regular file or directory"}[kind]
    raise InvalidInput(f"The path {_shown(user_path)} is not a {wanted}.")


def _read_below(project: Path, relative: Path, user_path: str, max_bytes: int) -> bytes:
    """Open name by name, each from the directory before and never through a link."""
    with ExitStack() as opened:
        descriptor = os.open(project, _INSIDE | os.O_DIRECTORY)
        opened.callback(os.close, descriptor)
        for name in relative.parts:
            descriptor = os.open(name, _INSIDE, dir_fd=descriptor)
            opened.callback(os.close, descriptor)
        _check_kind(os.fstat(descriptor).st_mode, "file", user_path)
        return _read(descriptor, user_path, max_bytes)


def _read(descriptor: int, user_path: str, max_bytes: int) -> bytes:
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        content = file.read(max_bytes + 1) if os.fstat(descriptor).st_size <= max_bytes else None
    if content is None or len(content) > max_bytes:
        raise InvalidInput(
            f"The file {_shown(user_path)} is larger than {max_bytes:,} bytes.",
            code=Code.TOO_LARGE,
            suggestion="Shorten the file, or name a smaller one.",
        )
    return content


def _cannot_open(user_path: str, error: OSError) -> InvalidInput:
    if error.errno == errno.ELOOP:
        return _outside(user_path, "goes through a symbolic link that cannot be followed")
    return InvalidInput(f"The path {_shown(user_path)} cannot be opened: {error.strerror}.")


def _outside(user_path: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"The path {_shown(user_path)} {what}.",
        code=Code.PATH_OUTSIDE_PROJECT,
        suggestion="Name a file inside the project.",
    )


def _shown(user_path: str) -> str:
    return ascii(user_path if len(user_path) <= 200 else f"{user_path[:200]}...")
