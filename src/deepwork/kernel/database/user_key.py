"""The key of this user, which marks SQLite stores: a file in the user's own folder, or a variable."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from deepwork.kernel.database.store_key import derive_user_key
from deepwork.kernel.environment import STORE_KEY_VARIABLE, find_secret_problem, get_user_folder
from deepwork.kernel.errors import DeepworkError, StorageError
from deepwork.kernel.files.atomic import make_folder, sync_directory

KEY_FILE = "store.key"
MIN_LENGTH = 32
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def find_user_key(environment: Mapping[str, str] = os.environ) -> bytes | None:
    """Return the key of this user; None if there is none yet. Raises StorageError if it is not safe."""
    if text := environment.get(STORE_KEY_VARIABLE):
        if problem := find_secret_problem(STORE_KEY_VARIABLE, text, MIN_LENGTH):
            raise problem
        return derive_user_key(text)
    texts = (_read_key_file(path) for path in _list_key_paths(environment))
    text = next(filter(None, texts), None)
    return derive_user_key(text) if text else None


def get_or_create_user_key(environment: Mapping[str, str] = os.environ) -> bytes:
    """Return the key of this user; creates it on first use."""
    key = find_user_key(environment)
    if key is not None:
        return key
    text = os.urandom(32).hex()
    first, *others = _list_key_paths(environment)
    _create_key_file(first, text)
    for path in others:
        with suppress(StorageError):
            _create_key_file(path, _read_key_file(first) or text)
    key = find_user_key(environment)
    if key is None:
        raise _build_error(
            get_key_path(environment), "was removed while it was created", "Run the command again"
        )
    return key


def _list_key_paths(environment: Mapping[str, str]) -> list[Path]:
    """List where the key may be. Many clients start servers without XDG_CONFIG_HOME, so also without it."""
    return list(dict.fromkeys((get_key_path(environment), get_key_path({}))))


def get_key_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the key file."""
    return get_user_folder(environment) / KEY_FILE


def find_key_problems(environment: Mapping[str, str] = os.environ) -> Iterator[DeepworkError]:
    """Yield the reasons why the key cannot be used."""
    try:
        find_user_key(environment)
    except DeepworkError as error:
        yield error


def format_key_place(environment: Mapping[str, str] = os.environ) -> str:
    """Format for messages where the key is: the variable, or the path of the file."""
    if environment.get(STORE_KEY_VARIABLE):
        return STORE_KEY_VARIABLE
    return _format_key_path(get_key_path(environment))


def _format_key_path(path: Path) -> str:
    """Format the path without the name of the home folder."""
    home = Path.home()
    return (
        f"~/{path.relative_to(home)}"
        if path.is_relative_to(home)
        else f"$XDG_CONFIG_HOME/deepwork/{path.name}"
    )


def _read_key_file(path: Path) -> str | None:
    """Read the file, if only this user can write its folder and read it; None if there is none."""
    try:
        folder = path.parent.lstat()
        descriptor = os.open(path, _READ_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if path.is_symlink():
            raise _build_error(
                path, "is a link", f"Replace it by the file itself, or remove it: {_REMOVE_HINT}"
            ) from None
        raise _build_error(
            path, f"cannot be read: {error.strerror}", "Make it readable for this user only"
        ) from error
    with os.fdopen(descriptor, "rb") as file:
        _require_private(path, folder, os.fstat(descriptor))
        content = file.read(4096)
    text = content.decode("ascii", "replace").strip()
    if len(text) < MIN_LENGTH:
        raise _build_error(
            path, "is damaged: it is too short", f"Restore it from a backup, or remove it: {_REMOVE_HINT}"
        )
    return text


def _require_private(path: Path, folder: os.stat_result, file: os.stat_result) -> None:
    shown = _format_key_path(path)
    if not stat.S_ISREG(file.st_mode):
        raise _build_error(path, "is not a file", f"Remove it: {_REMOVE_HINT}")
    if file.st_uid != os.getuid():
        raise _build_error(
            path, "belongs to another user", f"Give it to this user: chown {os.getuid()} {shown}"
        )
    if stat.S_IMODE(file.st_mode) & 0o077:
        raise _build_error(path, "is open to other users", f"Close it: chmod 600 {shown}")
    if stat.S_ISLNK(folder.st_mode):
        raise _build_error(
            path,
            "is in a folder that is a link",
            f"Replace the link by a folder: {shown.rpartition('/')[0]}, or set {STORE_KEY_VARIABLE}",
        )
    if folder.st_uid not in {os.getuid(), 0} or stat.S_IMODE(folder.st_mode) & 0o022:
        raise _build_error(
            path,
            "is in a folder that other users can change",
            f"Close it: chmod 700 {shown.rpartition('/')[0]}",
        )


def _create_key_file(path: Path, text: str) -> None:
    """Create the file with this key; of several processes, one creates it and all use it.

    It gets its name only when it is complete, and a link cannot replace an existing file.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    try:
        make_folder(path.parent)
        with os.fdopen(os.open(temporary, _NEW_FILE_FLAGS, 0o600), "wb") as file:
            file.write(text.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path, follow_symlinks=False)
        sync_directory(path.parent)  # a store that survives a power failure is of no use without its key
    except OSError as error:
        raise _build_error(
            path,
            f"cannot be created: {error.strerror}",
            f"Make the folder writable for this user, or set {STORE_KEY_VARIABLE}",
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


_REMOVE_HINT = "deepwork creates another key, with which your stores must be adopted (`deepwork db adopt`)"


def _build_error(path: Path, problem: str, suggestion: str) -> StorageError:
    return StorageError(
        f"The key of your stores, {_format_key_path(path)}, {problem}.", suggestion=f"{suggestion}."
    )
