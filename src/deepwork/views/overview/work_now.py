"""What a person sees first of one run: what failed, needs them, runs or is ready; the rest as counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, ClassVar

from deepwork.delivery.runner.models import Attempt, Run, RunStatus
from deepwork.delivery.runner.operations import RunLines
from deepwork.delivery.runner.rules import is_working
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.gates.budgets.models import MICROS_PER_USD, SubjectKind, Total
from deepwork.gates.budgets.service import BudgetService
from deepwork.kernel.answers import Act, Answer, Field, Id, IsoTime
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.states import State
from deepwork.views.overview.forecast import RestForecast, forecast, load_figures
from deepwork.views.overview.offered_actions import list_planned_task_actions
from deepwork.views.overview.run_refs import get_run_row
from deepwork.views.overview.run_store import JOB, PLAN, name_work
from deepwork.views.overview.states.view import StateView
from deepwork.views.overview.task_row_store import TaskRowStore
from deepwork.views.overview.task_table_operations import COLUMNS, MAX_ROWS, read_rows
from deepwork.work.plans.models import Task
from deepwork.work.plans.stores.task_store import TaskStore

LANES: Mapping[str, tuple[State, ...]] = {
    "failed": (State.FAILED,),
    "needs_you": (State.NEEDS_YOU, State.UNATTENDED),
    "running": (State.RUNNING, State.PARKED),
    "ready": (State.READY,),
    "waiting": (State.WAITING,),
    "done": (State.DONE, State.LANDED, State.STOPPED),
}
"""Which states are in which lane, the most pressing lane first."""
_MAX_NOTE = 400
_FOLDED = ("waiting", "done")
_INTERPRETERS = ("python", "node", "bash", "sh", "env")


class NowTask(Answer):
    """A task that somebody should see now."""

    id: str
    name: str
    state: str
    because: str | None = None
    next: str | None = None
    phase: int | None = None
    agent: str | None = None
    """The profile of the agent of its last attempt, or the name of who holds it."""
    attempt_id: str | None = None
    attempts: int | None = None
    since: int | None = None
    """When it began to be as it is, as far as that is known; Unix milliseconds."""
    note: str | None = None
    """What went wrong, or what its agent does or last said."""
    usd: float | None = None
    tokens: int | None = None
    blocks: int | None = None
    """How many tasks wait for it directly."""
    actions: list[Act] | None = None


class Lane(Answer):
    name: str
    total: int
    tasks: list[NowTask] | None = None
    """The first of them; none in a lane that is folded."""


class RunHead(Answer):
    """The last run of agents of a plan or a job session, as its header shows it."""

    id: str
    status: str
    state: str
    because: str | None = None
    next: str | None = None
    reason: str | None = None
    usd: float | None = None
    max_usd: float | None = None
    until: IsoTime | None = None
    tokens: int
    models: list[str]
    working: int
    """How many of its agents work now."""
    agents: int
    """How many it may start."""
    actions: list[Act]


class WorkNow(Answer):
    """One run as it is now."""

    lanes: list[Lane]
    counts: dict[str, int]
    """How many tasks are in each state."""
    run: RunHead | None = None
    forecast: RestForecast | None = None


class WorkNowOperations:
    """Reads what is to be seen of one run now."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(self, database: Database, view_states: Callable[[Transaction], StateView]) -> None:
        self._database, self._view_states = database, view_states

    @operation("read")
    def get_work_now(
        self, id: Id, limit: Annotated[int, Field(ge=1, le=500, description="Of each lane")] = 50
    ) -> WorkNow:
        """One run now: what failed, needs you, runs or is ready; of the rest how many."""
        with self._database.reading() as tx:
            row, view = get_run_row(tx, id), self._view_states(tx)
            listed, _, _ = read_rows(view, row, MAX_ROWS, None)
            rows = [dict(zip(COLUMNS, each, strict=False)) for each in listed]
            kind = row["kind"]
            run = _find_run(tx, kind, id)
            lanes = _LaneBuilder(tx, id, kind, limit).build(rows)
            head = _build_head(view, run) if run else None
            rest = _forecast(tx, id, run, head) if kind == PLAN else None
            counts = Counter(each["state"] for each in rows)
            return WorkNow(lanes=lanes, counts=dict(counts), run=head, forecast=rest)


def _find_run(tx: Transaction, kind: str, id: str) -> Run | None:
    if kind == PLAN:
        return RunStore(tx).find_last_of_plan(id)
    return RunStore(tx).find_of_session(id) if kind == JOB else None


def _build_head(view: StateView, run: Run) -> RunHead:
    opened = AttemptStore(view.tx).list_of_run(run.id, is_open=True)
    [line] = RunLines(view.tx, view, name_work).build_runs([run], [])
    agents = RunStore(view.tx).map_agents([run.id]).get(run.id, 0)
    return RunHead(**vars(line), working=sum(map(is_working, opened)), agents=agents)


def _forecast(tx: Transaction, id: str, run: Run | None, head: RunHead | None) -> RestForecast | None:
    """RestForecast the rest of a plan; what a run has cost is over, and so is one that has ended."""
    if run is None or head is None or run.status in (RunStatus.DONE, RunStatus.STOPPED):
        return None
    left = None if head.max_usd is None else head.max_usd - (head.usd or 0)
    return forecast(load_figures(tx, id), head.agents or 1, left)


class _LaneBuilder:
    """Sorts the tasks of a run into lanes, and adds to the first of each what a person wants to know."""

    def __init__(self, tx: Transaction, run_id: str, kind: str, limit: int) -> None:
        self._tx, self._run_id, self._kind, self._limit = tx, run_id, kind, limit

    def build(self, rows: Sequence[Mapping[str, Any]]) -> list[Lane]:
        lane_of = {state: name for name, states in LANES.items() for state in states}
        found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in LANES}
        for row in rows:
            found[lane_of[row["state"]]].append(row)
        shown = {name: [] if name in _FOLDED else self._choose(name, of) for name, of in found.items()}
        built = self._build_tasks([row for each in shown.values() for row in each])
        return [
            Lane(
                name=name,
                total=len(of),
                tasks=None if name in _FOLDED else [built[row["id"]] for row in shown[name]],
            )
            for name, of in found.items()
        ]

    def _choose(self, lane: str, rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Choose the first of a lane: what is so for longest; what is ready, in the order of the plan."""
        if lane != "ready":
            rows = sorted(rows, key=lambda row: row.get("completed_at") or row.get("started_at") or 0)
        return rows[: self._limit]

    def _build_tasks(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, NowTask]:
        ids = [row["id"] for row in rows]
        attempts: dict[str, list[Attempt]] = {}
        for each in AttemptStore(self._tx).list_of_tasks(ids):
            attempts.setdefault(each.task_id, []).append(each)
        is_plan = self._kind == PLAN
        tasks = TaskStore(self._tx).find_by_ids(ids) if is_plan else {}
        blocks = TaskRowStore(self._tx).count_dependents(self._run_id, ids) if is_plan else {}
        totals = BudgetService(self._tx).find_totals(SubjectKind.TASK, ids)
        return {
            row["id"]: _build_task(row, attempts.get(row["id"], []), tasks.get(row["id"]), blocks, totals)
            for row in rows
        }


def _build_task(
    row: Mapping[str, Any],
    attempts: Sequence[Attempt],
    task: Task | None,
    blocks: Mapping[str, int],
    totals: Mapping[str, Total],
) -> NowTask:
    last, total = (attempts[-1] if attempts else None), totals.get(row["id"])
    is_open = last is not None and not last.stage.is_final
    since = last.created_at if last and is_open else row.get("completed_at") or row.get("started_at")
    return NowTask(
        id=row["id"],
        name=row["name"],
        state=row["state"],
        because=row.get("because"),
        next=row.get("next") or None,
        phase=row.get("phase"),
        agent=_name_agent(last.profile) if last else row.get("agent_name"),
        attempt_id=last.id if last else None,
        attempts=len(attempts) or None,
        since=since,
        note=_find_note(row, last, task),
        usd=total.cost.usd_micros / MICROS_PER_USD if total else None,
        tokens=total.cost.tokens if total else None,
        blocks=blocks.get(row["id"]),
        actions=list_planned_task_actions(task.id, task.status, task.claimed_by) if task else None,
    )


def _name_agent(profile: str) -> str:
    """Return the name of a profile; of a command line, the name of its program or script."""
    names = [PurePath(word).name for word in profile.split() if not word.startswith("-")]
    own = (name for name in names if name.rstrip("0123456789.") not in _INTERPRETERS)
    return next(own, profile) if len(names) > 1 else profile


def _find_note(row: Mapping[str, Any], last: Attempt | None, task: Task | None) -> str | None:
    """Return what says most about a task now: its error, what its agent does, why it waits, its milestone."""
    error = task.error if task and row["state"] == State.FAILED else None
    doing = last and (last.now_doing or last.reason)
    note = error or doing or row.get("milestone")
    return note[:_MAX_NOTE] if note else None
