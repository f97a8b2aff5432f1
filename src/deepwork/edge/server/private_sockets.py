"""Unix sockets that only this user can reach: in a private folder, with a path that is not too long."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from deepwork.kernel.environment import get_runtime_folder
from deepwork.kernel.errors import NotAllowed
from deepwork.views.hooks.server_socket import require_private_folder

MAX_PATH_BYTES = 103
"""What fits on every system: macOS has room for 104 bytes with the end, Linux for 108."""
_PREFIX = "agents-"
_BACKLOG = 128


def open_new_socket() -> tuple[socket.socket, Path]:
    """Listen at a new path in this user's runtime folder, or in /tmp where that cannot be used."""
    name = f"{_PREFIX}{os.getpid()}-{os.urandom(3).hex()}"
    usual, other = get_runtime_folder() / name, get_runtime_folder({}) / name
    try:
        return open_socket(usual), usual
    except NotAllowed:  # its path is too long, or it is the folder of another user
        return open_socket(other), other


def open_socket(path: Path) -> socket.socket:
    """Listen at this path; a socket that nobody listens at any more is replaced, anything else is refused."""
    path = path.absolute()
    if not _fits(path):
        raise NotAllowed(
            f"The path of the socket has {len(os.fsencode(path))} bytes; {MAX_PATH_BYTES} are possible.",
            suggestion=f"Choose a shorter one, such as {get_runtime_folder({}) / 'agents'}.",
        )
    try:
        with _hold_folder(path.parent):
            _remove_stale(path)
            return _listen(path)
    except OSError as error:
        raise NotAllowed(
            f"Cannot listen at {path}: {error.strerror or 'its folder is a link, or others may use it'}.",
            suggestion="Use a folder that belongs to you alone (chmod 700), and a name that is free.",
        ) from error


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= MAX_PATH_BYTES


@contextmanager
def _hold_folder(folder: Path) -> Iterator[None]:
    """Let one process at a time make or remove sockets in a private folder, which is made if need be."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_private_folder(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _listen(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _remove_stale(path: Path) -> None:
    """Remove what killed processes left: the socket at this path, and those of runners beside it."""
    others = path.parent.glob(f"{_PREFIX}*-*") if path.name.startswith(_PREFIX) else ()
    for each in {path, *others}:
        with suppress(FileNotFoundError):
            if _is_stale(each):
                each.unlink()


def _is_stale(path: Path) -> bool:
    """Whether this is a socket of this user at which nobody listens."""
    status = path.lstat()
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.getuid():
        return False
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(1)
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
