"""What only people can do about a run: pause, resume and stop it.

Described like tools, so that calls are checked and recorded in the same way, but no server offers them to
agents: the dashboard calls them in a person's name. They store what the person wants; the process that
drives the run carries it out.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from deepwork.delivery.runner.models import Run, RunStatus
from deepwork.delivery.runner.responses import RunView, describe_run
from deepwork.delivery.runner.rules import PERSON_MOVES
from deepwork.delivery.runner.service import RunService
from deepwork.delivery.runner.store import RunStore
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.tool_types import Field, Id


class RunActions:
    """Decisions of people about runs."""

    traits: ClassVar = Traits(toolset="runner", people_only=True, one_transaction=True)

    def __init__(self, database: Database) -> None:
        self._database = database

    @operation("work", for_people=True)
    def pause_run(self, run_id: Id) -> RunView:
        """Start no more agents; those that work finish what they do."""
        return self._move(run_id, RunStatus.PAUSED, "Paused")

    @operation("work", for_people=True)
    def resume_run(self, run_id: Id) -> RunView:
        """Start agents again in a run that was paused or is stopping."""
        return self._move(run_id, RunStatus.ACTIVE, None)

    @operation("work", for_people=True)
    def stop_run(
        self, run_id: Id, now: Annotated[bool, Field(description="End the agents that work")] = False
    ) -> RunView:
        """Start no more agents, and end the run when those that work have finished."""
        return self._move(run_id, RunStatus.ENDING if now else RunStatus.STOPPING, "Stopped")

    def _move(self, id: str, status: RunStatus, verb: str | None) -> RunView:
        with self._database.transaction() as tx:
            run = RunStore(tx).get_for_update(id)
            _require_possible(run, status)
            reason = f"{verb} by {tx.caller}." if verb else None
            return describe_run(RunService(self._database).set_status(id, status, reason))


def _require_possible(run: Run, status: RunStatus) -> None:
    """Raise if this cannot be made of the run; `set_status` refuses a run that has ended."""
    is_open = not run.status.is_final
    if is_open and status is not run.status and status not in PERSON_MOVES.get(run.status, ()):
        raise NotAllowed(
            f"Run {run.id} is {run.status}.", suggestion="Wait until it has ended, then start another one."
        )
