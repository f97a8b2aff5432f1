"""Counts the reviews of a call, for the client that waits for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from deepwork.kernel.call import ReportProgress


class ReviewCounter:
    """Reports how many reviews of one call have started and finished."""

    def __init__(self, total: int, report_progress: ReportProgress) -> None:
        self._total, self._report_progress = total, report_progress
        self._started = self._finished = 0
        self._lock = threading.Lock()

    @contextmanager
    def count(self) -> Iterator[None]:
        """Count the review that the block runs."""
        with self._lock:
            self._started += 1
            self._report(f"Started review {self._started} of {self._total}")
        yield
        with self._lock:
            self._finished += 1
            self._report(f"Finished {self._finished} of {self._total} reviews")

    def _report(self, message: str) -> None:
        self._report_progress(self._finished, self._total, message)
