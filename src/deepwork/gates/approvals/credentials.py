"""Credentials of people: passphrases and passkeys.

The copy of a passphrase in the user's folder is for stores that know nothing of it yet. So it is enrolled
once for all projects, and a new store does not begin with the weakest proof.
"""

from __future__ import annotations

import hmac
import json
import os
import unicodedata
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field, replace
from hashlib import scrypt, sha256
from typing import Any
from urllib.parse import urlsplit

from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.seals import LIST_ID, list_broken, save_seal, seal_list
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.environment import choose_user_file
from deepwork.kernel.errors import Code, InvalidInput, NotAllowed, StorageError
from deepwork.kernel.files.lock import hold_file_lock
from deepwork.kernel.files.private import make_private_folder, read_private_file, write_atomically
from deepwork.kernel.records import dataclass
from deepwork.kernel.user_settings import CredentialKind

MIN_LENGTH = 12
MAX_LENGTH = 1024
_SALT_BYTES = 16
_HASH_BYTES = 32


@dataclass(frozen=True)
class HashCost:
    """What one guess costs: 32 MiB, three times."""

    n: int = 2**15
    r: int = 8
    p: int = 3


USUAL_COST = HashCost()


def hash_passphrase(passphrase: str, cost: HashCost = USUAL_COST) -> dict[str, Any]:
    """Hash a passphrase with a salt of its own; raises InvalidInput if it is too easy to guess."""
    if not MIN_LENGTH <= len(passphrase.strip()) <= MAX_LENGTH or len(set(passphrase)) < MIN_LENGTH // 2:
        raise InvalidInput(
            f"A passphrase has at least {MIN_LENGTH} characters, of which {MIN_LENGTH // 2} differ.",
            suggestion="Choose some words at random; others must not be able to guess them.",
        )
    salt = os.urandom(_SALT_BYTES)
    found = _derive(passphrase, salt, cost)
    return {**asdict(cost), "salt": b64encode(salt).decode(), "hash": b64encode(found).decode()}


def require_verifier(data: Mapping[str, Any]) -> None:
    """Raise InvalidInput unless these are the salt and the hash of a passphrase."""
    try:
        HashCost(int(data["n"]), int(data["r"]), int(data["p"]))
        is_valid = len(b64decode(data["salt"])) == _SALT_BYTES and len(b64decode(data["hash"])) == _HASH_BYTES
    except (KeyError, TypeError, ValueError):
        is_valid = False
    if not is_valid or len(data) != 5:
        raise InvalidInput("`verifier` is not the hash of a passphrase.")


def matches_passphrase(passphrase: str, data: Mapping[str, Any]) -> bool:
    """Compare a passphrase with its stored hash, in constant time."""
    if not passphrase or len(passphrase) > MAX_LENGTH:
        return False
    cost = HashCost(int(data["n"]), int(data["r"]), int(data["p"]))
    found = _derive(passphrase, b64decode(data["salt"]), cost)
    return hmac.compare_digest(found, b64decode(data["hash"]))


def _derive(passphrase: str, salt: bytes, cost: HashCost) -> bytes:
    # Keyboards of two systems may send the same letters in different forms.
    text = unicodedata.normalize("NFKC", passphrase.strip()).encode()
    memory = 128 * cost.r * (cost.n + cost.p + 2)
    return scrypt(text, salt=salt, n=cost.n, r=cost.r, p=cost.p, maxmem=memory, dklen=_HASH_BYTES)


_MISSING = (
    "Passkeys need the package `webauthn`, which is not installed.",
    "Install it with: pip install 'deepwork[passkey]'",
)


def encode_bytes(content: bytes) -> str:
    """Encode bytes as browsers do for passkeys."""
    return urlsafe_b64encode(content).decode().rstrip("=")


def decode_text(text: str) -> bytes:
    """Decode what `encode_bytes` encoded."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def get_relying_party(origin: str) -> str:
    """Return the name of the site that a passkey belongs to: the host of the page, without its port."""
    return urlsplit(origin).hostname or ""


def verify_registration(answer: Mapping[str, Any], challenge: bytes, origin: str) -> dict[str, Any]:
    """Verify a new passkey and return what to store of it; raises NotAllowed for one that is not valid."""
    try:
        from webauthn import verify_registration_response  # noqa: PLC0415 - takes long to import
        from webauthn.helpers.exceptions import WebAuthnException  # noqa: PLC0415
    except ImportError:
        raise NotAllowed(_MISSING[0], suggestion=_MISSING[1]) from None
    try:
        found = verify_registration_response(
            credential=dict(answer),
            expected_challenge=challenge,
            expected_rp_id=get_relying_party(origin),
            expected_origin=origin,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, KeyError, TypeError) as error:
        raise _build_refusal(error) from error
    return {
        "credential_id": encode_bytes(found.credential_id),
        "public_key": encode_bytes(found.credential_public_key),
        "relying_party": get_relying_party(origin),
        "sign_count": found.sign_count,
    }


def read_credential_id(answer: Mapping[str, Any]) -> str:
    """Return the id of the passkey that answered."""
    id = answer.get("id")
    if not isinstance(id, str):
        raise InvalidInput("The answer of the passkey has no `id`.")
    return id


def verify_assertion(
    answer: Mapping[str, Any], data: Mapping[str, Any], challenge: str, origin: str, sign_count: int
) -> int:
    """Verify that a person unlocked this passkey for this challenge; returns its new counter."""
    try:
        from webauthn import verify_authentication_response  # noqa: PLC0415 - takes long to import
        from webauthn.helpers.exceptions import WebAuthnException  # noqa: PLC0415
    except ImportError:
        raise NotAllowed(_MISSING[0], suggestion=_MISSING[1]) from None
    try:
        found = verify_authentication_response(
            credential=dict(answer),
            expected_challenge=bytes.fromhex(challenge),
            expected_rp_id=str(data["relying_party"]),
            expected_origin=origin,
            credential_public_key=decode_text(str(data["public_key"])),
            credential_current_sign_count=sign_count,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, KeyError, TypeError) as error:
        raise _build_refusal(error) from error
    return found.new_sign_count


def _build_refusal(error: Exception) -> NotAllowed:
    return NotAllowed(
        f"The answer of the passkey is not valid here: {str(error)[:200]}",
        code=Code.UNAUTHORIZED,
        suggestion="Reload the page and use the passkey again.",
    )


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
