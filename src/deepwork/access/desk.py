"""Where front doors ask about tokens: a look into the store, remembered for a moment."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from math import inf
from typing import TypeVar

from deepwork.access.models import Token
from deepwork.access.store import TokenStore
from deepwork.database.transaction import Database
from deepwork.errors import StorageError

log = logging.getLogger("deepwork")

Value = TypeVar("Value")

REMEMBERED_SECONDS = 2.0
"""A token that was revoked, by whichever process, is refused after at most this time."""
MAX_REMEMBERED = 1024
USE_NOTED_EVERY_SECONDS = 60


class TokenDesk:
    """Knows which tokens are valid at this moment."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._clock = database, clock
        self._remembered: OrderedDict[str, tuple[float, Token | None]] = OrderedDict()
        self._noted: OrderedDict[str, float] = OrderedDict()
        self._changing = threading.Lock()

    def remembers(self, id: str) -> bool:
        """Whether `valid` can answer without asking the store, which may take time."""
        found = self._remembered.get(id)
        return found is not None and self._clock() < found[0]

    def valid(self, id: str) -> Token | None:
        """The token with this id, if it is valid."""
        found = self._remembered.get(id)
        if found is not None and self._clock() < found[0]:
            return found[1]
        token = self._ask(id)
        with self._changing:
            _remember(self._remembered, id, (self._clock() + REMEMBERED_SECONDS, token))
        return token

    def wants_use_noted(self, id: str) -> bool:
        """Whether a minute has passed since this process last noted that the token was used."""
        now = self._clock()
        with self._changing:
            if now - self._noted.get(id, -inf) < USE_NOTED_EVERY_SECONDS:
                return False
            _remember(self._noted, id, now)
            return True

    def used(self, id: str) -> None:
        """Note that a request showed the token with its secret, unless another process just has."""
        try:
            with self._database.transaction() as tx:
                TokenStore(tx).used(id, tx.now - USE_NOTED_EVERY_SECONDS * 1000)
        except StorageError as error:  # a full disk stops writing, not reading
            log.warning("The use of token %s could not be stored: %s", id, error)

    def _ask(self, id: str) -> Token | None:
        with self._database.reading() as tx:
            token, now = TokenStore(tx).find(id), tx.now
        return token if token is not None and token.is_valid(now) else None


def _remember(memory: OrderedDict[str, Value], id: str, value: Value) -> None:
    memory.pop(id, None)
    memory[id] = value
    while len(memory) > MAX_REMEMBERED:
        memory.popitem(last=False)
