"""Progress of long requests: what a client hears until it gets the answer."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

SILENT_SECONDS = 10
"""After so long without news a client gets a sign of life: many give up on a request that is silent."""
BURST = 8
PER_SECOND = 4
"""So many notifications at once, and then so many per second, at most."""
_TICK_SECONDS = 0.5
_SLOWNESS_SECONDS = 60
"""After so long without news, half of the next step counts as done."""


class Progress:
    """The progress of one request. Its notifications increase strictly, and none follows the answer."""

    def __init__(
        self,
        send: Callable[[Mapping[str, Any]], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`send` gets the parameters of a notification; None if the client did not ask for any."""
        self.message: str | None = None
        self.reported_at = self._began_at = clock()
        self._clock, self._send = clock, send
        self._lock = threading.Lock()
        self._done, self._total, self._last = 0.0, 0.0, -math.inf
        self._allowed, self._counted_at = float(BURST), self._began_at
        self._sent_at, self._has_news = self._began_at, False

    def report(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Note how far the work is; the client hears of it now, or soon if it heard a lot just before."""
        with self._lock:
            self._done, self._total = done, math.inf if total is None else total
            self.message = message or self.message
            self.reported_at, self._has_news = self._clock(), True
            if self._is_allowed(self.reported_at):
                self._notify(self.reported_at, self.message)

    def check(self) -> None:
        """Send what still waits, or a sign of life after a long silence; called again and again."""
        with self._lock:
            now = self._clock()
            if self._has_news and self._is_allowed(now):
                self._notify(now, self.message)
            elif now - self._sent_at >= SILENT_SECONDS:
                self._notify(now, f"{self.message or 'Still working'} ({now - self._began_at:.0f} s)")

    def end(self) -> None:
        """Send nothing more, because the answer follows."""
        with self._lock:
            self._send = None

    def _is_allowed(self, now: float) -> bool:
        earned = (now - self._counted_at) * PER_SECOND
        self._allowed, self._counted_at = min(BURST, self._allowed + earned), now
        return self._allowed >= 1

    def _notify(self, now: float, message: str | None) -> None:
        if self._send is None:
            return
        self._last, self._sent_at, self._has_news = self._advance(now), now, False
        self._allowed -= 1
        known = {
            "progress": self._last,
            "total": self._total if self._last <= self._total < math.inf else None,
            "message": message,
        }
        try:
            self._send({name: value for name, value in known.items() if value is not None})
        except (
            OSError,
            RuntimeError,
        ):  # the connection or its event loop ended; the work does not depend on it
            self._send = None

    def _advance(self, now: float) -> float:
        """Return a number above the last one, though below what the next step will report, if possible."""
        if self._done > self._last:
            return self._done
        waited = now - self.reported_at
        room = max(0.0, min(1.0, self._total - self._done))
        nudged = self._done + room * waited / (waited + _SLOWNESS_SECONDS)
        return nudged if nudged > self._last else math.nextafter(self._last, math.inf)


class SignsOfLife:
    """Checks the progress of all long requests in one thread, which runs only while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: set[Progress] = set()
        self._is_running = False

    def watch(self, progress: Progress) -> None:
        with self._lock:
            self._watched.add(progress)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="deepwork-progress", daemon=True).start()

    def forget(self, progress: Progress) -> None:
        with self._lock:
            self._watched.discard(progress)

    def _run(self) -> None:
        while watched := self._list_watched():
            time.sleep(_TICK_SECONDS)
            for progress in watched:
                progress.check()

    def _list_watched(self) -> list[Progress]:
        with self._lock:
            self._is_running = bool(self._watched)
            return list(self._watched)
