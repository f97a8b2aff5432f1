"""Measures processor time relative to a fixed amount of work.

Seconds depend on the machine and its load. The ratio to work done at the same time depends only on
the code, and quadratic behaviour exceeds any sensible limit.
"""

import gc
import time
from collections.abc import Callable

TRIES = 3


def measure_effort(act: Callable[[], object], *, enough: float) -> float:
    """Return the processor time of `act` as a multiple of a loop of 100,000 additions.

    Takes the lowest of three tries, since other load only adds time; stops early below `enough`.
    """
    lowest = float("inf")
    for _ in range(TRIES):
        unit = min(_seconds(_fixed_work) for _ in range(TRIES))
        lowest = min(lowest, _seconds(act) / unit)
        if lowest < enough:
            break
    return lowest


def _seconds(act: Callable[[], object]) -> float:
    """Return the processor time of this thread, without garbage collection for earlier tests."""
    gc.disable()
    try:
        began = time.thread_time()
        act()
        return time.thread_time() - began
    finally:
        gc.enable()


def _fixed_work() -> int:
    total = 0
    for number in range(100_000):
        total += number
    return total
