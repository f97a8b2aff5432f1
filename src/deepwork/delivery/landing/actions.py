"""What only people can do about landings: land work, and give a landing up.

Described like tools, so that calls are checked and recorded in the same way, but no server offers them to
agents: the command line and the dashboard call them in a person's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar

from deepwork.delivery.landing.responses import LandingView, LandResult, describe_landing
from deepwork.delivery.landing.service import LandingService, LandRequest
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.operations import InTransaction, Traits, operation
from deepwork.kernel.tool_types import Field, Id, Name
from deepwork.work.plans.stores.task_store import TaskStore


class LandingActions:
    """Decisions of people about landings."""

    traits: ClassVar = Traits(toolset="landing", people_only=True)

    def __init__(self, database: Database, get_service: Callable[[], LandingService]) -> None:
        """`get_service` is called by the first landing: most decisions of people are about other things."""
        self._database, self._get_service = database, get_service

    @operation("work", long_running=True, for_people=True)
    def land_work(
        self,
        task_id: Id | None = None,
        workflow_id: Id | None = None,
        onto: Annotated[
            Name | None, Field(description="The branch; else the one the plan began from")
        ] = None,
        commit: Annotated[bool, Field(description="Commit uncommitted work first")] = False,
    ) -> InTransaction[LandResult]:
        """Merge, check and land a completed task, or all completed tasks of a plan."""
        plan = self._find_plan(task_id, workflow_id)
        result = self._get_service().land(LandRequest(plan, task_id, onto, commits=commit))
        return InTransaction(lambda: result)

    @operation("work", for_people=True)
    def cancel_landing(self, landing_id: Id) -> LandingView:
        """Give up a landing that waits for somebody; its branch stays."""
        return describe_landing(self._get_service().cancel(landing_id))

    def _find_plan(self, task_id: str | None, workflow_id: str | None) -> str:
        if (task_id is None) == (workflow_id is None):
            raise InvalidInput("Name a task or a plan.", suggestion="Pass `task_id` or `workflow_id`.")
        if task_id is None:
            return workflow_id or ""
        with self._database.reading() as tx:
            return TaskStore(tx).get(task_id).workflow_id
