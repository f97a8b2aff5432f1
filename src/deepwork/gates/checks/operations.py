"""What people read and decide about proofs: compare and export them, let one count that did not pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar

from deepwork.gates.approvals.acts import require_proven
from deepwork.gates.checks.models import CheckEvent, CheckVerdict, Proof, ProofSubject
from deepwork.gates.checks.responses import (
    ProofComparison,
    ProofComparisons,
    ProofPage,
    ProofStatements,
    ProofSummary,
    ProofView,
    build_statement,
)
from deepwork.gates.checks.service import CheckService
from deepwork.gates.checks.store import ProofStore
from deepwork.kernel.answers import Field, Id, Text
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.paging import Cursor, PageLimit, cut_page, parse_position

_MOST_VERIFIED = 100
_SUBJECT_KINDS = ("task", "tracked_task", "step")


class ProofOperations:
    """What checks proved, and what people decide about that."""

    traits: ClassVar = Traits(toolset="checks", people_only=True)

    def __init__(self, database: Database, get_checks: Callable[[], CheckService]) -> None:
        self._database, self._get_checks = database, get_checks

    @operation("work", for_people=True)
    def waive_proof(self, proof_id: Id, reason: Text) -> ProofSummary:
        """Let exactly these inputs count as passed although the check did not pass."""
        with self._database.transaction() as tx:
            proof = _get_proof(tx, proof_id)
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
            waived = _get_proof(tx, proof_id)
            tx.emit(CheckEvent.WAIVED, {"proof_id": proof_id, "check": proof.check_name, "by": tx.caller})
            return ProofSummary.of_proof(waived)

    @operation("read")
    def list_proofs(
        self,
        check: Annotated[str | None, Field(description="Of this check")] = None,
        verdict: CheckVerdict | None = None,
        task_id: Annotated[str | None, Field(description="With which this task counted as done")] = None,
        limit: PageLimit = 50,
        cursor: Cursor = None,
    ) -> ProofPage:
        """What checks said about which files, newest first."""
        after = parse_position(cursor)
        with self._database.reading() as tx:
            found, total = ProofStore(tx).list_newest(limit + 1, check, verdict, task_id, after)
        page, next_cursor = cut_page(found, limit)
        return ProofPage(
            proofs=[ProofSummary.of_proof(each) for each in page], total=total, cursor=next_cursor
        )

    @operation("read")
    def get_proof(self, id: Id) -> ProofView:
        """A proof with the output of its check, and what counted as done with it."""
        with self._database.reading() as tx:
            proof = _get_proof(tx, id)
            uses = [str(each) for each in ProofStore(tx).list_uses(id)]
        output = self._get_checks().outputs.read(proof.output_file)
        text = None if output is None else output.decode(errors="replace")
        return ProofView.of_proof(proof, used_by=uses, output=text)

    @operation("read")
    def verify_proofs(
        self, ids: Annotated[list[Id] | None, Field(description="Default: the newest 100")] = None
    ) -> ProofComparisons:
        """Compare proofs with the files they are about, with their outputs and definitions."""
        with self._database.reading() as tx:
            found = (
                [_get_proof(tx, id) for id in ids] if ids else ProofStore(tx).list_newest(_MOST_VERIFIED)[0]
            )
        checks = self._get_checks()
        return ProofComparisons(
            proofs=[
                ProofComparison.of(checks.verify(each), id=each.id, check=each.check_name) for each in found
            ]
        )

    @operation("read")
    def export_proofs(self, ids: list[Id] | None = None, task_id: Id | None = None) -> ProofStatements:
        """Return proofs, and those with which a task counted as done, as in-toto statements."""
        with self._database.reading() as tx:
            found = [_get_proof(tx, id) for id in ids or ()]
            if task_id:
                used = [ProofStore(tx).list_used_by(ProofSubject(kind, task_id)) for kind in _SUBJECT_KINDS]
                found += [proof for proofs in used for proof in proofs]
        if not found:
            raise InvalidInput(
                "No proof is named.", suggestion="Name ids that `deepwork proofs list` shows, or --task."
            )
        return ProofStatements(statements=[build_statement(proof) for proof in found])


def _get_proof(tx: Transaction, id: str) -> Proof:
    """Return the proof; raises InvalidInput if there is none."""
    found = ProofStore(tx).find(id)
    if found is None:
        raise InvalidInput(f"There is no proof {id[:200]!r}.", suggestion="See `deepwork proofs list`.")
    return found
