"""Changes to what decides whether checks pass: only a person lets them count."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from deepwork.gates.approvals.models import (
    Approval,
    ApprovalKind,
    ApprovalRequest,
    ApprovalStatus,
    diff_texts,
    summarize,
)
from deepwork.gates.approvals.service import ask, use
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.checks.models import (
    CheckVerdict,
    GuardedChange,
    GuardedStart,
    Proof,
    ProofRequest,
    name_paths,
)
from deepwork.gates.checks.responses import build_entry
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import Code, GateClosed, GitError
from deepwork.kernel.git.snapshot import SnapshotStore

_MAX_BLOB_BYTES = 64 * 1024
_MAX_DIFF_LENGTH = 16_000
_MAX_DIFFS = 20
"""What is shown is stored, and computed again at every gate."""
_NO_TEXT = "(Not shown: it is not a short text, or cannot be read.)"
_TOO_MANY = "(Not shown: too many files changed.)"
_SAME_LINES = "(No line differs, except perhaps in how it ends.)"
_CUT = "(The rest is not shown.)"


class Difference(NamedTuple):
    """A guarded file that is not as it was; None: there was no such file, or is none."""

    path: str
    before: str | None
    after: str | None


class FindAuthors(Protocol):
    """Tells which of these files of a tree were changed by a task, and by which."""

    def __call__(self, tree: Path, paths: Sequence[str], /) -> Mapping[str, str]: ...


class GuardedStarts:
    """Which guarded files differed from the base before the work of a workflow began."""

    def __init__(self, database: Database, host: str) -> None:
        self._database, self._host = database, host

    def find(self, workflow_id: str, tree: Path) -> dict[str, str | None]:
        """Return the versions of these files in a tree; nothing if nothing was recorded for it."""
        sql = """
            SELECT files FROM guarded_starts
             WHERE workflow_id = :id AND host = :host AND tree_path = :tree
        """
        with self._database.reading() as tx:
            row = tx.fetch_one(sql, id=workflow_id, host=self._host, tree=str(tree))
        return json.loads(row["files"]) if row else {}

    def list_approved(self, tree: Path) -> set[tuple[str, str | None]]:
        """List the paths and versions of guarded files that a person approved for any work in this tree.

        A store may have several projects: what was approved in one says nothing about another.
        """
        sql = "SELECT workflow_id FROM guarded_starts WHERE host = :host AND tree_path = :tree"
        with self._database.reading() as tx:
            here = {row["workflow_id"] for row in tx.fetch_all(sql, host=self._host, tree=str(tree))}
            used = ApprovalStore(tx).list_used(ApprovalKind.GUARDED)
        return _list_shown(each for each in used if each.workflow_id in here)


def add_guarded_start(tx: Transaction, workflow_id: str, start: GuardedStart) -> None:
    """Record what differed before the work began; only the first record of a workflow counts."""
    place = {"host": start.host, "tree_path": str(start.tree)}
    row = {"workflow_id": workflow_id, **place, "files": json.dumps(start.files), "created_at": tx.now}
    tx.insert_new("guarded_starts", row)


def describe_changes(
    proofs: Iterable[Proof], differences: Iterable[Difference], diffs: Mapping[str, str]
) -> dict[str, Any]:
    """Return what a person is shown: the checks, and the guarded files with their versions and diffs."""
    return {
        "checks": {proof.check_name: proof.definition_digest for proof in proofs},
        "paths": [{**each._asdict(), "diff": diffs[each.path]} for each in differences],
    }


def read_diffs(store: SnapshotStore, differences: Sequence[Difference]) -> dict[str, str]:
    """Read the changes of these files, bounded; the same files always give the same text."""
    some = sorted(differences, key=lambda each: each.path)[:_MAX_DIFFS]
    diffs = {each.path: _read_diff(store, each.before, each.after) for each in some}
    return {each.path: diffs.get(each.path, _TOO_MANY) for each in differences}


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
    database: Database, request: ProofRequest, differences: list[Difference]
) -> list[Difference]:
    """Return the differences without those that a person approved for other work of this workflow."""
    if request.workflow_id is None or not differences:
        return differences
    with database.reading() as tx:
        approvals = ApprovalStore(tx).list_used(ApprovalKind.GUARDED, request.workflow_id)
    others = [approval for approval in approvals if approval.subject_id != request.subject.id]
    approved = _list_shown(others)
    return [each for each in differences if (each.path, each.after) not in approved]


def list_ever_asked(database: Database) -> set[tuple[str, str | None]]:
    """List the paths and versions of guarded files that a person was asked about, whatever they answered."""
    with database.reading() as tx:
        return _list_shown(ApprovalStore(tx).list_of_kind(ApprovalKind.GUARDED))


def _list_shown(approvals: Iterable[Approval]) -> set[tuple[str, str | None]]:
    return {(each["path"], each["after"]) for approval in approvals for each in approval.shown["paths"]}


def find_approval(database: Database, change: GuardedChange) -> Approval | None:
    """Ask a person about these changes; return what waits or refuses, None if they were approved."""
    approval = ask(database, _build_request(change))
    return None if approval.status is ApprovalStatus.GIVEN else approval


def build_guarded_error(
    approval: Approval, change: GuardedChange, proofs: Sequence[Proof], authors: Mapping[str, str]
) -> GateClosed:
    """Build the error for changes that no person approved; names who made them if that is known."""
    paths = name_paths([each["path"] for each in change.shown["paths"]])
    if by := sorted(set(authors.values())):
        paths += f" (changed by {name_paths(by)})"
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
            "checks": [build_entry(proof.check_name, CheckVerdict.GUARDED, "") for proof in proofs],
            "approval": summarize(approval),
        },
    )


def use_approval(tx: Transaction, change: GuardedChange) -> None:
    """Use the approval up, in the transaction that passes the gate; raises if a person withdrew it."""
    use(tx, _build_request(change))


def _build_request(change: GuardedChange) -> ApprovalRequest:
    return ApprovalRequest(ApprovalKind.GUARDED, change.subject_id, change.workflow_id, change.shown)
