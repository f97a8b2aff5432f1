"""The key of a store, and the mark that binds a SQLite file to the key of its user; pure functions.

Every store has a key of its own, which digests its tokens and chains its audit log. PostgreSQL keeps it in a
row that only the database role can read. In a SQLite file, which may come from anywhere, it is sealed with
the user's key, and the mark proves that the same user wrote the row. So a file that came with a repository
has no valid mark and no valid token, and tokens stay valid in a backup that its own user restores.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from hashlib import sha256
else:
    # Every hook checks a mark, and `hashlib` loads OpenSSL, which takes longer than the rest of the check.
    try:
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256  # Python 3.11
        except ImportError:
            from hashlib import sha256

TABLE = "store_identity"
COLUMNS = ("id", "secret", "keyed_from", "mark")
SEALED_MARK = "sealed mark"
_FIRST_MARK = "mark"
"""The mark of stores that may have no seals yet: deepwork 0.2 made them."""
_BLOCK = 64
_KEY_BYTES = 32


@dataclass(frozen=True)
class StoreIdentity:
    """The row of a store that says which store it is, and whose."""

    id: str
    secret: str = field(repr=False)
    """The key of the store; in a SQLite file sealed with the user's key."""
    keyed_from: int
    mark: str
    """Proves that the user with the key wrote this row; empty on PostgreSQL."""


@dataclass(frozen=True)
class StoreKey:
    """The key of one store."""

    store_id: str
    key: bytes = field(repr=False)
    keyed_from: int = 1
    """The first entry of the audit log that is chained with the key: earlier ones are older than it."""

    def compute_digest(self, text: str) -> str:
        """Compute the keyed digest of a text."""
        inner, outer = self.pads
        return sha256(outer + sha256(inner + text.encode()).digest()).hexdigest()

    @cached_property
    def pads(self) -> tuple[bytes, bytes]:
        """The inner and outer blocks of HMAC, with which SQL can compute it too."""
        return _build_pads(self.key)


def derive_user_key(text: str) -> bytes:
    """Derive the user's key from the text of the key file, or of the variable in the environment."""
    return compute_hmac(b"deepwork user key", text.strip().encode())


def create_store_key(keyed_from: int = 1) -> StoreKey:
    """Create a random key, with a random id: an id never has two keys."""
    return StoreKey(os.urandom(16).hex(), os.urandom(_KEY_BYTES), keyed_from)


def seal_key(key: StoreKey, user_key: bytes) -> StoreIdentity:
    """Build the row of a SQLite store."""
    secret = _apply_pad(key.key, key.store_id, user_key).hex()
    return StoreIdentity(
        *(key.store_id, secret, key.keyed_from),
        _compute_mark(SEALED_MARK, key.store_id, secret, key.keyed_from, user_key),
    )


def unseal_key(identity: StoreIdentity, user_key: bytes) -> StoreKey | None:
    """Return the key of a SQLite store; None if the user with this key did not mark it."""
    if not any(_has_mark(identity, kind, user_key) for kind in (SEALED_MARK, _FIRST_MARK)):
        return None
    key = _apply_pad(bytes.fromhex(identity.secret), identity.id, user_key)
    return StoreKey(identity.id, key, identity.keyed_from)


def is_marked_sealed(identity: StoreIdentity, user_key: bytes) -> bool:
    """Return whether the store had seals when it was marked: then no migration may make them again."""
    return _has_mark(identity, SEALED_MARK, user_key)


def expose_key(key: StoreKey) -> StoreIdentity:
    """Build the row of a PostgreSQL store."""
    return StoreIdentity(key.store_id, key.key.hex(), key.keyed_from, "")


def read_exposed_key(identity: StoreIdentity) -> StoreKey:
    """Return the key of a PostgreSQL store."""
    return StoreKey(identity.id, bytes.fromhex(identity.secret), identity.keyed_from)


def parse_identity(row: Mapping[str, Any]) -> StoreIdentity:
    """Parse the row; its values may have any type, since anybody may have written the file."""
    return StoreIdentity(str(row["id"]), str(row["secret"]), int(row["keyed_from"]), str(row["mark"]))


def compute_hmac(key: bytes, message: bytes) -> bytes:
    """Compute HMAC-SHA256."""
    inner, outer = _build_pads(key)
    return sha256(outer + sha256(inner + message).digest()).digest()


def hmac_hex(key: bytes, text: str) -> str:
    """Compute HMAC-SHA256 of a text, in hexadecimal; SQLite calls it as a function."""
    return compute_hmac(key, text.encode()).hex()


@lru_cache(maxsize=8)
def _build_pads(key: bytes) -> tuple[bytes, bytes]:
    block = (sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
    return bytes(byte ^ 0x36 for byte in block), bytes(byte ^ 0x5C for byte in block)


def _has_mark(identity: StoreIdentity, kind: str, user_key: bytes) -> bool:
    expected = _compute_mark(kind, identity.id, identity.secret, identity.keyed_from, user_key)
    return _equals_securely(expected, identity.mark)


def _compute_mark(kind: str, id: str, secret: str, keyed_from: int, user_key: bytes) -> str:
    return hmac_hex(user_key, f"{kind}:{id}:{secret}:{keyed_from}")


def _apply_pad(key: bytes, id: str, user_key: bytes) -> bytes:
    """Seal or unseal a key: a pad is used for one key only, because every key has an id of its own."""
    pad = compute_hmac(user_key, f"seal:{id}".encode())
    return bytes(one ^ other for one, other in zip(key, pad, strict=True))


def _equals_securely(one: str, other: str) -> bool:
    """Compare digests under a random key, so that the time says nothing about the texts."""
    key = os.urandom(_KEY_BYTES)
    return compute_hmac(key, one.encode()) == compute_hmac(key, other.encode())
