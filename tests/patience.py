"""Waits for a condition, and gives up by progress: on a machine that many share, a second counts less."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

PATIENCE_SECONDS = 60
LOOK_SECONDS = 0.01


def wait_until(is_true: Callable[[], object], what: str = "it", seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until it is true; fail if it is not after so many seconds of a quiet machine."""
    assert is_true_in_time(is_true, seconds), f"waited in vain for {what}"


def is_true_in_time(is_true: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> bool:
    """Return whether it is true within so many seconds of a quiet machine."""
    waited, before = 0.0, time.monotonic()
    while not is_true():
        if waited > seconds:
            return False
        time.sleep(LOOK_SECONDS)
        now = time.monotonic()
        waited, before = waited + (now - before) / _count_rivals(), now
    return True


def _count_rivals() -> float:
    """Return how many processes share a core, at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
