"""What a person may do and an agent may not, because it lets work pass a gate: it takes a proof.

Such code calls `require_proven`, or puts the rule that refuses agents into a block of `allow_person`.
The first time that raises `NotProven`: once the transaction is undone, `edge/server/invocation.py` checks the
proof and makes the call again. So nobody is asked for a proof of any other act.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any

from deepwork.kernel.call import NotProven, current_call, is_person
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:  # imported by the first person who lets work pass a gate: most processes have none
    from deepwork.gates.approvals.person_proof import CheckedProof
    from deepwork.kernel.user_settings import CredentialKind


@dataclass(frozen=True)
class ProvenAct:
    """A proof that was right, and what the person decided about."""

    checked: CheckedProof
    about: Mapping[str, Any] = field(default_factory=dict)


def require_proven(tx: Transaction, **about: Any) -> CredentialKind:
    """Return how the caller, who lets work pass a gate, proved to be a person.

    `about` is what they decide about, beside the arguments of the call; it must be the same when the proof
    is checked and when the work passes.
    """
    from deepwork.gates.approvals.person_proof import require_person_proof  # noqa: PLC0415

    require_asked(tx.caller, **about)
    proven: ProvenAct = current_call().proven
    return require_person_proof(tx, proven.checked.challenge, proven.checked)


def require_asked(caller: str, **about: Any) -> None:
    """Raise unless the caller is a person who proved it; where no transaction is open."""
    from deepwork.gates.approvals.person_proof import require_caller  # noqa: PLC0415

    require_caller(caller)
    proven: ProvenAct | None = current_call().proven
    if proven is None:
        raise NotProven(about)
    if about and about != proven.about:
        raise NotAllowed(
            "What you decided about changed meanwhile; nothing was done.",
            suggestion="Look at it again, then decide again.",
        )


@contextmanager
def allow_person(tx: Transaction) -> Iterator[None]:
    """Let a person do what a rule in the block refuses to agents, with their proof."""
    try:
        yield
    except NotAllowed:
        if not is_person(tx.caller):
            raise
        require_proven(tx)
