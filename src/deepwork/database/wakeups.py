"""How a process learns that another has committed events: a hint over a socket, and a look as the truth."""

from __future__ import annotations

import hashlib
import itertools
import os
import select
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from deepwork.config import runtime_folder

# Without a hint (another user, another runtime folder) an event is still seen after this long.
LOOK_EVERY = 0.1

_numbers = itertools.count()


class Hints:
    """Datagrams to every process that listens to one database file."""

    def __init__(self, database: Path) -> None:
        digest = hashlib.sha256(str(database.absolute()).encode()).hexdigest()[:16]
        self._folder = runtime_folder() / digest

    def send(self) -> None:
        """Wake whoever listens; a hint that is lost only makes a listener look a little later."""
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            _require_own(self._folder.parent)
            _require_own(self._folder)
            sender.setblocking(False)
            for target in self._folder.iterdir():
                self._send_to(sender, target)

    def receiver(self) -> socket.socket | None:
        """A socket that hints arrive at; None where none can be made."""
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            for folder in (self._folder.parent, self._folder):
                folder.mkdir(mode=0o700, exist_ok=True)
                _require_own(folder)
            receiver.bind(str(self._folder / f"{os.getpid()}-{next(_numbers)}"))
        except OSError:
            receiver.close()
            return None
        receiver.setblocking(False)
        return receiver

    @staticmethod
    def _send_to(sender: socket.socket, target: Path) -> None:
        try:
            sender.sendto(b"!", str(target))
        except ConnectionRefusedError:  # its process is gone without cleaning up
            if stat.S_ISSOCK(target.lstat().st_mode):
                target.unlink()
        except OSError:  # its queue is full: it has been woken already
            pass


def _require_own(folder: Path) -> None:
    """Refuse a folder that somebody else could have put there, or put something into."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(folder)


class SQLiteListener:
    """Notices commits of other processes, and of other connections in this one."""

    def __init__(self, hints: Hints, connection: Any) -> None:
        self._connection = connection
        self._receiver = hints.receiver()
        self._seen = self._version()

    def wait(self, timeout: float) -> bool:
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            self._doze(max(0.0, min(left, LOOK_EVERY)))
            if self._is_news():
                return True
            if left <= 0:
                return False

    def close(self) -> None:
        self._connection.close()
        if self._receiver is not None:
            path = self._receiver.getsockname()
            self._receiver.close()
            Path(path).unlink(missing_ok=True)

    def _doze(self, seconds: float) -> None:
        if self._receiver is None:
            time.sleep(seconds)
            return
        waiting = select.poll()  # not `select`, which knows only the first 1,024 files of a process
        waiting.register(self._receiver, select.POLLIN)
        waiting.poll(seconds * 1000)
        with suppress(BlockingIOError):
            while self._receiver.recv(16):
                pass

    def _is_news(self) -> bool:
        before, self._seen = self._seen, self._version()
        return self._seen != before

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()["data_version"])
