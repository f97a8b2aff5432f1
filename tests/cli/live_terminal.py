"""A pseudo terminal in which a command runs, with the screen that a person sees."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE_SECONDS = 120
_TOKEN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+|\x1b")


class LiveTerminal:
    """Starts a command with a controlling terminal of its own, so that Ctrl-C reaches it as a key does."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], columns: int = 120
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        plain = {key: value for key, value in environment.items() if key not in ("COLUMNS", "LINES")}
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env={**plain, "TERM": "xterm-256color", "NO_COLOR": "1"},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no other thread holds a lock
        )  # fmt: skip
        os.close(theirs)
        self._printed = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._ours)

    @property
    def screen(self) -> list[str]:
        """The lines that a person sees, with those that have scrolled away."""
        return render_terminal(self._printed.decode(errors="replace"))

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")

    def wait_for(self, is_shown: Callable[[list[str]], object]) -> list[str]:
        """Return the screen as soon as it shows something."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_shown(self.screen):
            assert time.monotonic() < deadline, "\n".join(self.screen)
            assert self._read(), "\n".join(["It has ended:", *self.screen])
        return self.screen

    def wait(self) -> int:
        """Return the exit code."""
        while self._read():
            pass
        return self._process.wait(PATIENCE_SECONDS)

    def _read(self) -> bool:
        """Read what was printed, if anything was; return whether there may be more."""
        if not select.select([self._ours], [], [], 0.2)[0]:
            return True
        try:
            piece = os.read(self._ours, 65536)
        except OSError:  # Linux: no process has it open any more
            return False
        self._printed += piece
        return bool(piece)


def render_terminal(printed: str) -> list[str]:
    """Render what a terminal shows, for the few sequences that the live screen uses."""
    rows, row, column = [""], 0, 0
    for token in _TOKEN.findall(printed):
        if token == "\n":
            row += 1
            rows += [""] * (row == len(rows))
        elif token == "\r":
            column = 0
        elif token.startswith("\x1b["):
            row, column = _obey(token, rows, row, column)
        else:
            before = rows[row].ljust(column)
            rows[row] = before[:column] + token + before[column + len(token) :]
            column += len(token)
    return rows


def _obey(sequence: str, rows: list[str], row: int, column: int) -> tuple[int, int]:
    number, action = sequence[2:-1], sequence[-1]
    if action == "F":
        assert row >= int(number), "it moved above what it had drawn"
        return row - int(number), 0
    assert action in "KJ", f"{sequence!r} is not known here"
    rows[row] = rows[row][:column]
    if action == "J":
        del rows[row + 1 :]
    return row, column
