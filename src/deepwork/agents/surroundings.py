"""What agents touch and other slices keep: tasks they hold, workflows they speak of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from deepwork.database.transaction import Transaction


class Surroundings(Protocol):
    """The slices above, as far as agents and messages must know them."""

    def require_task(self, tx: Transaction, id: str) -> None:
        """Refuse the id of a task that does not exist."""

    def require_workflow(self, tx: Transaction, id: str) -> None:
        """Refuse the id of a workflow that does not exist."""

    def left(self, tx: Transaction, agent_id: str, held: Sequence[str]) -> None:
        """An agent took its leave; it held leases on these."""
