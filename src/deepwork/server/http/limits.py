"""How much one caller may ask for."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MAX_BODY = 4 * 1024 * 1024
MAX_HEADERS = 16 * 1024
MAX_CONNECTIONS = 512
MAX_BUCKETS = 10_000
GUESSES_PER_MINUTE = 10


@dataclass
class _Bucket:
    tokens: float
    filled_at: float


class RateLimit:
    """So many a second, and a burst of more, for each caller by name."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def allows(self, name: str) -> bool:
        """Count one; False if it was one too many."""
        bucket = self._filled(name)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _filled(self, name: str) -> _Bucket:
        now = self._clock()
        bucket = self._buckets.pop(name, None) or _Bucket(self._burst, now)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.filled_at) * self._per_second)
        bucket.filled_at = now
        self._buckets[name] = bucket
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return bucket


def guess_limit() -> RateLimit:
    """Wrong tokens from one address."""
    return RateLimit(GUESSES_PER_MINUTE / 60, GUESSES_PER_MINUTE)
