"""The one view of states: loads facts of many things with few statements, and judges them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from deepwork.delivery.landing.models import Landing, LandingStatus
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.models import FAILED_STAGES, Attempt, AttemptStage, ParkedFor, Run, RunStatus
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.gates.budgets.models import SubjectKind
from deepwork.gates.budgets.service import BudgetService, name_day
from deepwork.gates.budgets.store import SpendingStore
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import dataclass
from deepwork.kernel.states import Cause, Standing, State
from deepwork.kernel.user_settings import find_day_budget
from deepwork.views.overview.run_store import WorkListStore as SessionStore
from deepwork.views.overview.run_store import parse_session_row
from deepwork.views.overview.session_rows import SessionRow, list_gates
from deepwork.views.overview.states import run_rules, work_rules
from deepwork.views.overview.states.run_rules import AttemptFacts, LandingFacts, RunFacts
from deepwork.views.overview.states.store import (
    HAS_WORK,
    IS_SPECIAL,
    OF_PLANS,
    OF_TASKS,
    LocalProcesses,
    StateStore,
)
from deepwork.views.overview.states.work_rules import (
    PlanFacts,
    PlanTotals,
    SessionFacts,
    TaskFacts,
    TrackFacts,
    WishFacts,
)
from deepwork.work.plans.models import PlanStatus, TaskStatus
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.tracking.staleness import STALE_MS

if TYPE_CHECKING:
    from deepwork.work.wishes.models import Wish

_MS_PER_DAY = 24 * 3600 * 1000
Standings = dict[str, Standing]
"""By id of the thing."""
OpenTasks = Callable[[Row], tuple[Sequence[str], int]]


@dataclass(frozen=True)
class PlanStates:
    """A plan, judged, and its tasks by state."""

    standing: Standing
    tasks: Counter[State]


class StateView:
    """Judges things in one transaction."""

    def __init__(self, tx: Transaction, processes: LocalProcesses) -> None:
        self.tx, self._processes, self._store = tx, processes, StateStore(tx)
        self._judged_plans: dict[str, PlanStates] = {}

    # Plans and tasks

    def judge_plans(self, ids: Sequence[str]) -> dict[str, PlanStates]:
        """Judge plans, each once; their tasks are counted, and judged one by one if they are not plain."""
        if fresh := [id for id in ids if id not in self._judged_plans]:
            self._judged_plans |= self._judge_plans(fresh)
        return {id: self._judged_plans[id] for id in ids if id in self._judged_plans}

    def _judge_plans(self, ids: Sequence[str]) -> dict[str, PlanStates]:
        plans = self._load_plans(ids)
        scope = f"{OF_PLANS} AND {IS_SPECIAL}"
        special = self._load_tasks(scope, ids, plans)
        landable = self._store.count_landable(ids, self._processes.host)
        landed = self._store.count_landed(ids)
        judged: dict[str, list[tuple[TaskFacts, Standing]]] = {id: [] for id in plans}
        for task in special:
            judged[task.plan.id].append((task, work_rules.judge_task(task)))
        rows = _group(self._store.count_tasks(ids), "workflow_id")
        result = {}
        for id, plan in plans.items():
            states = Counter(standing.state for _, standing in judged[id])
            plain_landed = landed.get(id, 0) - states[State.LANDED]
            states += _count_plain_tasks(plan, rows.get(id, ()), plain_landed)
            work = _build_work(states, judged[id], landable.get(id, 0))
            result[id] = PlanStates(work_rules.judge_plan(plan, work), states)
        return result

    def judge_wishes(self, wishes: Sequence[Wish]) -> Standings:
        """Judge wishes, by their plans."""
        ids = [id for each in wishes for id in (each.planning_id, each.plan_id) if id]
        plans, stored = self.judge_plans(ids), PlanStore(self.tx).find_by_ids(ids)
        found = {}
        for each in wishes:
            planning = plans.get(each.planning_id or "")
            found[each.id] = work_rules.judge_wish(
                WishFacts(
                    each.id,
                    plans[each.plan_id].standing,
                    stored[each.plan_id].status,
                    planning.standing if planning else None,
                    is_started=each.started_at is not None,
                    findings=len(each.findings),
                )
            )
        return found

    def judge_tasks_of_plan(self, plan_id: str, given: Sequence[Row] | None = None) -> Standings:
        """Judge the tasks of a plan; of the plain ones, those that wait for the same are judged once.

        A caller that has read the rows of its tasks, with the columns of `list_plain_rows`, gives them.
        """
        plans = self._load_plans([plan_id])
        special = self._load_tasks(f"{OF_PLANS} AND ({IS_SPECIAL} OR {HAS_WORK})", [plan_id], plans)
        found = {task.id: work_rules.judge_task(task) for task in special}
        rows = self._store.list_plain_rows(plan_id) if given is None else given
        rows = [row for row in rows if row["id"] not in found]
        find_open = self._find_open_tasks(OF_PLANS, [plan_id], rows)
        judged: dict[tuple[str, str, int], Standing] = {}
        for row in rows:
            names, total = find_open(row)
            key = (row["status"], work_rules.name_tasks(names, total), total)
            if key not in judged:
                plain = TaskFacts(row["id"], TaskStatus(row["status"]), plans[plan_id], names, total)
                judged[key] = work_rules.judge_task(plain)
            found[row["id"]] = judged[key]
        return found

    def judge_tasks(self, ids: Sequence[str]) -> Standings:
        """Judge some tasks of plans."""
        plans = self._load_plans(self._store.list_plans_of(ids)) if ids else {}
        return {task.id: work_rules.judge_task(task) for task in self._load_tasks(OF_TASKS, ids, plans)}

    def _load_plans(self, ids: Sequence[str]) -> dict[str, PlanFacts]:
        if not ids:
            return {}
        store = self._store
        asked, used_up = store.find_asked(ids), store.find_used_up_budgets(ids)
        runs = self._judge_open_runs("workflow_id", ids)
        found = {}
        for row in store.list_plans(ids):
            approval, was_refused = asked.get(("plan", row["id"]), (None, False))
            found[row["id"]] = PlanFacts(
                row["id"],
                PlanStatus(row["status"]),
                approval,
                was_refused,
                row["id"] in used_up,
                self._day_ends_at,
                runs.get(row["id"]),
            )
        return {id: found[id] for id in ids if id in found}

    @cached_property
    def _day_ends_at(self) -> int | None:
        """When the next day begins, if the budget of this day is used up."""
        if find_day_budget() is None:
            return None
        reached = BudgetService(self.tx).find_total(SubjectKind.DAY, name_day(self.tx.now)).reached_at
        return None if reached is None else (self.tx.now // _MS_PER_DAY + 1) * _MS_PER_DAY

    def _load_tasks(self, scope: str, ids: Sequence[str], plans: Mapping[str, PlanFacts]) -> list[TaskFacts]:
        rows = self._store.list_tasks(scope, ids) if ids else []
        if not rows:
            return []
        known, store = list(plans), self._store
        attempts = self._load_attempts(AttemptStore(self.tx).list_open_of_plans(known))
        landings = self._load_landings(LandingStore(self.tx).list_open_of_plans(known))
        records = _TaskRecords(
            asked=store.find_asked(known),
            used_up=store.find_used_up_budgets(known),
            landed=store.find_landed_tasks(known),
            attempts={each.attempt.task_id: each for each in attempts},
            landings={each.landing.subject_id: run_rules.judge_landing(each) for each in landings},
            fresh_since=self.tx.now - self._processes.lease_ms,
            host=self._processes.host,
        )
        find_open = self._find_open_tasks(scope, ids, rows)
        return [records.build(row, plans[row["workflow_id"]], find_open(row)) for row in rows]

    def _find_open_tasks(self, scope: str, ids: Sequence[str], rows: Sequence[Row]) -> OpenTasks:
        """Return a function that finds the first open tasks that a task waits for, and how many there are."""
        named = self._name_dependencies(scope, ids, rows)
        leveled = {row["workflow_id"] for row in rows if _may_wait(row, by_level=True)}
        levels = self._name_levels(sorted(leveled))
        return lambda row: _find_open(row, named, levels)

    def _name_dependencies(
        self, scope: str, ids: Sequence[str], rows: Sequence[Row]
    ) -> dict[str, tuple[list[str], int]]:
        """Map tasks to the first open ones of those that they name, and how many there are."""
        if not any(_may_wait(row, by_level=False) for row in rows):
            return {}
        named: dict[str, tuple[list[str], int]] = {}
        for row in self._store.list_open_dependencies(scope, ids):
            named.setdefault(row["id"], ([], row["total"]))[0].append(row["name"])
        return named

    def _name_levels(self, plan_ids: Sequence[str]) -> dict[tuple[str, int], tuple[list[str], int]]:
        """Map (plan, level) to the first open tasks of the level before, and how many there are."""
        if not plan_ids:
            return {}
        names: dict[tuple[str, int], list[str]] = {}
        for row in self._store.list_open_of_levels(plan_ids):
            names.setdefault((row["workflow_id"], row["sequence"]), []).append(row["name"])
        found, before = {}, None
        for row in self._store.list_levels(plan_ids):
            if before is not None and before["workflow_id"] == row["workflow_id"]:
                earlier = names.get((before["workflow_id"], before["sequence"]), [])
                found[row["workflow_id"], row["sequence"]] = (earlier, int(before["open"]))
            before = row
        return found

    # Runs and attempts

    def judge_runs(self, runs: Sequence[Run]) -> Standings:
        """Judge runs of agents."""
        return {each.run.id: run_rules.judge_run(each) for each in self._load_runs(runs)}

    def judge_attempts(self, attempts: Sequence[Attempt]) -> Standings:
        """Judge attempts of agents."""
        return {each.attempt.id: run_rules.judge_attempt(each) for each in self._load_attempts(attempts)}

    def _judge_open_runs(self, column: str, ids: Sequence[str]) -> Standings:
        """Judge the open runs of plans or job sessions, by the id of those."""
        run_ids = self._store.list_open_run_ids(column, ids)
        loaded = self._load_runs(RunStore(self.tx).find_by_ids(run_ids)) if run_ids else []
        return {str(getattr(each.run, column)): run_rules.judge_run(each) for each in loaded}

    def _load_runs(self, runs: Sequence[Run]) -> list[RunFacts]:
        if not runs:
            return []
        ids = [run.id for run in runs]
        attempts: dict[str, list[AttemptFacts]] = {id: [] for id in ids}
        for each in self._load_attempts(AttemptStore(self.tx).list_open_of_runs(ids)):
            attempts[each.attempt.run_id].append(each)
        hosts: dict[str, dict[str, int]] = {id: {} for id in ids}
        for row in self._store.list_hosts(ids):
            hosts[row["run_id"]][row["host"]] = row["agents"]
        usage = RunStore(self.tx).sum_usage(ids)
        waiting = [run.id for run in runs if run.status is RunStatus.NEEDS_PERSON]
        since = self._store.find_plans_of_runs(waiting) if waiting else {}
        plans = sorted({run.workflow_id for run in runs if run.workflow_id and run.status.is_final})
        landed = self._store.count_landed(plans) if plans else {}
        landable = self._store.count_landable(plans, self._processes.host) if plans else {}
        return [
            RunFacts(
                run,
                is_driven=self._is_run_driven(run, hosts[run.id], attempts[run.id]),
                hosts=tuple(hosts[run.id]),
                starts_tasks=any(hosts[run.id].values()),
                agents=max(hosts[run.id].values(), default=0),
                attempts=tuple(attempts[run.id]),
                usd_micros=usage.get(run.id, (0, 0))[1],
                landed=landed.get(run.workflow_id or "", 0),
                unlanded=landable.get(run.workflow_id or "", 0),
                is_plan_done=run.id in since and bool(since[run.id]["is_done"]),
                is_continued=run.id in since and bool(since[run.id]["is_continued"]),
            )
            for run in runs
        ]

    def _is_run_driven(self, run: Run, hosts: Iterable[str], attempts: Iterable[AttemptFacts]) -> bool | None:
        """Return whether a process drives a run: here by its lock, elsewhere by its last sign of life."""
        here = self._processes.is_driven(run.id, run.repository_path)
        if here or run.status.is_final or any(each.is_driven for each in attempts):
            return True
        is_elsewhere = any(host != self._processes.host for host in hosts)
        if here is False and not is_elsewhere:
            return False
        if run.updated_at >= self.tx.now - self._processes.lease_ms:
            return True
        return None if is_elsewhere else False

    def _load_attempts(self, attempts: Sequence[Attempt]) -> list[AttemptFacts]:
        opened = [each for each in attempts if not each.stage.is_final]
        if not opened:
            return [AttemptFacts(each) for each in attempts]
        beats = self._store.find_heartbeats({each.agent_id for each in opened})
        waiting = [
            each.task_id for each in opened if each.stage in (AttemptStage.REVIEWING, AttemptStage.PARKED)
        ]
        approvals = self._store.find_pending_approvals(waiting) if waiting else {}
        driven = {each.id for each in opened if self._is_attempt_driven(each, beats.get(each.agent_id, 0))}
        stopped = [each for each in opened if each.id not in driven or each.task_id in waiting]
        runs = self._load_continuations(stopped) if stopped else {}
        plans = sorted({each.workflow_id or "" for each in opened if each.parked_for is ParkedFor.BUDGET})
        totals = SpendingStore(self.tx).find_totals(SubjectKind.PLAN, plans)
        return [
            AttemptFacts(
                each,
                is_driven=each.stage.is_final or each.id in driven,
                approval_id=approvals.get(each.task_id),
                run=runs.get(each.run_id),
                is_plan_used_up=bool((total := totals.get(each.workflow_id or "")) and total.reached_at),
            )
            for each in attempts
        ]

    def _load_continuations(self, attempts: Sequence[Attempt]) -> dict[str, RunFacts]:
        """Load what says how the runs of attempts that wait for somebody continue."""
        ids = sorted({each.run_id for each in attempts})
        usage, agents = RunStore(self.tx).sum_usage(ids), dict.fromkeys(ids, 0)
        for row in self._store.list_hosts(ids):
            agents[row["run_id"]] = max(agents[row["run_id"]], row["agents"])
        return {
            run.id: RunFacts(run, agents=agents[run.id], usd_micros=usage.get(run.id, (0, 0))[1])
            for run in RunStore(self.tx).find_by_ids(ids)
        }

    def _is_attempt_driven(self, attempt: Attempt, heartbeat: int) -> bool:
        if attempt.host == self._processes.host:
            here = self._processes.is_driven(attempt.id)
            if here is not None:
                return here
        # Of an attempt that has just begun, or that another machine looks after.
        return max(heartbeat, attempt.updated_at) >= self.tx.now - self._processes.lease_ms

    # Landings

    def judge_landings(self, landings: Sequence[Landing]) -> Standings:
        """Judge landings."""
        plans = sorted(
            {each.workflow_id for each in landings if each.status is _RETURNED and each.workflow_id}
        )
        runs = self._judge_open_runs("workflow_id", plans) if plans else {}
        loaded = self._load_landings(landings)
        found = [replace(each, run=runs.get(each.landing.workflow_id or "")) for each in loaded]
        return {each.landing.id: run_rules.judge_landing(each) for each in found}

    def _load_landings(self, landings: Sequence[Landing]) -> list[LandingFacts]:
        waiting = [each.id for each in landings if each.status is LandingStatus.WAITING]
        approvals = self._store.find_pending_approvals(waiting) if waiting else {}
        held = self._store.find_held_branches() if any(each.status.is_pending for each in landings) else set()
        return [
            LandingFacts(each, not held.isdisjoint({each.branch, each.target}), approvals.get(each.id))
            for each in landings
        ]

    # Jobs

    def load_sessions(self, sessions: Sequence[SessionRow]) -> dict[str, SessionFacts]:
        """Load the facts of job sessions, by id."""
        active = [each for each in sessions if each.status == "active"]
        ids = [each.id for each in active]
        steps = {f"{each.id}/{each.step_id}": each.id for each in active}
        asked = self._store.find_pending_approvals(list(steps)) if ids else {}
        approvals = {steps[step]: approval for step, approval in asked.items()}
        runs = self._judge_open_runs("session_id", ids) if ids else {}
        left = self._judge_left_sessions([id for id in ids if id not in runs])
        gates = {gate.session.id for gate in list_gates(self.tx, active)}
        return {
            each.id: SessionFacts(
                each,
                approvals.get(each.id),
                each.status == "active" and self._has_session_ended(each),
                each.id in gates,
                runs.get(each.id),
                *left.get(each.id, (None, False)),
            )
            for each in sessions
        }

    def _judge_left_sessions(self, ids: Sequence[str]) -> dict[str, tuple[Standing, bool]]:
        """Judge the ended runs that left sessions, and say whether the last attempt failed."""
        rows = self._store.list_left_sessions(ids) if ids else []
        runs = self.judge_runs(RunStore(self.tx).find_by_ids([row["run_id"] for row in rows])) if rows else {}
        return {row["id"]: (runs[row["run_id"]], row["stage"] in FAILED_STAGES) for row in rows}

    def judge_sessions(self, sessions: Sequence[SessionRow]) -> Standings:
        """Judge job sessions."""
        return {id: work_rules.judge_session(facts) for id, facts in self.load_sessions(sessions).items()}

    def judge_session_ids(self, ids: Sequence[str]) -> Standings:
        """Judge the job sessions with these ids that the store knows."""
        rows = SessionStore(self.tx).find_sessions(ids) if ids else []
        return self.judge_sessions([parse_session_row(row) for row in rows])

    def _has_session_ended(self, session: SessionRow) -> bool:
        known = self._processes.has_session_ended(session.id)
        return session.updated_at < self.tx.now - STALE_MS if known is None else known

    # Tracked work

    def judge_tracks(self, ids: Sequence[str]) -> Standings:
        """Judge tracked workflows."""
        if not ids:
            return {}
        blockers = {row["workflow_id"]: row["id"] for row in reversed(self._store.find_blockers(ids))}
        since = self.tx.now - STALE_MS
        return {
            row["id"]: work_rules.judge_track(
                TrackFacts(
                    row["id"],
                    row["status"],
                    is_alive=(row["last_sign_at"] or row["updated_at"]) >= since,
                    blocker_id=blockers.get(row["id"]),
                    silent_task_id=row["task_id"],
                )
            )
            for row in self._store.list_tracks(ids)
        }

    def judge_tracked_tasks(self, column: str, ids: Sequence[str]) -> Standings:
        """Judge tracked tasks, by their own ids (`id`) or those of their workflows (`workflow_id`)."""
        rows = self._store.list_tracked_tasks(column, ids)
        workflows = sorted({row["workflow_id"] for row in rows})
        found = self._store.find_blockers(workflows) if workflows else []
        blockers = {row["task_id"]: row["id"] for row in reversed(found)}
        since = self.tx.now - STALE_MS
        return {row["id"]: work_rules.judge_tracked_task(_build_track(row, blockers, since)) for row in rows}


_RETURNED = LandingStatus.RETURNED


@dataclass(frozen=True)
class _TaskRecords:
    """What is stored about tasks of some plans, by task."""

    asked: Mapping[tuple[str, str], tuple[str, bool]]
    used_up: set[str]
    landed: Mapping[str, int]
    attempts: Mapping[str, AttemptFacts]
    landings: Mapping[str, Standing]
    fresh_since: int
    host: str

    def build(self, row: Row, plan: PlanFacts, open: tuple[Sequence[str], int]) -> TaskFacts:
        """Build the facts of a task from its row and the open tasks that it waits for."""
        id, is_claimed = row["id"], row["claimed_by"] is not None
        attempt = self.attempts.get(id)
        approval, was_refused = self._find_approval(id)
        is_done, has_tree = row["status"] == "completed", row["tree_status"] == "active"
        is_here = row["tree_host"] == self.host
        return TaskFacts(
            id,
            TaskStatus(row["status"]),
            plan,
            *open,
            is_claimed=is_claimed,
            is_alive=bool(row["is_alive"]) if is_claimed else row["updated_at"] >= self.fresh_since,
            waits_for=row["waits_for"],
            approval_id=approval,
            was_refused=was_refused,
            is_used_up=bool(row["is_used_up"]),
            is_budget_used_up=id in self.used_up,
            attempt=run_rules.judge_attempt(attempt) if attempt else None,
            continues_at=attempt.attempt.not_before if attempt else None,
            landing=self.landings.get(id),
            is_landed=is_done and self._has_landed(row),
            can_land=is_done and has_tree and is_here,
            elsewhere=row["tree_host"] if is_done and has_tree and not is_here else None,
        )

    def _find_approval(self, id: str) -> tuple[str | None, bool]:
        found = (self.asked.get((kind, id)) for kind in _APPROVALS_OF_TASKS) if self.asked else ()
        return next(filter(None, found), (None, False))

    def _has_landed(self, row: Row) -> bool:
        return row["tree_status"] == "merged" or self.landed.get(row["id"], -1) >= (row["finished_at"] or 0)


_APPROVALS_OF_TASKS = ("task_before", "task", "guarded", "budget", "act")


def _may_wait(row: Row, *, by_level: bool) -> bool:
    """Return whether a task may wait for others: for all of the level before, or for those that it names."""
    if row["status"] != "pending" or bool(row["is_explicit"]) is by_level:
        return False
    return by_level or row["open_dependencies"] > 0


def _find_open(
    row: Row,
    named: Mapping[str, tuple[list[str], int]],
    levels: Mapping[tuple[str, int], tuple[list[str], int]],
) -> tuple[Sequence[str], int]:
    """Return the first open tasks that a task waits for, and how many there are."""
    if row["status"] != "pending":
        return (), 0
    if row["is_explicit"]:
        return named.get(row["id"], ((), 0))
    return levels.get((row["workflow_id"], row["sequence"]), ((), 0))


def _build_work(
    states: Counter[State], judged: Sequence[tuple[TaskFacts, Standing]], landable: int
) -> PlanTotals:
    failed = [each for each in judged if each[1].state is State.FAILED]
    needs = [
        standing
        for _, standing in judged
        if standing.state is State.NEEDS_YOU
        or (standing.state is State.FAILED and standing.cause is Cause.ATTEMPTS_USED_UP)
    ]
    parked = [
        task.continues_at or 0
        for task, standing in judged
        if standing.state is State.PARKED and task.attempt is not None
    ]
    return PlanTotals(
        states,
        tuple(needs),
        retries=sum(not task.is_used_up for task, _ in failed),
        parked_until=min(parked, default=None),
        landable=landable,
    )


def _count_plain_tasks(plan: PlanFacts, rows: Sequence[Row], landed: int) -> Counter[State]:
    """Count the tasks that need no closer look, by the same rules; the rows are the levels of a plan."""
    blocked = work_rules.judge_task(TaskFacts("", TaskStatus.PENDING, plan, open_total=1)).state
    free = work_rules.judge_task(TaskFacts("", TaskStatus.PENDING, plan)).state
    left: Counter[int] = Counter()
    for row in rows:
        left[row["sequence"]] += 0 if row["status"] in ("completed", "skipped") else row["tasks"]
    behind = {level for before, level in pairwise(sorted(left)) if left[before]}
    states: Counter[State] = Counter({State.DONE: -landed, State.LANDED: landed})
    for row in rows:
        plain = int(row["plain"])
        if row["status"] == "pending":
            waiting = int(row["waiting"]) + (int(row["implied"]) if row["sequence"] in behind else 0)
            states[blocked] += waiting
            states[free] += plain - waiting
        else:
            states[State.DONE] += plain
    return +states


def _build_track(row: Row, blockers: Mapping[str, str], since: int) -> TrackFacts:
    is_left = row["workflow_status"] == "in_progress" and row["status"] != "success"
    return TrackFacts(
        row["id"],
        row["status"],
        is_alive=row["last_sign_at"] >= since,
        blocker_id=blockers.get(row["id"]),
        needs_review=not row["was_reviewed"] and (bool(row["manual_review_needed"]) or is_left),
    )


def _group(rows: Sequence[Row], key: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found
