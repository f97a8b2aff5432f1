"""Changes to what decides whether checks pass: only a person lets them count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deepwork.approvals.models import Approval, ApprovalKind, ApprovalRequest, ApprovalStatus
from deepwork.approvals.rules import diff_texts, summarize
from deepwork.approvals.service import ask, use
from deepwork.approvals.store import ApprovalStore
from deepwork.checks.evidence import build_entry
from deepwork.checks.models import GuardedChange, Proof, ProofRequest, Subject, Verdict
from deepwork.checks.rules import name_paths
from deepwork.checks.store import ProofStore
from deepwork.database.transaction import Database, Transaction
from deepwork.errors import Code, GateClosed, GitError
from deepwork.git.snapshot import SnapshotStore
from deepwork.git.snapshot_types import Snapshot
from deepwork.names import new_id

_MAX_BLOB_BYTES = 64 * 1024
_MAX_DIFF_LENGTH = 16_000
_MAX_DIFFS = 20
"""What is shown is stored, and computed again at every gate."""
_NO_TEXT = "(Not shown: it is not a short text, or cannot be read.)"
_TOO_MANY = "(Not shown: too many files changed.)"
_SAME_LINES = "(No line differs, except perhaps in how it ends.)"
_CUT = "(The rest is not shown.)"


def describe_changes(
    proofs: Iterable[Proof], before: Mapping[str, str], after: Mapping[str, str], diffs: Mapping[str, str]
) -> dict[str, Any]:
    """Return what a person is shown: the checks, and the guarded files with their versions and diffs."""
    return {
        "checks": {proof.check_name: proof.definition_digest for proof in proofs},
        "paths": [
            {"path": path, "before": before.get(path), "after": after.get(path), "diff": diff}
            for path, diff in diffs.items()
        ],
    }


def read_diffs(
    store: SnapshotStore, paths: Sequence[str], before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, str]:
    """Read the changes of these files, bounded; the same files always give the same text."""
    diffs = {
        path: _read_diff(store, before.get(path), after.get(path)) for path in sorted(paths)[:_MAX_DIFFS]
    }
    return {path: diffs.get(path, _TOO_MANY) for path in paths}


def _read_diff(store: SnapshotStore, before: str | None, after: str | None) -> str:
    old, new = _read_text(store, before), _read_text(store, after)
    if old is None or new is None:
        return _NO_TEXT
    diff = "\n".join(diff_texts(old, new)) or _SAME_LINES
    return diff if len(diff) <= _MAX_DIFF_LENGTH else f"{diff[:_MAX_DIFF_LENGTH]}\n{_CUT}"


def _read_text(store: SnapshotStore, version: str | None) -> str | None:
    """Read a version of a file; None if it is too long, or no text that git stores."""
    if version is None:
        return ""
    mode, _, blob = version.partition(" ")
    if mode not in ("100644", "100755", "120000"):
        return None
    try:
        content = store.read_blob(blob, _MAX_BLOB_BYTES)
        return None if content is None else content.decode()
    except (GitError, UnicodeDecodeError):
        return None


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


def find_approval(database: Database, change: GuardedChange) -> Approval | None:
    """Ask a person about these changes; return what waits or refuses, None if they were approved."""
    approval = ask(database, _build_request(change))
    return None if approval.status is ApprovalStatus.GIVEN else approval


def build_guarded_error(approval: Approval, change: GuardedChange, proofs: Sequence[Proof]) -> GateClosed:
    """Build the error for changes that no person approved."""
    paths = name_paths([each["path"] for each in change.shown["paths"]])
    refusal = ""
    suggestion = (
        "Undo these changes, or continue with other work until a person approves them with "
        f"`deepwork approvals approve {approval.id}`."
    )
    if approval.status is ApprovalStatus.REFUSED:
        refusal, suggestion = " A person refused that.", "Undo these changes, then call again."
    return GateClosed(
        f"The work changed what decides whether it passes: {paths}.{refusal}",
        code=Code.CHECKS_GUARDED,
        suggestion=suggestion,
        evidence={
            "checks": [build_entry(proof.check_name, Verdict.GUARDED, "") for proof in proofs],
            "approval": summarize(approval),
        },
    )


def add_guarded_proofs(
    database: Database, proofs: Iterable[Proof], state: Snapshot, subject: Subject
) -> None:
    """Store that these checks passed for files that a person has to look at first; once per tree."""
    with database.transaction() as tx:
        store = ProofStore(tx)
        for proof in proofs:
            known = store.list_of_inputs(proof.inputs_digest, proof.definition_digest)
            if not any(each.verdict is Verdict.GUARDED and each.tree == state.tree for each in known):
                store.add(
                    replace(
                        proof,
                        id=new_id("pf"),
                        verdict=Verdict.GUARDED,
                        tree=state.tree,
                        head=state.head,
                        created_at=tx.now,
                        waived_by=None,
                        waived_at=None,
                        waive_reason=None,
                        asked_by=str(subject),
                    )
                )


def use_approval(tx: Transaction, change: GuardedChange) -> None:
    """Use the approval up, in the transaction that passes the gate; raises if a person withdrew it."""
    use(tx, _build_request(change))


def _build_request(change: GuardedChange) -> ApprovalRequest:
    return ApprovalRequest(ApprovalKind.GUARDED, change.subject_id, change.workflow_id, change.shown)
