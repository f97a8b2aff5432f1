"""Changes to what decides whether checks pass: only a person lets them count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deepwork.approvals.models import ApprovalKind, ApprovalRequest, ApprovalStatus
from deepwork.approvals.rules import summarize
from deepwork.approvals.service import ask, use
from deepwork.approvals.store import ApprovalStore
from deepwork.checks.evidence import build_entry
from deepwork.checks.models import GuardedChange, Proof, ProofRequest, Verdict
from deepwork.checks.rules import name_paths
from deepwork.database.transaction import Database, Transaction
from deepwork.errors import Code, GateClosed


def describe_changes(
    proofs: Iterable[Proof], paths: Iterable[str], before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, Any]:
    """Return what a person is shown: the checks, and the guarded files with their versions."""
    return {
        "checks": {proof.check_name: proof.definition_digest for proof in proofs},
        "paths": [{"path": path, "before": before.get(path), "after": after.get(path)} for path in paths],
    }


def remove_approved(
    database: Database, request: ProofRequest, paths: Iterable[str], after: Mapping[str, str]
) -> list[str]:
    """Return the paths without those that have exactly what a person approved for work of this workflow."""
    if request.workflow_id is None:
        return list(paths)
    with database.reading() as tx:
        approvals = ApprovalStore(tx).list_used(ApprovalKind.GUARDED, request.workflow_id)
    approved = {
        (each["path"], each["after"])
        for approval in approvals
        if approval.subject_id != request.subject.id
        for each in approval.shown["paths"]
    }
    return [path for path in paths if (path, after.get(path)) not in approved]


def require_approval(database: Database, change: GuardedChange, proofs: Sequence[Proof]) -> None:
    """Ask a person about these changes; raise GateClosed unless they were approved."""
    approval = ask(database, _build_request(change))
    if approval.status is ApprovalStatus.GIVEN:
        return
    paths = name_paths([each["path"] for each in change.shown["paths"]])
    refusal = ""
    suggestion = "Undo these changes, or continue with other work until a person approves them."
    if approval.status is ApprovalStatus.REFUSED:
        refusal, suggestion = " A person refused that.", "Undo these changes, then call again."
    raise GateClosed(
        f"The work changed what decides whether it passes: {paths}.{refusal}",
        code=Code.CHECKS_GUARDED,
        suggestion=suggestion,
        evidence={
            "checks": [build_entry(proof.check_name, Verdict.GUARDED, "") for proof in proofs],
            "approval": summarize(approval),
        },
    )


def use_approval(tx: Transaction, change: GuardedChange) -> None:
    """Use the approval up, in the transaction that passes the gate; raises if a person withdrew it."""
    use(tx, _build_request(change))


def _build_request(change: GuardedChange) -> ApprovalRequest:
    return ApprovalRequest(ApprovalKind.GUARDED, change.subject_id, change.workflow_id, change.shown)
