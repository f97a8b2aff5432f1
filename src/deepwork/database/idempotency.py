"""A call that is repeated under the same key has one effect and one answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from deepwork.database.call import Call, current_call
from deepwork.database.engine import Row, stored
from deepwork.database.transaction import Database, Transaction, joining
from deepwork.errors import Code, Conflict, InvalidInput

KEPT_MS = 7 * 24 * 3600 * 1000
MAX_KEY = 128


def once(database: Database, call: Call, arguments: Mapping[str, Any], work: Callable[[], Any]) -> Any:
    """Do the work and keep its answer, or give the answer of the first time.

    The key, the work and the answer are stored by one commit, so a crash leaves all of them or none.
    """
    digest = _digest(arguments)
    with database.transaction() as tx:
        keys = KeyStore(tx)
        if not keys.reserve(call, digest):
            return keys.answer(call, digest)
        with joining(tx):
            answer = work()
        keys.keep(call, answer)
        return answer


def under_key(database: Database, arguments: Mapping[str, Any], work: Callable[[], Any]) -> Any:
    """The last part of a tool that runs programs first: the work, under the key of the call if it has one."""
    call = current_call()
    return work() if call.key is None else once(database, call, arguments, work)


def forget_key(tx: Transaction) -> None:
    """What the call under way did was undone after it was stored: repeating it does it again."""
    call = current_call()
    if call.key is not None:
        KeyStore(tx).forget(call)


def check_key(key: object) -> str:
    """A key as clients may send it."""
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY or not key.isprintable():
        raise InvalidInput(f"An idempotency key is a printable text of 1 to {MAX_KEY} characters.")
    return key


class KeyStore:
    """Keys that were used, with the answers given."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def reserve(self, call: Call, digest: str) -> bool:
        """Take the key, unless it is taken; of two calls at once the second waits for the first."""
        self._tx.run("DELETE FROM idempotency_keys WHERE created_at < :cutoff", cutoff=self._tx.now - KEPT_MS)
        taken = self._tx.run(
            """
            INSERT INTO idempotency_keys (caller, tool, key, arguments, created_at)
            VALUES (:caller, :tool, :key, :arguments, :now) ON CONFLICT DO NOTHING
            """,
            caller=call.account, tool=call.tool, key=call.key, arguments=digest, now=self._tx.now,
        )  # fmt: skip
        return taken == 1

    def answer(self, call: Call, digest: str) -> Any:
        """What was answered the first time."""
        first = self._tx.one(
            "SELECT arguments, answer FROM idempotency_keys"
            " WHERE caller = :caller AND tool = :tool AND key = :key",
            caller=call.account, tool=call.tool, key=call.key,
        )  # fmt: skip
        if first is None or first["arguments"] != digest:
            raise Conflict(
                f"The idempotency key {call.key!r} was used for {call.tool} with other arguments.",
                code=Code.KEY_REUSED,
                suggestion="Repeat the call with its first arguments, or use a new key.",
            )
        return _answer(first)

    def keep(self, call: Call, answer: Any) -> None:
        """Remember what was answered."""
        self._tx.run(
            "UPDATE idempotency_keys SET answer = :answer"
            " WHERE caller = :caller AND tool = :tool AND key = :key",
            answer=json.dumps(answer), caller=call.account, tool=call.tool, key=call.key,
        )  # fmt: skip

    def forget(self, call: Call) -> None:
        """The key may be used again."""
        self._tx.run(
            "DELETE FROM idempotency_keys WHERE caller = :caller AND tool = :tool AND key = :key",
            caller=call.account, tool=call.tool, key=call.key,
        )  # fmt: skip


@stored
def _answer(row: Row) -> Any:
    return json.loads(row["answer"])


def _digest(arguments: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()
