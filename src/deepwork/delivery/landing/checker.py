"""Checks merged results: in a clean tree of the merge commit, with the definitions of the target branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.delivery.landing.leases import BranchLeases
from deepwork.delivery.landing.models import BranchLease
from deepwork.gates.approvals.models import ApprovalKind
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.checks.models import LANDING, CommitProofRequest, Proof, ProofSubject
from deepwork.kernel.call import current_call
from deepwork.kernel.errors import Code, DeepworkError, GateClosed

if TYPE_CHECKING:
    from deepwork.gates.checks.service import CheckService
    from deepwork.kernel.database.transaction import Transaction


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
