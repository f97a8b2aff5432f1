"""Links the commits of landings with the work that landed."""

from __future__ import annotations

from deepwork.delivery.landing.models import LandedCommit, LandingKind
from deepwork.delivery.provenance.recorder import Maker, PreparedLinks, build_landing_link
from deepwork.kernel.database.transaction import Transaction


def link_landed_commit(tx: Transaction, landed: LandedCommit) -> None:
    """Store which task a merge commit brought to a branch, in the transaction that ends its landing."""
    landing = landed.landing
    if landing.task_id is not None:
        # A revert of the task's work is known by its hash alone: others may undo the same work.
        before = landed.before if landing.kind is LandingKind.TASK else ""
        maker = Maker(landing.task_id, landing.workflow_id, landing.attempt_id, landing.agent_id)
        PreparedLinks((build_landing_link(maker, landed.commit, (before, landed.tree)),)).store(tx)
