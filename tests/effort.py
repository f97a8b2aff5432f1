"""How much work something is, measured against a fixed piece of work next to it.

Seconds tell of the machine and of who else is on it. A ratio to work done in the same
moment tells of the code, and a way of working that grows with the square is far beyond any.
"""

import gc
import time
from collections.abc import Callable

TRIES = 3


def effort(act: Callable[[], object], *, enough: float) -> float:
    """The processor time of `act` as a multiple of a loop of 100,000 additions.

    The lowest of three tries, since others on the machine only ever add; fewer when one is below `enough`.
    """
    lowest = float("inf")
    for _ in range(TRIES):
        unit = min(_seconds(_fixed_work) for _ in range(TRIES))
        lowest = min(lowest, _seconds(act) / unit)
        if lowest < enough:
            break
    return lowest


def _seconds(act: Callable[[], object]) -> float:
    """The processor time of this thread alone, without collecting what earlier tests left behind."""
    gc.collect()
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
