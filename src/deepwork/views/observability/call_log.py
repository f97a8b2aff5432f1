"""Writes the log line of each tool call, far cheaper than `logging`, and without waiting for a reader.

A client may start a server with a pipe for its standard error and never read it: lines that do not fit into
the pipe are dropped, and counted.
"""

from __future__ import annotations

import os
import select
import threading
import time

from deepwork.kernel.foreign_text import escape_line

_ATOMIC = select.PIPE_BUF


class CallLog:
    """Lines in the format of the text log, for one descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._writing = threading.Lock()
        self._second, self._moment = 0, ""
        self._dropped = 0

    def write(self, message: str) -> None:
        """Write a line, unless that would have to wait."""
        now = time.time()
        with self._writing:
            line = self._format(now, "INFO", escape_line(message))
            if self._dropped:
                line = (
                    self._format(now, "WARNING", f"{self._dropped} lines were dropped: nobody read them")
                    + line
                )
            self._dropped = (
                0 if self._try_write(line.encode("utf-8", "backslashreplace")) else self._dropped + 1
            )

    def _format(self, now: float, level: str, message: str) -> str:
        second = int(now)
        if second != self._second:
            self._second = second
            self._moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        return f"{self._moment},{int((now - second) * 1000):03} {level} deepwork.calls: {message}\n"

    def _try_write(self, line: bytes) -> bool:
        try:
            _, is_writable, _ = select.select([], [self._descriptor], [], 0)
            if is_writable:
                os.write(self._descriptor, line if len(line) <= _ATOMIC else line[: _ATOMIC - 1] + b"\n")
            return bool(is_writable)
        except (OSError, ValueError):  # standard error is closed
            return False
