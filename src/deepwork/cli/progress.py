"""How far long work is, told on standard error to whoever waits for it in a terminal."""

from __future__ import annotations

import sys
from threading import Lock, Timer
from types import TracebackType
from typing import TYPE_CHECKING, Self

from deepwork.cli.terminal import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_PATIENCE = 0.5
"""Seconds; what is done by then needs no bar."""


class Waiting:
    """A bar that appears when work takes long; in a pipe, or with --json, never."""

    def __init__(self, what: str, *, quiet: bool = False, patience: float = _PATIENCE) -> None:
        self._is_shown = not quiet and is_terminal(sys.stderr)
        self._timer = Timer(patience, self._begin)
        self._timer.daemon = True
        self._lock = Lock()
        self._state: tuple[str, int, int] = (what, 0, 0)
        self._bar: tuple[Progress, TaskID] | None = None
        self._has_ended = False

    def __enter__(self) -> Self:
        if self._is_shown:
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

    def report(self, what: str, done: int = 0, total: int = 0) -> None:
        """Say how far it is; without a total, only what is being done."""
        with self._lock:
            self._state = (what, done, total)
            self._update()

    def _begin(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
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
