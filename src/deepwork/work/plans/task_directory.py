"""Lets agents and messages check references to planned tasks, and release tasks of departed agents."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.kernel.database.transaction import Transaction
from deepwork.work.agents.presence import Presence


class PlanTaskDirectory:
    """Looks up planned workflows and tasks; ids of other kinds are ignored.

    Imports the plan modules only when needed: commands that concern agents alone start 20 % faster.
    """

    def __init__(self, presence: Presence) -> None:
        self._presence = presence

    def require_task(self, tx: Transaction, id: str) -> None:
        """Raise an error for the id of a planned task that does not exist."""
        from deepwork.work.plans.stores.task_store import TaskStore  # noqa: PLC0415

        if id.startswith("tk_"):
            TaskStore(tx).get(id)

    def require_workflow(self, tx: Transaction, id: str) -> None:
        """Raise an error for the id of a planned workflow that does not exist."""
        from deepwork.work.plans.stores.plan_store import PlanStore  # noqa: PLC0415

        if id.startswith("wf_"):
            PlanStore(tx).get(id)

    def release_tasks(self, tx: Transaction, agent_id: str, held: Sequence[str]) -> None:
        """Requeue the tasks of an agent that unregistered."""
        from deepwork.work.plans.claims import ClaimService  # noqa: PLC0415

        if held:
            ClaimService(tx, self._presence).release_for_agent(agent_id, held)
