"""What only people can do about proofs: let one count although its check did not pass.

Described like tools, so that calls are checked and recorded in the same way, but no server offers them to
agents: the command line calls them in a person's name.
"""

from __future__ import annotations

from typing import ClassVar

from deepwork.gates.approvals.acts import require_proven
from deepwork.gates.checks.models import CheckEvent, CheckVerdict, Proof
from deepwork.gates.checks.responses import ProofSummary
from deepwork.gates.checks.store import ProofStore
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.tool_types import Id, Text


class ProofActions:
    """Decisions of people about proofs."""

    traits: ClassVar = Traits(toolset="checks", people_only=True)

    def __init__(self, database: Database) -> None:
        self._database = database

    @operation("work", for_people=True)
    def waive_proof(self, proof_id: Id, reason: Text) -> ProofSummary:
        """Let exactly these inputs count as passed although the check did not pass."""
        with self._database.transaction() as tx:
            proof = get_proof(tx, proof_id)
            require_proven(
                tx, check=proof.check_name, inputs=proof.inputs_digest, definition=proof.definition_digest
            )
            if proof.verdict is CheckVerdict.GUARDED:
                raise NotAllowed(
                    f"Check {proof.check_name} passed; a person has to approve the guarded files.",
                    suggestion="Do that with `deepwork approvals`.",
                )
            if proof.is_proving:
                raise NotAllowed(
                    f"Proof {proof_id} counts as passed already.", suggestion="Nothing is left to do."
                )
            ProofStore(tx).waive(proof_id, tx.caller, reason)
            waived = get_proof(tx, proof_id)
            tx.emit(CheckEvent.WAIVED, {"proof_id": proof_id, "check": proof.check_name, "by": tx.caller})
            return ProofSummary.from_proof(waived)


def get_proof(tx: Transaction, id: str) -> Proof:
    """Return the proof; raises InvalidInput if there is none."""
    found = ProofStore(tx).find(id)
    if found is None:
        raise InvalidInput(f"There is no proof {id[:200]!r}.", suggestion="See `deepwork proofs list`.")
    return found
