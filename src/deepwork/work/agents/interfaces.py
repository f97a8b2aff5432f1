"""What agents and messages need from plans, which they must not import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from deepwork.kernel.database.transaction import Transaction


class TaskDirectory(Protocol):
    """Checks references to tasks and workflows; implemented by `plans`."""

    def require_task(self, tx: Transaction, id: str) -> None:
        """Raise NotFound if there is no such task."""

    def require_workflow(self, tx: Transaction, id: str) -> None:
        """Raise NotFound if there is no such workflow."""

    def release_tasks(self, tx: Transaction, agent_id: str, held: Sequence[str]) -> None:
        """Return the tasks that an unregistering agent held to the queue."""
