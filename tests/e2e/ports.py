"""A port that nobody else takes between being found and being used, nor while its server is being restarted."""

from __future__ import annotations

import socket
import sys


class HeldPort:
    """A port of this machine, held until it is let go.

    Linux lets a server listen where another socket is only bound, if both allow it (SO_REUSEADDR), and gives such a
    port to nobody who asks for any. Elsewhere two cannot be bound, so the port is let go at once, and is only
    likely to stay free.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]
        if sys.platform != "linux":
            self.let_go()

    def let_go(self) -> None:
        self._socket.close()
