"""A run of agents as the command line follows it: its attempts, and how far its plan or job is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import field

from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.models import Attempt, Run
from deepwork.delivery.runner.store import AttemptStore, RunStore, build_missing_run_error
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.events.log import EventStore
from deepwork.kernel.records import dataclass
from deepwork.kernel.states import Standing
from deepwork.views.overview.run_store import JOB, WorkListStore, parse_session_row
from deepwork.views.overview.states.store import LocalProcesses
from deepwork.views.overview.states.view import StateView
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore


@dataclass(frozen=True)
class RunState:
    """A run, its attempts, and the tasks of its plan; `now` is the store's time in Unix milliseconds."""

    run: Run
    name: str
    """Of the plan or the job."""
    now: int
    states: Mapping[str, Standing]
    """Of the run and its attempts."""
    attempts: tuple[Attempt, ...] = ()
    task_names: Mapping[str, str] = field(default_factory=dict)
    tasks: Mapping[str, int] = field(default_factory=dict)
    """How many tasks of the plan, or steps of the job, have which status."""
    landed: int | None = None
    """How many tasks have landed; None if the run does not land them."""
    usd_micros: int = 0
    last_seq: int = 0
    """The last event that this state includes."""

    @property
    def standing(self) -> Standing:
        """The state of the run."""
        return self.states[self.run.id]

    @property
    def unit(self) -> str:
        """What the work consists of."""
        return "tasks" if self.run.workflow_id is not None else "steps"

    def name_task(self, id: str) -> str:
        """Return the name of a task, or the id of a step of a job."""
        return self.task_names.get(id) or get_step_name(id)


def read_run_state(
    database: Database, processes: LocalProcesses, run_id: str, *, is_whole: bool = False
) -> RunState:
    """Read a run with its open attempts; `is_whole`: with all of them. Raises NotFound."""
    with database.reading() as tx:
        run = RunStore(tx).find(run_id)
        if run is None:
            raise build_missing_run_error(run_id)
        store, view = AttemptStore(tx), StateView(tx, processes)
        attempts = store.list_of_run(run_id, is_open=not is_whole)
        return RunState(
            run=run,
            name=_get_run_name(tx, run),
            now=tx.now,
            states=view.judge_attempts(attempts) | view.judge_runs([run]),
            attempts=tuple(attempts),
            task_names=TaskStore(tx).map_names({attempt.task_id for attempt in attempts}),
            tasks=_count_tasks(tx, run),
            landed=_count_landed(tx, run),
            usd_micros=store.sum_usd_micros(run_id),
            last_seq=EventStore(tx).get_last_seq(),
        )


def map_task_names(database: Database, ids: Collection[str]) -> Mapping[str, str]:
    """Map the ids of planned tasks to their names; others, such as steps of jobs, are left out."""
    with database.reading() as tx:
        return TaskStore(tx).map_names(ids)


def get_step_name(task_id: str) -> str:
    """Return the step of a task id such as `ab12cd34/write`; another id as it is."""
    return task_id.rpartition("/")[2]


def _get_run_name(tx: Transaction, run: Run) -> str:
    """Return the name of what a run works on."""
    if run.workflow_id is None:
        return run.job or run.id
    return PlanStore(tx).get(run.workflow_id).name


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
