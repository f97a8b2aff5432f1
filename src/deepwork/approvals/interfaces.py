"""What approvals need from the packages whose work waits for them, which approvals must not import."""

from __future__ import annotations

from typing import Any, Protocol

from deepwork.approvals.models import Approval
from deepwork.database.transaction import Transaction


class DecisionHandler(Protocol):
    """Carries out what a decision leads to, for one kind of subject."""

    def prepare(self, approval: Approval) -> Any:
        """Look at what a transaction must not wait for, such as the working tree; called before it."""

    def lock(self, tx: Transaction, approval: Approval) -> None:
        """Lock what gates lock before they look at approvals, so that no two calls wait for each other."""

    def apply(self, tx: Transaction, approval: Approval, prepared: Any) -> str | None:
        """Carry out what the person decided, and return what it led to in one sentence."""
