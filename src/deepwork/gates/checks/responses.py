"""What commands and the REST interface say about proofs."""

from __future__ import annotations

from typing import Self

from deepwork.gates.checks.models import Proof
from deepwork.kernel.answers import Answer
from deepwork.kernel.timestamps import format_timestamp


class CheckLine(Answer):
    """A required check, and the proof with which the work counts as done, if there is one."""

    name: str
    verdict: str | None = None
    at: str | None = None
    tests_run: int | None = None
    tests_skipped: int | None = None
    duration_ms: int | None = None
    proof_id: str | None = None
    output_file: str | None = None
    waived_by: str | None = None
    waive_reason: str | None = None

    @classmethod
    def of_proof(cls, proof: Proof) -> Self:
        """Build the line of a check that has a proof."""
        return cls.of(
            proof,
            name=proof.check_name,
            verdict=proof.shown_verdict.value,
            at=format_timestamp(proof.waived_at or proof.created_at),
            proof_id=proof.id,
        )


class ProofSummary(Answer):
    """A proof, as a row of a list."""

    id: str
    check: str
    verdict: str
    tests_run: int | None
    tests_skipped: int | None
    exit_code: int | None
    duration_ms: int
    host: str
    tree: str
    head: str | None
    inputs_digest: str
    definition_digest: str
    output_digest: str | None
    created_at: str
    waived_by: str | None
    waive_reason: str | None

    @classmethod
    def from_proof(cls, proof: Proof) -> Self:
        return cls(
            id=proof.id,
            check=proof.check_name,
            verdict=proof.shown_verdict.value,
            tests_run=proof.tests_run,
            tests_skipped=proof.tests_skipped,
            exit_code=proof.exit_code,
            duration_ms=proof.duration_ms,
            host=proof.host,
            tree=proof.tree,
            head=proof.head,
            inputs_digest=proof.inputs_digest,
            definition_digest=proof.definition_digest,
            output_digest=proof.output_digest,
            created_at=format_timestamp(proof.created_at),
            waived_by=proof.waived_by,
            waive_reason=proof.waive_reason,
        )
