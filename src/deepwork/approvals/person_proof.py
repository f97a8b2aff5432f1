"""What counts as a proof that a decision is a person's."""

from __future__ import annotations

from collections.abc import Mapping

from deepwork.call import is_person
from deepwork.database.transaction import Transaction
from deepwork.errors import Code, NotAllowed


def require_person_proof(tx: Transaction, digest: str, proof: Mapping[str, str] | None = None) -> str:  # noqa: ARG001
    """Return how the caller proves to be a person who decides about this digest; raise if they do not."""
    if not is_person(tx.caller):
        raise NotAllowed(
            "Only a person can decide this, and this caller is not one.",
            code=Code.UNAUTHORIZED,
            suggestion="A person decides with `deepwork approvals`, or on the dashboard.",
        )
    return "token"
