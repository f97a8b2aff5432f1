"""Answers hooks inside a running server, in a thread of its own."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from deepwork.kernel.config import Settings
from deepwork.views.hooks.server_socket import (
    compute_store_identity,
    get_socket_path,
    require_own_peer,
    require_private_folder,
)

REQUEST_SECONDS = 1.0
"""Seconds to wait for the event of a hook that connected; the next hook waits just as long."""
_MAX_REQUEST = 16 * 1024 * 1024
_BACKLOG = 16

log = logging.getLogger("deepwork")


class HookListener:
    """Listens for hooks of one store; answers one event at a time, as the hook itself would.

    Hooks that are not served soon handle their event themselves. If several servers have the same store, the
    newest answers.
    """

    def __init__(self, settings: Settings) -> None:
        self._identity = compute_store_identity(settings)
        self._path = get_socket_path(self._identity)
        self._socket: socket.socket | None = None

    def start(self) -> None:
        """Start to listen; without a usable runtime folder, hooks do not ask."""
        try:
            self._socket = self._open_socket()
        except OSError as error:
            log.info("Hooks cannot ask this server: %s", error)
            return
        threading.Thread(target=self._answer_hooks, name="hooks", args=(self._socket,), daemon=True).start()

    def close(self) -> None:
        """Stop listening, and remove the socket unless a newer server has replaced it."""
        if self._socket is None:
            return
        with suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()
        self._socket.close()

    def _open_socket(self) -> socket.socket:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        require_private_folder(self._path.parent)
        opened = socket.socket(socket.AF_UNIX)
        # Under another name first: a socket that a killed or an older server left is replaced in one step.
        temporary = Path(f"{self._path}.{os.getpid()}")
        try:
            temporary.unlink(missing_ok=True)
            opened.bind(str(temporary))
            temporary.chmod(0o600)
            opened.listen(_BACKLOG)
            self._inode = temporary.stat().st_ino
            temporary.replace(self._path)
        except OSError:
            opened.close()
            temporary.unlink(missing_ok=True)
            raise
        return opened

    def _answer_hooks(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:  # closed
                return
            with connection:
                try:
                    self._answer_hook(connection)
                except Exception as error:  # noqa: BLE001 - the hook handles its event itself and logs the error
                    log.info("A hook could not be answered: %s: %s", type(error).__name__, error)

    def _answer_hook(self, connection: socket.socket) -> None:
        require_own_peer(connection)
        connection.settimeout(REQUEST_SECONDS)
        connection.sendall(f"{self._identity}\n".encode())
        with connection.makefile("rb") as requests:
            line = requests.readline(_MAX_REQUEST)
        if line:  # else the hook did not wait
            connection.sendall(json.dumps({"text": answer_request(json.loads(line))}).encode() + b"\n")


def answer_request(request: dict[str, Any]) -> str:
    """Handle the event that a hook sent, with the hook's settings; return the text that it prints."""
    # Imported here: most servers never get an event.
    from deepwork.views.hooks.dispatch import handle_event  # noqa: PLC0415
    from deepwork.views.hooks.protocol import HookEvent  # noqa: PLC0415

    given = request["settings"]
    settings = Settings(**{**given, "project_root": Path(given["project_root"])})
    return handle_event(request["kind"], settings, HookEvent(**request["event"]))
