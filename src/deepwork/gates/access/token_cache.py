"""Caches token lookups for the HTTP transport for a few seconds."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import inf
from typing import TypeVar

from deepwork.gates.access.models import Token
from deepwork.gates.access.store import TokenStore
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import StorageError

log = logging.getLogger("deepwork")

Value = TypeVar("Value")

CACHE_SECONDS = 2.0
"""A token revoked by any process is refused after at most this time."""
MAX_CACHED = 1024
USE_RECORD_INTERVAL_SECONDS = 60


class TokenCache:
    """Looks up valid tokens, and records when they are used."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._clock = database, clock
        self._cached: OrderedDict[str, tuple[float, Token | None]] = OrderedDict()
        self._use_recorded: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def is_cached(self, id: str) -> bool:
        """Return whether `find_valid` can answer without querying the store, which may block."""
        found = self._cached.get(id)
        return found is not None and self._clock() < found[0]

    def find_valid(self, id: str) -> Token | None:
        """Return the token with this id if it is valid."""
        found = self._cached.get(id)
        if found is not None and self._clock() < found[0]:
            return found[1]
        token = self._load_valid(id)
        with self._lock:
            _put_bounded(self._cached, id, (self._clock() + CACHE_SECONDS, token))
        return token

    def find_valid_ids(self, ids: Sequence[str]) -> set[str]:
        """Return those of the ids that belong to valid tokens, read from the store with one query."""
        with self._database.reading() as tx:
            return TokenStore(tx).find_valid_ids(ids)

    def should_record_use(self, id: str) -> bool:
        """Return whether this process has not recorded a use of the token for a minute."""
        now = self._clock()
        with self._lock:
            if now - self._use_recorded.get(id, -inf) < USE_RECORD_INTERVAL_SECONDS:
                return False
            _put_bounded(self._use_recorded, id, now)
            return True

    def record_use(self, id: str) -> None:
        """Record that a request used the token, unless another process just did."""
        try:
            with self._database.transaction() as tx:
                TokenStore(tx).record_use(id, tx.now - USE_RECORD_INTERVAL_SECONDS * 1000)
        except StorageError as error:  # a full disk must not stop requests that only read
            log.warning("The use of token %s could not be stored: %s", id, error)

    def _load_valid(self, id: str) -> Token | None:
        with self._database.reading() as tx:
            token, now = TokenStore(tx).find(id), tx.now
        return token if token is not None and token.is_valid(now) else None


def _put_bounded(memory: OrderedDict[str, Value], id: str, value: Value) -> None:
    memory.pop(id, None)
    memory[id] = value
    while len(memory) > MAX_CACHED:
        memory.popitem(last=False)
