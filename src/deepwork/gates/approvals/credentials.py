"""What a person enrolled as a proof, and the rules about it, as pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from json import dumps
from typing import Any

from deepwork.kernel.trust.models import CredentialKind

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
    return sha256(dumps(parts, separators=(",", ":")).encode()).hexdigest()
