"""What plans are to agents and messages."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.agents.presence import Presence
from deepwork.database.transaction import Transaction


class PlanSurroundings:
    """Knows planned workflows and tasks; ids of other kinds are not its business.

    Imports plans when they are asked for: a command on agents alone starts a fifth sooner.
    """

    def __init__(self, presence: Presence) -> None:
        self._presence = presence

    def require_task(self, tx: Transaction, id: str) -> None:
        """Refuse the id of a planned task that does not exist."""
        from deepwork.plans.task_store import TaskStore  # noqa: PLC0415

        if id.startswith("tk_"):
            TaskStore(tx).get(id)

    def require_workflow(self, tx: Transaction, id: str) -> None:
        """Refuse the id of a planned workflow that does not exist."""
        from deepwork.plans.store import PlanStore  # noqa: PLC0415

        if id.startswith("wf_"):
            PlanStore(tx).get(id)

    def left(self, tx: Transaction, agent_id: str, held: Sequence[str]) -> None:
        """Queue the tasks of an agent that took its leave."""
        from deepwork.plans.claims import ClaimDesk  # noqa: PLC0415

        if held:
            ClaimDesk(tx, self._presence).released(agent_id, held)
