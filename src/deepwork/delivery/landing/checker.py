"""Checks merged results in clean trees, and asks a person to approve them where that is required."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.delivery.landing.batches import LandingItem, LandingPlace, MergedItem
from deepwork.delivery.landing.models import BranchLease, Landing
from deepwork.delivery.landing.recorder import BranchLeases
from deepwork.gates.approvals.models import Approval, ApprovalKind, ApprovalRequest, ApprovalStatus, may_pass
from deepwork.gates.approvals.service import find_or_ask, use
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.checks.models import LANDING, CommitProofRequest, Proof, ProofSubject
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import Code, DeepworkError, GateClosed
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.merge_commits import list_subjects
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from deepwork.gates.checks.service import CheckService

_MAX_COMMITS = 200
_MAX_FILES = 2000


@dataclass(frozen=True)
class ShownLanding:
    """What a person is shown: everything that decides what the branch will contain."""

    item: LandingItem
    details: dict[str, Any]

    def build_request(self) -> ApprovalRequest:
        """Build the request, whose digest covers all of it."""
        landing = self.item.landing
        shown = {
            "plan": self.item.workflow.name,
            "name": self.item.task.name,
            "outcome": self.item.task.outcome,
            **self.details,
        }
        return ApprovalRequest(ApprovalKind.LANDING, landing.id, landing.workflow_id, shown)


def read_shown_landing(
    git: Git,
    place: LandingPlace,
    merged: MergedItem,
    files: Sequence[tuple[str, str]],
    proofs: Sequence[Proof],
    guarded: Sequence[Mapping[str, Any]] = (),
) -> ShownLanding:
    """Read what a person has to see of a landing; `guarded` are changes of what decides about checks.

    The merge commit itself is not part of it, because its time is another one whenever it is made again; its
    tree and both its parents are.
    """
    landing = merged.item.landing
    base, source = merged.facts.parents
    details = {
        "target": landing.target,
        "branch": place.branch,
        "base": place.tip,
        "onto": base if base != place.tip else None,
        "source": source,
        "tree": merged.facts.tree,
        "commits": [
            {"commit": commit, "subject": subject}
            for commit, subject in list_subjects(git, base, source, _MAX_COMMITS)
        ],
        "files": [{"path": path, "change": letter} for path, letter in files[:_MAX_FILES]],
        "files_total": len(files),
        "proofs": [
            {
                "check": proof.check_name,
                "verdict": proof.shown_verdict.value,
                "definition": proof.definition_digest,
            }
            for proof in proofs
        ],
    }
    return ShownLanding(merged.item, details | ({"guarded": list(guarded)} if guarded else {}))


def ask_for_landing(database: Database, shown: ShownLanding) -> Approval | None:
    """Return the approval that the landing waits for, or that was refused; None if it may pass."""
    with database.transaction() as tx:
        request = shown.build_request()
        approval = find_or_ask(tx, request, shown.item.landing.agent_id)
        return None if may_pass(approval, request.digest, tx.now) else approval


def use_landing_approval(tx: Transaction, shown: ShownLanding) -> None:
    """Use the approval in the transaction that lets the branch move; raises GateClosed if it is another."""
    use(tx, shown.build_request())


def has_pending_approval(tx: Transaction, landing: Landing) -> bool:
    """Return whether a person has not decided about this landing yet."""
    known = ApprovalStore(tx).list_of_subject(ApprovalKind.LANDING, landing.id)
    return any(each.status is ApprovalStatus.PENDING for each in known)


@dataclass(frozen=True)
class Green:
    """Every check passed."""

    proofs: tuple[Proof, ...] = ()


@dataclass(frozen=True)
class Red:
    """A check failed; what it said."""

    failure: str


@dataclass(frozen=True)
class Unchecked:
    """The checks cannot run before a person has done something."""

    reason: str


class MergeChecker:
    """Proves the checks of landings."""

    def __init__(self, get_checks: Callable[[Path], CheckService], leases: BranchLeases) -> None:
        self._get_checks, self._leases = get_checks, leases

    def check(
        self, lease: BranchLease, project: Path, landing_id: str, commit: str, base: str, names: Sequence[str]
    ) -> Green | Red | Unchecked:
        """Check a commit with the definitions at the base; the lease is renewed while the checks run."""
        if not names:
            return Green()
        request = CommitProofRequest(ProofSubject(LANDING, landing_id), commit, base, tuple(names))
        try:
            return Green(self._prove(lease, self._get_checks(project), request))
        except GateClosed as closed:
            if closed.code is Code.CHECKS_RUNNING:  # the caller does not wait any longer
                raise
            if closed.code is Code.CHECKS_FAILED:
                return Red(_describe_failure(closed))
            return Unchecked(f"{closed.message} {closed.suggestion or ''}".strip())
        except DeepworkError as error:  # such as a check that the target does not define
            if error.code is not Code.INVALID_INPUT:
                raise
            return Unchecked(f"{error.message} {error.suggestion or ''}".strip())

    def _prove(
        self, lease: BranchLease, checks: CheckService, request: CommitProofRequest
    ) -> tuple[Proof, ...]:
        while True:
            self._leases.renew(lease)
            try:
                return checks.prove_commit(replace(request, wait_seconds=self._leases.renewal_seconds))
            except GateClosed as closed:
                if closed.code is not Code.CHECKS_RUNNING or not current_call().is_wanted():
                    raise

    def list_guarded(
        self, project: Path, base: str, workflow_id: str | None, commit: str
    ) -> list[dict[str, Any]] | Unchecked:
        """List the changes of guarded files of the target that no person approved for work of this plan."""
        try:
            guarded = self._get_checks(project).describe_guarded(base, commit)
        except DeepworkError as error:  # such as a file that cannot be read: nobody knows what it guards
            return Unchecked(f"{error.message} {error.suggestion or ''}".strip())
        if not guarded or workflow_id is None:
            return guarded
        with self._leases.database.reading() as tx:
            store = ApprovalStore(tx)
            shown = [each.shown["paths"] for each in store.list_used(ApprovalKind.GUARDED, workflow_id)]
            landed = store.list_used(ApprovalKind.LANDING, workflow_id)
        shown += [each.shown.get("guarded", ()) for each in landed]
        known = {(each["path"], each["after"]) for some in shown for each in some}
        return [each for each in guarded if (each["path"], each["after"]) not in known]

    def list_changed_files(self, project: Path, before: str, after: str) -> list[tuple[str, str]]:
        """List the files that differ between two commits, by their hashes and not by what git says."""
        return self._get_checks(project).list_changed_files(before, after)

    def require_contents(self, project: Path, before: str, after: str) -> None:
        """Raise GitError unless what a landing brings has the content that its hashes say."""
        self._get_checks(project).require_contents(before, after)

    def record_uses(
        self, tx: Transaction, project: Path, landing_ids: Sequence[str], proofs: Sequence[Proof]
    ) -> None:
        """Record with which proofs the landings passed."""
        if proofs:
            checks = self._get_checks(project)
            for id in landing_ids:
                checks.record_uses(tx, ProofSubject(LANDING, id), proofs)


def _describe_failure(closed: GateClosed) -> str:
    outputs = [str(check.get("output") or "") for check in closed.evidence.get("checks", [])]
    return "\n".join([closed.message, *(output for output in outputs if output)])
