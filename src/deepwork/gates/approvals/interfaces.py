"""What approvals need from the packages whose work waits for them, which approvals must not import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from deepwork.gates.approvals.models import Approval
from deepwork.kernel.call import ActionOutcome
from deepwork.kernel.database.transaction import Transaction


@dataclass(frozen=True)
class DecisionEffect(ActionOutcome):
    """What a decision led to after its commit, in one sentence."""

    text: str
    is_carried_out: bool = True
    """False if what was approved could not be done, such as when the work is not what the person saw."""


class DecisionHandler(Protocol):
    """Carries out what decisions about one kind of subject lead to."""

    def lock(self, tx: Transaction, approval: Approval) -> None:
        """Lock what gates lock before they look at approvals, so that no two calls wait for each other."""

    def apply(self, tx: Transaction, approval: Approval) -> str | None:
        """Carry out the decision in its transaction, notify agents, and say what it led to."""

    def follow(self, approval: Approval) -> DecisionEffect | None:
        """Carry out, after the commit, what takes long, such as completing a task; say what it led to."""
