"""Looks again and again until something is over: often while much happens, seldom while nothing does."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Protocol

from deepwork.kernel.database.engine import Listener
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import StorageError

log = logging.getLogger("deepwork")

_SHORTEST_WAIT, _LONGEST_WAIT = 0.05, 1.0
_LONGEST_PAUSE, _LONGEST_COSTLY_WAIT = 0.5, 3.0
_CHANGED_SHARE, _QUIET_SHARE = 20, 100
"""A look that changed nothing is followed by this many times its CPU time of rest: so looking takes at most
a twentieth of a core while the store changes all the time, and a hundredth while nothing does."""
_STORE_WAIT = 2.0


class Tick(Protocol):
    """One look; `is_changed`: whether the store may have changed since the last one."""

    def __call__(self, *, is_changed: bool) -> bool:
        """Return whether anything happened."""


def repeat_until_over(
    database: Database, stop: threading.Event, tick: Tick, is_over: Callable[[bool], bool]
) -> None:
    """Tick until it is over or `stop` is set; `is_over` gets whether the tick had news.

    While the store cannot be used it waits: agents go on meanwhile.
    """
    wait, is_changed = _SHORTEST_WAIT, True
    listener = _listen(database, stop)
    if listener is None:
        return
    with closing(listener):
        while not stop.is_set():
            began = time.thread_time()
            try:
                has_news = tick(is_changed=is_changed)
                if (has_news or is_changed) and is_over(has_news):
                    return
            except StorageError as error:
                _wait_for_store(error, stop)
                is_changed = True  # what was read before it may be old
                continue
            cost = 0.0 if has_news else time.thread_time() - began
            wait = _SHORTEST_WAIT if has_news else min(_LONGEST_WAIT, wait * 2)
            # Many small changes are looked at together.
            stop.wait(max(_SHORTEST_WAIT, min(cost * _CHANGED_SHARE, _LONGEST_PAUSE)))
            rest = max(wait, min(cost * _QUIET_SHARE, _LONGEST_COSTLY_WAIT))
            is_changed = listener.wait(rest) or has_news


def _listen(database: Database, stop: threading.Event) -> Listener | None:
    """Listen for changes as soon as the store can be used; None if `stop` was set before."""
    while not stop.is_set():
        try:
            return database.listen()
        except StorageError as error:
            _wait_for_store(error, stop)
    return None


def _wait_for_store(error: StorageError, stop: threading.Event) -> None:
    log.warning("The store cannot be used; trying again: %s", error.message)
    stop.wait(_STORE_WAIT)
