"""What the store says about a run, in one consistent read: the same for every process that shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.models import Attempt, Run
from deepwork.delivery.runner.store import AttemptStore, RunStore, build_missing_run_error
from deepwork.edge.cli.framework.applications import call_operation
from deepwork.edge.cli.framework.who_acts import name_person
from deepwork.kernel.call import Call
from deepwork.kernel.events.log import EventStore
from deepwork.kernel.states import Standing
from deepwork.views.overview.run_store import WorkListStore as SessionStore
from deepwork.views.overview.run_store import parse_session_row
from deepwork.views.overview.states.view import StateView
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application
    from deepwork.kernel.database.transaction import Transaction

_MAX_PAGE = 500
_NO_NEXT = {"because": None, "next": None}
"""What a run has if there is nothing to say: programs find the keys in every run."""


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


def load_run_state(app: Application, run_id: str, *, is_whole: bool = False) -> RunState:
    """Load a run with its open attempts; `is_whole`: with all of them. Raises NotFound."""
    with app.database.reading() as tx:
        run = RunStore(tx).find(run_id)
        if run is None:
            raise build_missing_run_error(run_id)
        store = AttemptStore(tx)
        attempts = store.list_of_run(run_id, is_open=not is_whole)
        view = StateView(tx, app.processes)
        return RunState(
            run=run,
            name=find_run_name(tx, run),
            now=tx.now,
            states=view.judge_attempts(attempts) | view.judge_runs([run]),
            attempts=tuple(attempts),
            task_names=find_task_names(tx, {attempt.task_id for attempt in attempts}),
            tasks=_count_tasks(tx, run),
            landed=_count_landed(tx, run),
            usd_micros=store.sum_usd_micros(run_id),
            last_seq=EventStore(tx).get_last_seq(),
        )


def load_runs(app: Application, limit: int, *, is_open: bool) -> list[dict[str, Any]]:
    """Load runs as programs see them, the newest first."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while len(found) < limit:
        given = {"open": is_open, "limit": min(_MAX_PAGE, limit - len(found)), "cursor": cursor}
        answer = call_operation(app, "list_runs", given)
        found += [_NO_NEXT | run for run in answer["runs"]]
        cursor = answer["cursor"]
        if cursor is None:
            break
    return found


def get_step_name(task_id: str) -> str:
    """Return the step of a task id such as `ab12cd34/write`; another id as it is."""
    return task_id.rpartition("/")[2]


def find_run_name(tx: Transaction, run: Run) -> str:
    """Return the name of what a run works on."""
    if run.workflow_id is None:
        return run.job or run.id
    return PlanStore(tx).get(run.workflow_id).name


def find_task_names(tx: Transaction, ids: Iterable[str]) -> dict[str, str]:
    """Map the ids of planned tasks to their names; others, such as steps of jobs, are left out."""
    return {id: task.name for id, task in TaskStore(tx).find_by_ids(sorted(ids)).items()}


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
    row = SessionStore(tx).find("job", session_id) if session_id else None
    if row is None:
        return {}
    session = parse_session_row(row)
    return dict(Counter(session.get_step_status(step) for step in session.steps))


def decide(app: Application, operation: str, run_id: str, **arguments: Any) -> dict[str, Any]:
    """Pause, resume or stop a run in the name of the person at this shell; its driver carries that out."""
    call = Call(name_person(), operation, carries_notices=False)
    answer: dict[str, Any] = call_operation(app, operation, {"run_id": run_id, **arguments}, call)
    return answer
