"""Traps: servers that record who connects and which password is sent."""

from __future__ import annotations

import socket
import struct
import threading
from types import TracebackType
from typing import Self

_NO_ENCRYPTION = {80877103, 80877104}
"""The codes by which a client asks for TLS and for GSSAPI."""


class FakePostgreSQL:
    """Listens as a PostgreSQL server that asks for a password in clear text; counts connections."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.connections = 0
        self.passwords: list[str] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def count_connections(self) -> int:
        """Count the connections so far; one of our own shows that all earlier ones have been accepted."""
        before = self.connections
        with socket.create_connection(("127.0.0.1", self.port)) as own:
            own.shutdown(socket.SHUT_WR)
            own.recv(1)
        self.connections -= 1
        return max(before, self.connections)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            self.connections += 1
            with connection:
                connection.settimeout(60)
                self._ask_for_password(connection)

    def _ask_for_password(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as sent:
            while len(head := sent.read(8)) == 8:
                size, code = struct.unpack("!ii", head)
                if code not in _NO_ENCRYPTION:
                    break
                connection.sendall(b"N")
            else:
                return
            sent.read(size - 8)
            connection.sendall(b"R" + struct.pack("!ii", 8, 3))
            if sent.read(1) == b"p":
                [size] = struct.unpack("!i", sent.read(4))
                self.passwords.append(sent.read(size - 4).rstrip(b"\0").decode())
