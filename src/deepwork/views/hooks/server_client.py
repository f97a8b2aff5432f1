"""Lets a running server of the same store answer an event."""

from __future__ import annotations

import json
import socket
from typing import Any

from deepwork.kernel.config import Settings
from deepwork.views.hooks.protocol import HookEvent
from deepwork.views.hooks.server_socket import (
    compute_store_identity,
    get_socket_path,
    require_own_peer,
    require_private_socket,
)

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
