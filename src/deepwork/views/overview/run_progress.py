"""How far a run of agents is: with the tasks of its plan, or the steps of its job, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Annotated, ClassVar

from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.models import Run
from deepwork.delivery.runner.operations import RunLines
from deepwork.delivery.runner.responses import AgentRun
from deepwork.delivery.runner.store import AttemptStore, RunStore, build_missing_run_error
from deepwork.kernel.answers import Field, Id, IsoTime
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.events.log import EventStore
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.values import format_timestamp
from deepwork.views.overview.run_store import JOB, WorkListStore, name_work, parse_session_row
from deepwork.views.overview.states.view import StateView
from deepwork.work.plans.stores.task_store import TaskStore


class RunProgress(AgentRun):
    """A run of agents, and how far its plan or its job is."""

    progress: dict[str, int]
    """How many tasks of the plan, or steps of the job, have which status."""
    landed: int | None = None
    """How many tasks have landed; None if the run does not land them."""
    now: IsoTime
    last_seq: int
    """The last event that this includes."""


class RunProgressOperations:
    """Reads a run as people follow it."""

    traits: ClassVar = Traits(toolset="runner", people_only=True)

    def __init__(self, database: Database, view_states: Callable[[Transaction], StateView]) -> None:
        self._database, self._view_states = database, view_states

    @operation("read")
    def get_run_progress(
        self, id: Id, whole: Annotated[bool, Field(description="With the attempts that have ended")] = False
    ) -> RunProgress:
        """One run of agents, how far it is, and its attempts that have not ended."""
        with self._database.reading() as tx:
            run = RunStore(tx).find(id)
            if run is None:
                raise build_missing_run_error(id)
            attempts = AttemptStore(tx).list_of_run(id, is_open=not whole)
            [line] = RunLines(tx, self._view_states(tx), name_work).build_runs([run], attempts)
            return RunProgress(
                **vars(line),
                progress=_count_tasks(tx, run),
                landed=_count_landed(tx, run),
                now=format_timestamp(tx.now),
                last_seq=EventStore(tx).get_last_seq(),
            )


def _count_tasks(tx: Transaction, run: Run) -> dict[str, int]:
    if run.workflow_id is None:
        return _count_steps(tx, run.session_id)
    counts: Counter[str] = Counter()
    for row in TaskStore(tx).count_by_status(run.workflow_id):
        counts[row.status.value] += row.count
    return dict(counts)


def _count_landed(tx: Transaction, run: Run) -> int | None:
    if run.workflow_id is None or not run.options.land:
        return None
    return LandingStore(tx).count_landed_tasks(run.workflow_id)


def _count_steps(tx: Transaction, session_id: str | None) -> dict[str, int]:
    row = WorkListStore(tx).find(JOB, session_id) if session_id else None
    if row is None:
        return {}
    session = parse_session_row(row)
    return dict(Counter(session.get_step_status(step) for step in session.steps))
