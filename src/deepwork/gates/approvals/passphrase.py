"""Hashes passphrases with scrypt, which makes each guess slow."""

from __future__ import annotations

import hmac
import os
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import scrypt
from typing import Any

from deepwork.kernel.errors import InvalidInput

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
