"""What people enrolled to prove that they are people: as values, in the store, and in the user's own folder.

The copy in the folder is for stores that know nothing of it yet. So a passphrase is enrolled once for all
projects, and a new store does not begin with the weakest proof.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.seals import LIST_ID, list_broken, save_seal, seal_list
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.environment import choose_user_file
from deepwork.kernel.errors import Code, NotAllowed, StorageError
from deepwork.kernel.files.lock import hold_file_lock
from deepwork.kernel.files.private import make_private_folder, read_private_file, write_atomically
from deepwork.kernel.user_settings import CredentialKind

FREE_TRIES = 5
"""How many wrong passphrases in a row are answered at once."""
FIRST_WAIT_MS = 60_000
LONGEST_WAIT_MS = 24 * 3600 * 1000


@dataclass(frozen=True)
class Credential:
    """One enrolled passphrase or passkey. Times are Unix milliseconds."""

    id: str
    method: CredentialKind
    name: str
    data: Mapping[str, Any] = field(repr=False)
    """Salt and hash of a passphrase, or the public key of a passkey."""
    created_at: int
    removed_at: int | None = None
    failed_tries: int = 0
    """Tries since the last right one; a try counts before it is judged."""
    locked_until: int | None = None
    sign_count: int = 0

    def is_locked(self, now: int) -> bool:
        return self.locked_until is not None and now < self.locked_until


def compute_lock(tries: int, now: int) -> int | None:
    """Compute until when nobody can try again after this many tries; each further one doubles the wait."""
    if tries < FREE_TRIES:
        return None
    doublings = min(tries - FREE_TRIES, 30)
    return now + min(FIRST_WAIT_MS << doublings, LONGEST_WAIT_MS)


def find_strongest(credentials: Iterable[Credential]) -> CredentialKind:
    """Return the strongest proof that is enrolled."""
    return max(
        (each.method for each in credentials), key=lambda each: each.rank, default=CredentialKind.TOKEN
    )


def choose_required(wanted: CredentialKind, credentials: Iterable[Credential]) -> CredentialKind:
    """Return the proof that a decision needs: what the user's settings say, and never less than is enrolled.

    So somebody who can change the settings, but does not have the proof, cannot lower it.
    """
    return max(wanted, find_strongest(credentials), key=lambda each: each.rank)


def build_challenge(*parts: str) -> str:
    """Build what a proof is about: the digest of an act, the id of its subject and the digest of its content.

    The challenge of a passkey is this digest, so that its answer is good for this act alone.
    """
    return sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()


_FILE_VERSION = 1
_FILE_FIELDS = ("id", "name", "data", "created_at")


class CredentialFile:
    """The credentials of this user; readers never see half a change, writers wait for each other."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._path = choose_user_file("credentials.json", environment)

    def load(self) -> list[Credential]:
        """Load all credentials; raises StorageError if the file cannot be relied on."""
        content = read_private_file(self._path)
        if content is None:
            return []
        try:
            return [_read_credential(each) for each in json.loads(content)["credentials"]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise StorageError(
                f"{self._path} is damaged, so nobody can prove to be a person with it.",
                suggestion="Restore it from a backup; or remove it, then enroll your proof in each project.",
            ) from None

    def change(self, *, add: Iterable[Credential] = (), remove: Iterable[str] = ()) -> None:
        """Add and remove credentials, by their ids."""
        added, gone = list(add), set(remove)
        gone |= {each.id for each in added}
        make_private_folder(self._path.parent)
        with hold_file_lock(self._path.with_name("credentials.lock")):
            kept = [each for each in self.load() if each.id not in gone]
            rows = [_serialize_credential(each) for each in (*kept, *added)]
            data = {"version": _FILE_VERSION, "credentials": rows}
            write_atomically(self._path, json.dumps(data, indent=2).encode() + b"\n")


def _serialize_credential(credential: Credential) -> dict[str, Any]:
    values = {name: getattr(credential, name) for name in _FILE_FIELDS}
    return {**values, "method": credential.method.value}


def _read_credential(data: Any) -> Credential:
    if not isinstance(data["data"], dict):
        raise TypeError
    return Credential(
        str(data["id"]),
        CredentialKind(data["method"]),
        str(data["name"]),
        data["data"],
        int(data["created_at"]),
    )


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
        """Return all credentials as the store has them, even forged ones."""
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
