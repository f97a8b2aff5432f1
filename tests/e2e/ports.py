"""Reserves a port between finding and using it, and while its server restarts."""

from __future__ import annotations

import socket
import sys


class HeldPort:
    """A local port, reserved until it is released.

    Linux lets a server listen where another socket is only bound, if both allow it (SO_REUSEADDR), and never
    assigns such a port automatically. Other systems do not allow both, so there the port is released
    immediately and only likely to stay free.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]
        if sys.platform != "linux":
            self.release()

    def release(self) -> None:
        self._socket.close()
