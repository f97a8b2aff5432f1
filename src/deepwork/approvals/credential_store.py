"""Stores what people enrolled as proofs, and how often somebody tried one."""

from __future__ import annotations

import json
from dataclasses import replace

from deepwork.approvals.credentials import Credential, compute_lock
from deepwork.database.engine import Row, row_parser
from deepwork.database.transaction import Transaction
from deepwork.trust.models import Proof


class CredentialStore:
    """The enrolled proofs of one store."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, credential: Credential) -> None:
        """Insert a credential."""
        self._tx.insert(
            "person_credentials",
            {
                "id": credential.id,
                "method": credential.method.value,
                "name": credential.name,
                "data": json.dumps(credential.data, sort_keys=True, separators=(",", ":")),
                "created_at": credential.created_at,
                "sign_count": credential.sign_count,
            },
        )

    def list_active(self) -> list[Credential]:
        """Return the credentials that count, oldest first."""
        return [each for each in self.list_all() if each.removed_at is None]

    def list_all(self) -> list[Credential]:
        """Return all credentials, including removed ones, oldest first."""
        rows = self._tx.fetch_all(f"SELECT {_COLUMNS} FROM person_credentials ORDER BY created_at, id")
        return [_parse_credential(row) for row in rows]

    def remove(self, id: str) -> None:
        """Let a credential count no more."""
        sql = "UPDATE person_credentials SET removed_at = :now WHERE id = :id AND removed_at IS NULL"
        self._tx.execute(sql, id=id, now=self._tx.now)

    def begin_try(self, id: str) -> Credential | None:
        """Count a try before it is judged, and lock the credential if it was one of the last.

        Returns the credential as it was; None if it is locked or removed. The row stays locked until the
        commit, so that processes that try at the same time get no more tries together than one alone.
        """
        sql = f"SELECT {_COLUMNS} FROM person_credentials WHERE id = :id {self._tx.row_lock}"
        row = self._tx.fetch_one(sql, id=id)
        found = _parse_credential(row) if row else None
        if found is None or found.removed_at is not None or found.is_locked(self._tx.now):
            return None
        tries = found.failed_tries + 1
        lock = compute_lock(tries, self._tx.now)
        self._tx.update("person_credentials", id, {"failed_tries": tries, "locked_until": lock})
        return replace(found, failed_tries=tries, locked_until=lock)

    def forget_tries(self, id: str) -> None:
        """Forget the tries before a right one."""
        self._tx.update("person_credentials", id, {"failed_tries": 0, "locked_until": None})

    def raise_sign_count(self, id: str, count: int) -> bool:
        """Store the counter of a passkey; False if this answer, or a later one, was used before.

        A passkey that several devices share always sends 0.
        """
        sql = """
            UPDATE person_credentials SET sign_count = :count
             WHERE id = :id AND removed_at IS NULL
               AND (sign_count < :count OR (sign_count = 0 AND :count = 0))
        """
        return self._tx.execute(sql, id=id, count=count) == 1


_COLUMNS = ", ".join(Credential.__dataclass_fields__)


@row_parser
def _parse_credential(row: Row) -> Credential:
    return Credential(**(row | {"method": Proof(row["method"]), "data": json.loads(row["data"])}))
