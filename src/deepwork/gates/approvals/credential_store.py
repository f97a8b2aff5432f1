"""Stores what people enrolled as proofs, and how often somebody tried one."""

from __future__ import annotations

import json
from dataclasses import replace

from deepwork.gates.approvals.credentials import Credential, compute_lock
from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.seals import LIST_ID, list_broken, save_seal, seal_list
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import Code, NotAllowed
from deepwork.kernel.trust.models import CredentialKind


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
        save_seal(self._tx, "person_credentials", credential.id)
        seal_list(self._tx, "person_credentials")

    def list_active(self) -> list[Credential]:
        """Return the credentials that count, oldest first."""
        return [each for each in self.list_all() if each.removed_at is None]

    def list_all(self) -> list[Credential]:
        """Return all credentials, including removed ones, oldest first; raises if one was forged."""
        for id, problem in list_broken(self._tx, "person_credentials"):
            raise _build_forged_error("the list was changed" if id == LIST_ID else f"{id} is {problem}")
        return self.list_unverified()

    def list_unverified(self) -> list[Credential]:
        """Return all credentials as the store has them, whoever wrote them."""
        rows = self._tx.fetch_all(f"SELECT {_COLUMNS} FROM person_credentials ORDER BY created_at, id")
        return [_parse_credential(row) for row in rows]

    def remove(self, id: str) -> None:
        """Let a credential count no more."""
        sql = "UPDATE person_credentials SET removed_at = :now WHERE id = :id AND removed_at IS NULL"
        self._tx.execute(sql, id=id, now=self._tx.now)
        save_seal(self._tx, "person_credentials", id)

    def require_known_log(self) -> None:
        """Raise NotAllowed if nothing is enrolled here although the audit log says that something was.

        What a person removes stays as a row, so somebody deleted it together with its seal.
        """
        since = self._tx.read_store_key().keyed_from
        if self._tx.fetch_one(_ENROLLED_SQL, tools=list(ENROLLING_TOOLS), since=since) is not None:
            raise _build_forged_error("it was deleted")

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


ENROLLING_TOOLS = ("enroll_passphrase", "enroll_passkey")
_ENROLLED_SQL = "SELECT seq FROM audit WHERE tool IN :tools AND outcome = 'done' AND seq >= :since LIMIT 1"


def _build_forged_error(problem: str) -> NotAllowed:
    return NotAllowed(
        f"What you enrolled as a proof was changed in the store ({problem}), so nobody can decide here.",
        code=Code.UNAUTHORIZED,
        suggestion="See `deepwork audit verify`. Move the store away, then restore a backup with "
        "`deepwork db restore`.",
    )


_COLUMNS = ", ".join(Credential.__dataclass_fields__)


@row_parser
def _parse_credential(row: Row) -> Credential:
    return Credential(**(row | {"method": CredentialKind(row["method"]), "data": json.loads(row["data"])}))
