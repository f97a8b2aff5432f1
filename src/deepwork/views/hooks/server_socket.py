"""The socket on which a running server answers hooks, and how each side verifies the other.

A hook that asks a server needs no database driver and no connection to PostgreSQL. The socket is in this
user's runtime folder, not in the project: a cloned repository could contain a socket or a link there, and
paths of sockets must be short.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from deepwork import __version__
from deepwork.kernel.config import Settings
from deepwork.kernel.environment import get_connection_variables, get_runtime_folder
from deepwork.views.hooks.protocol import HookEvent

_CREDENTIALS = struct.Struct("3i")
"""Process id, user id and group id, as the kernel reports them."""


def compute_store_identity(settings: Settings) -> str:
    """Compute what a hook and a server must share to give the same answer: the version, the store, the user.

    Variables such as PGHOST and the password file in the home folder decide what a URL leads to.
    """
    facts = [__version__, settings.database_location, get_connection_variables()]
    return sha256(json.dumps(facts).encode()).hexdigest()


def get_socket_path(identity: str) -> Path:
    """Return the path of the socket of a store; all its servers of this user use the same."""
    return get_runtime_folder() / f"hooks-{identity[:16]}"


def require_private_folder(folder: Path) -> None:
    """Raise PermissionError if the folder is a link, or another user owns it or may use it."""
    _require_private(folder, stat.S_ISDIR)


def require_private_socket(path: Path) -> None:
    """Raise PermissionError if the path is not a socket of this user, in a private folder of this user."""
    require_private_folder(path.parent)
    _require_private(path, stat.S_ISSOCK)


def require_own_peer(connection: socket.socket, user: int | None = None) -> None:
    """Raise PermissionError if another user is at the other end, where the system says who it is."""
    credentials = _read_credentials(connection)
    if credentials is None:  # macOS: the private folder suffices
        return
    if credentials[1] != (os.getuid() if user is None else user):
        raise PermissionError(f"The peer is user {credentials[1]}.")


def find_peer(connection: socket.socket) -> int | None:
    """Return the process at the other end; None if the system does not say, or does not show it to us."""
    credentials = _read_credentials(connection)
    return (credentials[0] or None) if credentials else None


def _read_credentials(connection: socket.socket) -> tuple[int, int, int] | None:
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    content = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, group = _CREDENTIALS.unpack(content)
    return process, user, group


def _require_private(path: Path, is_expected: Callable[[int], bool]) -> None:
    status = path.lstat()
    if not is_expected(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(path)


GREETING_SECONDS = 0.25
"""Seconds to wait for the server's greeting; a busy or hanging server is not asked."""
_SENT_SETTINGS = ("database", "is_database_from_file", "global_store", "lease_seconds")


def ask_server(kind: str, settings: Settings, event: HookEvent) -> str | None:
    """Return the server's answer; None if no server can answer, so the hook must do it.

    The event is sent only after the greeting, so a server that wakes up too late does not handle it as well.
    From then on the hook waits for the answer: handling an event twice could lose a notice.
    """
    identity = compute_store_identity(settings)
    try:
        with _connect(identity) as connection, connection.makefile("rb") as answers:
            if answers.readline(200).decode().strip() != identity:
                return None
            connection.settimeout(None)  # the hook itself ends after a few seconds
            connection.sendall(_encode_request(kind, settings, event))
            answer = json.loads(answers.readline())
    except (OSError, ValueError, RecursionError):
        return None
    return answer.get("text") if isinstance(answer, dict) else None


def _connect(identity: str) -> socket.socket:
    path = get_socket_path(identity)
    require_private_socket(path)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(GREETING_SECONDS)
        connection.connect(str(path))
        require_own_peer(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _encode_request(kind: str, settings: Settings, event: HookEvent) -> bytes:
    given: dict[str, Any] = {name: getattr(settings, name) for name in _SENT_SETTINGS}
    given["project_root"] = str(settings.project_root)
    return json.dumps({"kind": kind, "settings": given, "event": vars(event)}).encode() + b"\n"
