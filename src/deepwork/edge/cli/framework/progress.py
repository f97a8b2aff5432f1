"""Shows progress in a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from threading import Lock, Timer
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from deepwork.edge.cli.framework.tables import measure_width
from deepwork.edge.cli.framework.terminal import get_unprotected, is_terminal
from deepwork.kernel.foreign_text import escape_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_ERASE_TO_LINE_END, _ERASE_BELOW = "\x1b[K", "\x1b[J"


class LiveLines:
    """Draws lines in place. The caller escapes the text of others: the stream is not protected here.

    Nothing else may be written to the terminal between two drawings.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = get_unprotected(stream)
        self._widths: list[int] = []
        """The widths of the lines that were drawn."""

    def draw(
        self, lines: Sequence[str], widths: Sequence[int], columns: int, *, above: Sequence[str] = ()
    ) -> None:
        """Draw lines of these widths instead of those drawn before; those `above` stay for good."""
        drawn = "".join(f"{line}{_ERASE_TO_LINE_END}\n" for line in [*above, *lines])
        self._stream.write(f"{self._move_up(columns)}{drawn}{_ERASE_BELOW}")
        self._stream.flush()
        self._widths = list(widths)

    def _move_up(self, columns: int) -> str:
        """Return the sequence that moves to the first line; a narrower terminal has wrapped some of them."""
        rows = sum(max(1, -(-width // max(1, columns))) for width in self._widths)
        return f"\x1b[{rows}F" if rows else ""


def measure_lines(lines: Sequence[str]) -> list[int]:
    """Return the widths of lines without control sequences."""
    return [measure_width(line) for line in lines]


_LINE_SECONDS = 10.0
_DELAY_SECONDS = 0.5
"""Seconds before the bar appears; shorter operations show none."""


class ProgressLines:
    """Reports the progress of a call as a line on standard error now and then, in a pipe, too."""

    def __init__(self, seconds: float = _LINE_SECONDS) -> None:
        self._seconds, self._last = seconds, time.monotonic()

    def __call__(self, progress: float, total: float | None = None, message: str | None = None) -> None:  # noqa: ARG002
        """Print the message, if the last one was long ago."""
        now = time.monotonic()
        if message and now - self._last >= self._seconds:
            self._last = now
            print(escape_line(message), file=sys.stderr, flush=True)


class ProgressBar:
    """A bar that appears if an operation takes long; never in a pipe or with --json."""

    def __init__(self, what: str, *, quiet: bool = False, delay: float = _DELAY_SECONDS) -> None:
        self._is_enabled = not quiet and is_terminal(sys.stderr)
        self._timer = Timer(delay, self._show_bar)
        self._timer.daemon = True
        self._lock = Lock()
        self._state: tuple[str, int, int] = (escape_line(what), 0, 0)
        self._bar: tuple[Progress, TaskID] | None = None
        self._has_ended = False

    def __enter__(self) -> Self:
        if self._is_enabled:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._has_ended = True
            if self._bar:
                self._bar[0].stop()

    def follow(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Show how far a call is that reports its progress."""
        self.report(message or "", int(progress), int(total or 0))

    def report(self, what: str, done: int = 0, total: int = 0) -> None:
        """Update the bar; without a total it shows only the description."""
        with self._lock:
            self._state = (escape_line(what), done, total)
            self._update()

    def _show_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=Console(file=get_unprotected(sys.stderr)),
            transient=True,
        )
        with self._lock:
            if self._has_ended:
                return
            self._bar = (bar, bar.add_task(self._state[0], total=None))
            self._update()
            bar.start()

    def _update(self) -> None:
        if self._bar:
            (bar, task), (what, done, total) = self._bar, self._state
            bar.update(task, description=what, completed=done, total=total or None)
