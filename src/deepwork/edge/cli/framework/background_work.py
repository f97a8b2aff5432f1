"""Works that run while a command waits, and their log."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Generic, Self, TypeVar

import click

from deepwork.views.observability.logs import FORMATS

# Not a project setting: the log format depends on where the server runs.
log_format_option = click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="text",
    envvar="DEEPWORK_LOG_FORMAT",
    show_default=True,
    show_envvar=True,
    help="The format of the log on standard error: text, or one JSON object per line.",
)


INTERRUPTED, TERMINATED = 130, 143
"""Exit codes."""
_LEAVE_SECONDS = 30.0
"""How long work may take to end after a request to stop."""
_POLL_SECONDS = 60.0
Result = TypeVar("Result")


class Interruptions:
    """Counts Ctrl-C, and wakes up waiting threads; a termination counts as leaving."""

    def __init__(self) -> None:
        self.count = 0
        self.is_terminated = False
        self._reader, self._writer = os.pipe()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        os.set_blocking(self._writer, False)
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._reader)
        os.close(self._writer)

    @property
    def is_any(self) -> bool:
        """Whether the person, or the system, asked to leave."""
        return self.is_terminated or self.count > 0

    def wait(self, seconds: float) -> None:
        """Wait, or until something happens."""
        if select.select([self._reader], [], [], seconds)[0]:
            os.read(self._reader, 4096)

    def wake(self) -> None:
        """Wake up waiting threads, from any thread or signal handler."""
        try:
            os.write(self._writer, b"x")
        except OSError:  # the pipe is full, so it wakes up anyway; or nobody waits any more
            return

    def _note(self, number: int, _: FrameType | None) -> None:
        self.count += number == signal.SIGINT
        self.is_terminated |= number == signal.SIGTERM
        self.wake()


class BackgroundWork(Generic[Result]):
    """Works in a thread, so that the screen and Ctrl-C never wait for it."""

    def __init__(self, work: Callable[[threading.Event], Result], interruptions: Interruptions) -> None:
        """`work` ends soon after its event is set."""
        self._work, self._interruptions = work, interruptions
        self._stop = threading.Event()
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="runner", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Stop working; the agents go on."""
        self._stop.set()
        self._thread.join(_LEAVE_SECONDS)

    @property
    def has_ended(self) -> bool:
        """Whether it works no more; raises the error that ended it."""
        if self._error is not None:
            raise self._error
        return self._is_over

    def wait(self) -> Result | None:
        """Return the result; None if the person interrupted it."""
        while not self.has_ended:
            if self._interruptions.is_any:
                self.leave()
                return None
            self._interruptions.wait(_POLL_SECONDS)
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._work(self._stop)
        except BaseException as error:  # noqa: BLE001 - raised in the main thread
            self._error = error
        self._is_over = True  # the thread itself is still alive when the main thread wakes up
        self._interruptions.wake()
