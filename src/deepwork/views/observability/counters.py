"""Counters of the process since its start."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0)
"""Seconds. Most calls take a few milliseconds; a step with a reviewer takes minutes."""
REFUSAL_STATUSES = frozenset({401, 403, 413, 421, 429, 431, 503})
"""HTTP statuses with which the guard refuses requests."""


@dataclass
class Histogram:
    """Durations counted by bound, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """One count for each bound, and one for longer durations."""
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def copy(self) -> Histogram:
        return Histogram(list(self.counts), self.total)


@dataclass(frozen=True)
class CounterSnapshot:
    """A copy of all counters at one moment."""

    durations: dict[str, Histogram]
    errors: dict[tuple[str, str], int]
    """By tool and code."""
    refusals: dict[int, int]
    """By status."""
    deliveries: Histogram


class Counters:
    """Thread-safe counters that only grow. Labels are tool names and error codes, so they are bounded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._durations: dict[str, Histogram] = {}
        self._errors: Counter[tuple[str, str]] = Counter()
        self._refusals: Counter[int] = Counter()
        self._deliveries = Histogram()

    def record_call(self, tool: str, seconds: float, code: str | None = None) -> None:
        """Count a tool call and its duration; `code` is the error code if it failed."""
        with self._lock:
            if (histogram := self._durations.get(tool)) is None:
                histogram = self._durations[tool] = Histogram()
            histogram.add(seconds)
            if code is not None:
                self._errors[tool, code] += 1

    def record_refusal(self, status: int) -> None:
        """Count a request that the guard refused."""
        with self._lock:
            self._refusals[status] += 1

    def record_delivery(self, seconds: float) -> None:
        """Count an event that was delivered this long after it was stored."""
        with self._lock:
            self._deliveries.add(seconds)

    def take_snapshot(self) -> CounterSnapshot:
        """Copy all counters."""
        with self._lock:
            return CounterSnapshot(
                {tool: histogram.copy() for tool, histogram in self._durations.items()},
                dict(self._errors),
                dict(self._refusals),
                self._deliveries.copy(),
            )


COUNTERS = Counters()
"""The counters of this process; global, like loggers."""
