"""A person approves a landing: exactly this merged tree, on exactly this state of the branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepwork.delivery.landing.items import LandingItem
from deepwork.delivery.landing.merging import MergedItem
from deepwork.delivery.landing.models import Landing
from deepwork.delivery.landing.places import LandingPlace
from deepwork.gates.approvals.models import Approval, ApprovalKind, ApprovalRequest, ApprovalStatus
from deepwork.gates.approvals.rules import may_pass
from deepwork.gates.approvals.service import find_or_ask, use
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.checks.models import Proof
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.merge_commits import list_subjects

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
