"""Limits on requests: sizes, connections and rates."""

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
    """A token bucket per caller: a number of requests per second, with a burst."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def try_acquire(self, name: str) -> bool:
        """Take one token; return False if none is left."""
        bucket = self._refill_bucket(name)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _refill_bucket(self, name: str) -> _Bucket:
        now = self._clock()
        bucket = self._buckets.pop(name, None) or _Bucket(self._burst, now)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.filled_at) * self._per_second)
        bucket.filled_at = now
        self._buckets[name] = bucket
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return bucket


def create_guess_limit() -> RateLimit:
    """Create the limit for wrong tokens from one address."""
    return RateLimit(GUESSES_PER_MINUTE / 60, GUESSES_PER_MINUTE)
