"""Idempotency keys: a repeated call with the same key has one effect and returns the first answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from deepwork.kernel.call import Call, current_call
from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Database, Transaction, join_transaction
from deepwork.kernel.errors import Code, Conflict, InvalidInput

KEPT_MS = 7 * 24 * 3600 * 1000
MAX_KEY = 128


def run_once(database: Database, call: Call, work: Callable[[], Any]) -> Any:
    """Do the work and store its answer, or return the stored answer of an earlier call with the same key.

    The key, the effects and the answer are stored by one commit, so a crash leaves all of them or none.
    """
    if call.key is None:
        return work()
    with database.transaction() as tx:
        keys = KeyStore(tx)
        if not keys.reserve(call):
            return keys.get_answer(call)
        with join_transaction(tx):
            answer = work()
        keys.save_answer(call, answer)
        return answer


def find_answer(database: Database, call: Call) -> Any:
    """Find the stored answer of an earlier call with the same key; None if there is none."""
    with database.reading() as tx:
        keys = KeyStore(tx)
        return keys.get_answer(call) if keys.has(call) else None


def compute_digest(arguments: Mapping[str, Any]) -> str:
    """Hash the arguments of a call, to recognize a key that is used for another call."""
    return hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()


def build_key_reused_error(call: Call) -> Conflict:
    return Conflict(
        f"The idempotency key {call.key!r} was used for {call.tool} with different arguments.",
        code=Code.KEY_REUSED,
        suggestion="Repeat the call with its original arguments, or use a new key.",
    )


def forget_key(tx: Transaction) -> None:
    """Forget the current call's key, because its effect was undone: repeating the call must redo it."""
    call = current_call()
    if call.key is not None:
        KeyStore(tx).remove(call)


def check_key(key: object) -> str:
    """Return the key if it is valid; raises InvalidInput otherwise."""
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY or not key.isprintable():
        raise InvalidInput(f"An idempotency key must have 1 to {MAX_KEY} printable characters.")
    return key


class KeyStore:
    """Stores used keys with their answers."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def reserve(self, call: Call) -> bool:
        """Reserve the key; False if it is taken. A concurrent call with the same key waits for the first."""
        sql = "DELETE FROM idempotency_keys WHERE created_at < :cutoff"
        self._tx.execute(sql, cutoff=self._tx.now - KEPT_MS)
        row = {"caller": call.account, "tool": call.tool, "key": call.key, "arguments": call.digest}
        return self._tx.insert_new("idempotency_keys", row | {"created_at": self._tx.now})

    def has(self, call: Call) -> bool:
        """Whether an earlier call used the key."""
        return self._find(call) is not None

    def get_answer(self, call: Call) -> Any:
        """Return the stored answer; raises Conflict if the first call had other arguments."""
        first = self._find(call)
        if first is None or first["arguments"] != call.digest:
            raise build_key_reused_error(call)
        return _parse_answer(first)

    def save_answer(self, call: Call, answer: Any) -> None:
        """Store the answer of the call."""
        sql = (
            "UPDATE idempotency_keys SET answer = :answer"
            " WHERE caller = :caller AND tool = :tool AND key = :key"
        )
        self._tx.execute(sql, answer=json.dumps(answer), caller=call.account, tool=call.tool, key=call.key)

    def replace_answer(self, call: Call, stored: Any, answer: Any) -> None:
        """Replace the stored answer, unless the key was forgotten or used again meanwhile."""
        sql = (
            "UPDATE idempotency_keys SET answer = :answer"
            " WHERE caller = :caller AND tool = :tool AND key = :key AND answer = :stored"
        )
        self._tx.execute(
            sql,
            answer=json.dumps(answer),
            stored=json.dumps(stored),
            caller=call.account,
            tool=call.tool,
            key=call.key,
        )

    def remove(self, call: Call) -> None:
        """Delete the key, so that it can be used again."""
        sql = "DELETE FROM idempotency_keys WHERE caller = :caller AND tool = :tool AND key = :key"
        self._tx.execute(sql, caller=call.account, tool=call.tool, key=call.key)

    def _find(self, call: Call) -> Row | None:
        sql = (
            "SELECT arguments, answer FROM idempotency_keys"
            " WHERE caller = :caller AND tool = :tool AND key = :key"
        )
        return self._tx.fetch_one(sql, caller=call.account, tool=call.tool, key=call.key)


@row_parser
def _parse_answer(row: Row) -> Any:
    return json.loads(row["answer"])
