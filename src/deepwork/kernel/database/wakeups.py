"""Wakes processes when another has committed events: datagrams as hints, and polling as the fallback."""

from __future__ import annotations

import hashlib
import itertools
import os
import select
import socket
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.kernel.environment import get_runtime_folder

if TYPE_CHECKING:
    from deepwork.kernel.database.store_file import OpenFile

# Without a hint (another user, another runtime folder) an event is noticed after this many seconds.
LOOK_EVERY = 0.1

_numbers = itertools.count()


class WakeupChannel:
    """Sends datagrams to every process that listens on one database file."""

    def __init__(self, database: Path) -> None:
        digest = hashlib.sha256(str(database.absolute()).encode()).hexdigest()[:16]
        self.folder = get_runtime_folder() / digest
        """Exists while somebody listens."""

    def send(self) -> None:
        """Wake all listeners; a lost hint only delays a listener until its next poll."""
        with suppress(OSError):
            _require_owned(self.folder)
            _require_owned(self.folder.parent)
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                for target in self.folder.iterdir():
                    self._send_to(sender, target)

    def open_receiver(self) -> socket.socket | None:
        """Open a socket for hints; None if that is not possible."""
        for _ in range(2):
            with suppress(FileNotFoundError):  # the last listener has just removed the folder
                return self._bind_receiver()
        return None

    def close_receiver(self, receiver: socket.socket) -> None:
        """Close a socket for hints; the last listener removes the folder."""
        path = receiver.getsockname()
        receiver.close()
        Path(path).unlink(missing_ok=True)
        self._remove_folder()

    def _bind_receiver(self) -> socket.socket | None:
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(mode=0o700, exist_ok=True)
                _require_owned(folder)
            receiver.bind(str(self.folder / f"{os.getpid()}-{next(_numbers)}"))
        except OSError as error:
            receiver.close()
            if isinstance(error, FileNotFoundError):
                raise
            return None
        receiver.setblocking(False)
        return receiver

    def _remove_folder(self) -> None:
        with suppress(OSError):  # others still listen
            self.folder.rmdir()

    def _send_to(self, sender: socket.socket, target: Path) -> None:
        try:
            sender.sendto(b"!", str(target))
        except ConnectionRefusedError:  # its process exited without cleaning up
            if stat.S_ISSOCK(target.lstat().st_mode):
                target.unlink()
                self._remove_folder()
        except OSError:  # its queue is full, so it is already awake
            pass


def _require_owned(folder: Path) -> None:
    """Reject a folder that another user could have created or can write to."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(folder)


class SQLiteListener:
    """Notices commits of other processes and of other connections in this process."""

    def __init__(self, hints: WakeupChannel, open_file: Callable[[], OpenFile]) -> None:
        self._open_file = open_file
        self._file = open_file()
        self._connection = self._file.connect(query_only=True)
        self._hints = hints
        self._receiver = hints.open_receiver()
        self._seen = self._read_data_version()

    def wait(self, timeout: float) -> bool:
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            self._sleep(max(0.0, min(left, LOOK_EVERY)))
            if self._has_changed():
                return True
            if left <= 0:
                return False

    def close(self) -> None:
        self._connection.close()
        if self._receiver is not None:
            self._hints.close_receiver(self._receiver)

    def _sleep(self, seconds: float) -> None:
        if self._receiver is None:
            time.sleep(seconds)
            return
        waiting = select.poll()  # not `select`, which is limited to file descriptors below 1,024
        waiting.register(self._receiver, select.POLLIN)
        waiting.poll(seconds * 1000)
        with suppress(BlockingIOError):
            while self._receiver.recv(16):
                pass

    def _has_changed(self) -> bool:
        if not self._file.is_in_place():
            return self._has_reopened()
        before, self._seen = self._seen, self._read_data_version()
        return self._seen != before

    def _has_reopened(self) -> bool:
        """Listen to the file that took the place of ours; return False while there is none."""
        file = self._open_file()
        if not file.has_own_path():
            return False
        self._file.rescue_log(self._connection)
        self._connection.close()
        self._file, self._connection = file, file.connect(query_only=True)
        self._seen = self._read_data_version()
        return True

    def _read_data_version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()["data_version"])
