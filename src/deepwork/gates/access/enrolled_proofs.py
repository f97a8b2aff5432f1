"""Compares the proofs that people enrolled with the audit log: both are changed by the same calls only."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from deepwork.gates.access.audit_chain import compute_digest
from deepwork.gates.access.models import ChainedEntry
from deepwork.gates.approvals.credentials import Credential
from deepwork.kernel.trust.models import CredentialKind


def find_proof_problem(
    entries: Iterable[ChainedEntry], credentials: Collection[Credential], elsewhere: Iterable[Credential] = ()
) -> str | None:
    """Return what differs between the entries of calls that enrolled a proof and the stored proofs.

    `credentials` include removed ones; `elsewhere` are those that this user enrolled in other stores, which a
    new store takes over.
    """
    enrolled = {link.entry.digest: link.seq for link in entries}
    stored = {_compute_digest(each): each for each in credentials}
    known = {_compute_digest(each) for each in elsewhere}
    for digest, credential in stored.items():
        if credential.removed_at is None and digest not in enrolled and digest not in known:
            return f"no call in the log enrolled the {credential.method} {credential.id} of this store"
    for digest, seq in enrolled.items():
        if digest not in stored:
            return f"the proof that row {seq} enrolled was changed in the store or removed from it"
    return None


def _compute_digest(credential: Credential) -> str:
    """Compute the digest of the arguments of the call that enrolled it."""
    data: Any = dict(credential.data)
    if credential.method is CredentialKind.PASSKEY:
        return compute_digest({"name": credential.name, **data.get("enrolled_with", {})})
    return compute_digest({"verifier": data})
