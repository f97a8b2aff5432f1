"""What this process has done since it began, counted as it happens."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0)
"""Seconds: most calls take a few milliseconds, a step behind a reviewer takes minutes."""


@dataclass
class Spread:
    """How long things took: how many up to each bound, and all together."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """One for each bound, and one for what is above them all."""
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def copy(self) -> Spread:
        return Spread(list(self.counts), self.total)


@dataclass(frozen=True)
class Counted:
    """The figures at one moment."""

    durations: dict[str, Spread]
    errors: dict[tuple[str, str], int]
    """By tool and code."""
    refusals: dict[int, int]
    """By status."""
    deliveries: Spread


class Counters:
    """Figures that only grow. What they are told by is bounded: tools there are, codes there are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._durations: dict[str, Spread] = {}
        self._errors: Counter[tuple[str, str]] = Counter()
        self._refusals: Counter[int] = Counter()
        self._deliveries = Spread()

    def called(self, tool: str, seconds: float, code: str | None = None) -> None:
        """A tool was called; `code` says what went wrong, if anything did."""
        with self._lock:
            if (spread := self._durations.get(tool)) is None:
                spread = self._durations[tool] = Spread()
            spread.add(seconds)
            if code is not None:
                self._errors[tool, code] += 1

    def refused(self, status: int) -> None:
        """A request was turned away at the door."""
        with self._lock:
            self._refusals[status] += 1

    def delivered(self, seconds: float) -> None:
        """An event arrived, so long after it was stored."""
        with self._lock:
            self._deliveries.add(seconds)

    def seen(self) -> Counted:
        """All figures as of now."""
        with self._lock:
            return Counted(
                {tool: spread.copy() for tool, spread in self._durations.items()},
                dict(self._errors),
                dict(self._refusals),
                self._deliveries.copy(),
            )


COUNTERS = Counters()
"""One for the process, as loggers are: what is counted is what the process did."""
