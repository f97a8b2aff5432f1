"""Changes to what decides whether checks pass: only a person lets them count."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.checks.evidence import build_entry
from deepwork.checks.models import GuardedChange, Proof, Verdict
from deepwork.checks.rules import name_paths
from deepwork.database.transaction import Database, Transaction
from deepwork.errors import Code, GateClosed


def ask_approval(database: Database, change: GuardedChange, proofs: Sequence[Proof]) -> None:  # noqa: ARG001
    """Raise GateClosed unless a person approved exactly these changes."""
    paths = name_paths([each["path"] for each in change.shown["paths"]])
    raise GateClosed(
        f"The work changed what decides whether it passes: {paths}.",
        code=Code.CHECKS_GUARDED,
        suggestion="A person has to approve that; undo these changes if they are not needed.",
        evidence={"checks": [build_entry(proof.check_name, Verdict.GUARDED, paths) for proof in proofs]},
    )


def use_approval(tx: Transaction, change: GuardedChange) -> None:
    """Use the approval, which another transaction may have used or withdrawn meanwhile."""
