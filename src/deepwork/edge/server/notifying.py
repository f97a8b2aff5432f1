"""Starts what notifies people, in each process that lives longer than a command.

A thread looks every two seconds whether this user has channels. Until then nothing else is imported.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from deepwork.kernel.environment import choose_user_file
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.files.private import find_stamp

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application
    from deepwork.views.notifications.sender import NotificationSender

log = logging.getLogger("deepwork")

FILE_NAME = "notifications.json"
PAUSE_SECONDS = 2.0
_LAST_SECONDS = 25.0
"""How long the end of a process may be held up by its last messages."""


def has_channels_file() -> bool:
    """Return whether this user ever added a channel."""
    return find_stamp(str(choose_user_file(FILE_NAME))) is not None


class Notifier:
    """Looks and sends in a thread of its own, while this process is the sender of its user."""

    def __init__(self, app: Application, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._app, self._pause = app, pause_seconds
        self._stopping, self._is_last = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="deepwork-notify", daemon=True)
        self._sender: NotificationSender | None = None
        self._lock: int | None = None
        self._took = 0.0

    def start(self) -> Notifier:
        """Start the thread."""
        self._thread.start()
        return self

    def stop(self, *, finishes: bool = False) -> None:
        """Stop; with `finishes`, tell first what there is to tell now, as at the end of a run."""
        self._is_last = finishes
        self._stopping.set()
        self._thread.join(_LAST_SECONDS if finishes else self._pause)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(max(self._pause, 20 * self._took)):
                self._work_safely(None)
            if self._is_last:
                self._work_safely(0)
        finally:
            if self._lock is not None:
                with suppress(OSError):
                    os.close(self._lock)

    def _work_safely(self, delay_seconds: int | None) -> None:
        try:
            self._work(delay_seconds)
        except (
            DeepworkError
        ) as error:  # such as a settings folder that others can write: `doctor` says so, too
            log.debug("Nobody is notified: %s", error.message)
        except Exception:  # the thread must survive any error
            log.exception("Notifications failed")

    def _work(self, delay_seconds: int | None) -> None:
        if not has_channels_file() or not self._app.has_open_store:
            return
        began = time.monotonic()
        if self._sender is None:
            self._sender = self._app.build_notification_sender()
        if self._lock is None:
            self._lock = self._sender.lock(self._app.settings.database_location)
        if self._lock is not None:
            sent = self._sender.work(delay_seconds=delay_seconds)
            self._took = 0.0 if sent else time.monotonic() - began
