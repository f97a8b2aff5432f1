"""Codes that sign a browser in once: what opens a browser puts its address into the list of processes."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

CODE_SECONDS = 60.0
MAX_CODES = 16


class LoginCodes:
    """Codes that were issued and not used yet; each signs in as the owner, once, within a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expiries: OrderedDict[str, float] = OrderedDict()

    def create(self) -> str:
        """Issue a code; the oldest unused one gives way if there are too many."""
        code = secrets.token_urlsafe(32)
        self._expiries[_hash(code)] = self._clock() + CODE_SECONDS
        if len(self._expiries) > MAX_CODES:
            self._expiries.popitem(last=False)
        return code

    def redeem(self, code: str) -> bool:
        """Return whether the code is valid; it is not valid again."""
        # Found by its hash, so that the time of the search tells nothing about a code.
        return self._clock() < self._expiries.pop(_hash(code), 0.0)


def _hash(code: str) -> str:
    return sha256(code.encode()).hexdigest()
