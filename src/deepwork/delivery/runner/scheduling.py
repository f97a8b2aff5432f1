"""Decides for a run which task starts next, and when the run has ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deepwork.delivery.landing.models import Landing
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.claiming import STOPPED, NothingClaimed, TaskClaimer, find_next_profile
from deepwork.delivery.runner.models import NOT_LANDED, TIME_IS_OVER, Attempt, AttemptStage, Run, RunStatus
from deepwork.delivery.runner.profiles import AgentProfile
from deepwork.delivery.runner.rules import find_run_overrun, is_held, is_limit_sure, is_working
from deepwork.delivery.runner.service import RunService
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import format_timestamp
from deepwork.work.plans.models import PlanStatus
from deepwork.work.plans.queue_responses import NextTasks
from deepwork.work.plans.scheduling import Scheduler
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.wishes.models import WishRole
from deepwork.work.wishes.store import find_role

if TYPE_CHECKING:
    from deepwork.delivery.runner.job_runs import JobScheduler

_LOOK_EVERY_MS = 2_000
_NAMED_TASKS = 5
_MAX_OFFERED = 200
_MAX_DEPENDENCIES = 10_000


@dataclass(frozen=True)
class RunHosts:
    """The machines of a run: how many agents each may start, and when its runner was last seen."""

    agents: Mapping[str, int]
    seen: Mapping[str, int]
    gone_since: int
    """Runners that were last seen before this have lost their leases."""

    def is_there(self, host: str) -> bool:
        """Return whether a runner of the machine looks after the run."""
        return self.seen.get(host, 0) >= self.gone_since

    def describe(self, host: str, run: Run) -> str:
        """Say since when a machine does nothing for the run, and what a person can do about it."""
        last = self.seen.get(host)
        since = f"was last seen at {format_timestamp(last)}" if last else "does not take part in this run"
        return f"{host} {since}: `deepwork run {run.workflow_id}` there goes on."


class RunScheduler:
    """Hands out the tasks of runs on this host."""

    def __init__(
        self,
        database: Database,
        claimer: TaskClaimer,
        get_jobs: Callable[[], JobScheduler],
        get_profile: Callable[[str], AgentProfile],
        host: str,
        lease_ms: int,
    ) -> None:
        self._database, self._claimer, self._get_jobs = database, claimer, get_jobs
        self._get_profile, self._host, self._lease_ms = get_profile, host, lease_ms
        self._runs = RunService(database)
        self._looked_at: dict[str, int] = {}

    def advance(self, run: Run, agents: int, now: int, *, is_urgent: bool) -> bool:
        """Start what can start, or end the run; return whether anything happened."""
        if not is_urgent and now - self._looked_at.get(run.id, 0) < _LOOK_EVERY_MS:
            return False
        self._looked_at[run.id] = now
        with self._database.reading() as tx:
            attempts = AttemptStore(tx).list_of_run(run.id, is_open=True)
            spent = RunStore(tx).sum_usd_micros(run.id)
        if run.status in (RunStatus.ENDING, RunStatus.STOPPING):
            return self._stop(run, attempts)
        if run.options.until is not None and now >= run.options.until:
            self._runs.set_status(run.id, RunStatus.ENDING, TIME_IS_OVER)
            return True
        if run.status is RunStatus.PAUSED:
            return False
        return self._schedule(run, agents, attempts, spent)

    def _stop(self, run: Run, attempts: Sequence[Attempt]) -> bool:
        if attempts:
            return self._claimer.end_lost_attempts(attempts, run.reason or STOPPED)
        self._runs.set_status(run.id, RunStatus.STOPPED, run.reason)
        return True

    def _schedule(self, run: Run, agents: int, attempts: Sequence[Attempt], spent: int) -> bool:
        limit = _find_limit(run, attempts, spent)
        if run.workflow_id is None:
            return not any(map(is_working, attempts)) and self._get_jobs().advance(run, attempts, limit)
        hosts = self._find_hosts(run)
        attempts, lost = _split_lost(attempts, hosts, self._host)
        free = agents - sum(attempt.host == self._host and is_working(attempt) for attempt in attempts)
        if (free <= 0 or limit) and any(map(is_working, attempts)):
            return False
        with self._database.reading() as tx:
            offered = list_next_tasks(tx, run.workflow_id)
        refused: NothingClaimed | None = None
        if free > 0 and not limit:
            # Attempts of this host go on with their tasks themselves.
            own = {attempt.task_id for attempt in attempts if attempt.host == self._host}
            tasks = [task.id for task in offered.tasks if task.id not in own]
            started, refused = self._start_tasks(run, tasks, attempts, free, is_limited=True)
            if started:
                if run.reason:
                    self._runs.set_reason(run.id, None)
                return True
        if any(map(is_working, attempts)) or (refused and self._waits_for_host(run, refused, hosts)):
            return False
        if any(map(is_held, attempts)):
            return False  # a person says when they continue
        problem = _explain_refusal(run, refused, hosts) if refused else None
        return self._end_if_over(run, offered, attempts, limit or problem, _explain_lost(run, lost, hosts))

    def _find_hosts(self, run: Run) -> RunHosts:
        with self._database.reading() as tx:
            agents, seen = RunStore(tx).list_hosts(run.id), RunStore(tx).map_last_seen(run.id)
            return RunHosts(agents, seen, tx.now - self._lease_ms)

    def _waits_for_host(self, run: Run, refused: NothingClaimed, hosts: RunHosts) -> bool:
        """Return whether another machine of the run can start what this one cannot; say so in the run."""
        can_start = bool(refused.host and hosts.agents.get(refused.host) and hosts.is_there(refused.host))
        reason = f"{refused.reason} It waits for {refused.host}, which has all of it."
        if can_start and run.reason != reason:
            self._runs.set_reason(run.id, reason)
        return can_start

    def settle(self, run_id: str) -> None:
        """End a run if nothing of it can go on without a person; starts nothing."""
        with self._database.reading() as tx:
            run, now = RunStore(tx).find(run_id), tx.now
        if run is not None and not run.status.is_final:
            self.advance(run, 0, now, is_urgent=True)

    def start_one(
        self, run: Run, chain: Sequence[str], labels: Collection[str] | None = None
    ) -> Attempt | NothingClaimed | None:
        """Claim the first task that one of these agents may work on; None if there is none.

        With `labels`, only a task whose required capabilities are all among them.
        """
        with self._database.reading() as tx:
            attempts = AttemptStore(tx).list_of_run(run.id, is_open=True)
            spent = RunStore(tx).sum_usd_micros(run.id)
            is_late = run.options.until is not None and tx.now >= run.options.until
        if run.status is not RunStatus.ACTIVE or is_late:
            return NothingClaimed(f"Run {run.id} starts no tasks now.")
        if limit := _find_limit(run, attempts, spent):
            return NothingClaimed(limit)
        own = replace(run, chain=tuple(chain))
        kept, _ = _split_lost(attempts, self._find_hosts(run), self._host)
        started, refused = self._start_tasks(own, self._list_tasks(run, labels), kept, 1)
        return started[0] if started else refused

    def _list_tasks(self, run: Run, labels: Collection[str] | None) -> list[str]:
        with self._database.reading() as tx:
            if labels is None:
                return [task.id for task in list_next_tasks(tx, run.workflow_id or "").tasks]
            workflow = PlanStore(tx).get(run.workflow_id or "")
            return [task.id for task in Scheduler(tx).list_available(labels, workflow, _MAX_OFFERED).tasks]

    def _start_tasks(
        self,
        run: Run,
        task_ids: Sequence[str],
        attempts: Sequence[Attempt],
        free: int,
        *,
        is_limited: bool = False,
    ) -> tuple[list[Attempt], NothingClaimed | None]:
        """Claim as many tasks as agents are free; return the attempts, and why there are no more.

        `is_limited`: other processes of this host may start agents of the run, too.
        """
        started: list[Attempt] = []
        refused: NothingClaimed | None = None
        unfinished = {attempt.task_id for attempt in attempts}
        for task_id in task_ids:
            if len(started) >= free:
                break
            outcome = self._start(run, task_id, unfinished, is_limited=is_limited)
            if isinstance(outcome, Attempt):
                started.append(outcome)
            elif isinstance(outcome, NothingClaimed) and not (refused and refused.host):
                refused = outcome
        return started, refused

    def _start(
        self, run: Run, task_id: str, unfinished: Collection[str], *, is_limited: bool
    ) -> Attempt | NothingClaimed | None:
        with self._database.reading() as tx:
            task = TaskStore(tx).get(task_id)
            dependencies, _ = TaskStore(tx).list_done_dependencies(task, _MAX_DEPENDENCIES)
            if any(each.id in unfinished for each in dependencies):
                return None  # an agent has completed it, and its work is not committed yet
            if run.options.land and find_role(tx, run.workflow_id, task_id)[1] is WishRole.REVIEWER:
                problem = _find_unlanded(tx, [each.id for each in dependencies])
                if problem:  # it would look at less than the whole
                    return NothingClaimed(problem)
            name = find_next_profile(tx, run, task)
            if name is None:
                return NothingClaimed(f"Every agent of the chain has tried task {task.name!r}.")
            profile = self._get_profile(name)
            if is_limit_sure(*AttemptStore(tx).count_at_limit(profile.kind, profile.name, self._host)):
                return None
        return self._claimer.claim(run, task_id, profile, is_limited=is_limited)

    def _end_complete(self, run: Run) -> None:
        """End a run whose plan is completed; a person is needed for what could not land."""
        with self._database.reading() as tx:
            unlanded = LandingStore(tx).list_open_of_plan(run.workflow_id or "") if run.options.land else []
            attempts = AttemptStore(tx).list_of_run(run.id) if run.options.land else []
        last = {attempt.task_id: attempt.reason or "" for attempt in attempts}
        problem = next((reason for reason in last.values() if reason.startswith(NOT_LANDED)), None)
        if unlanded or problem:
            reason = _describe_unlanded(unlanded) if unlanded else problem
            self._runs.set_status(run.id, RunStatus.NEEDS_PERSON, reason)
        else:
            self._runs.set_status(run.id, RunStatus.DONE)

    def _end_if_over(
        self, run: Run, offered: NextTasks, attempts: Sequence[Attempt], problem: str | None, lost: str | None
    ) -> bool:
        """End the run if nothing of it can go on without a person; `lost`: why attempts cannot end."""
        status = offered.workflow_status
        if offered.all_complete or status is PlanStatus.COMPLETED:
            if attempts:
                return False
            if lost:
                self._runs.set_status(run.id, RunStatus.NEEDS_PERSON, lost)
            else:
                self._end_complete(run)
            return True
        if status is PlanStatus.ABANDONED:
            self._runs.set_status(run.id, RunStatus.STOPPED, "The plan was abandoned.")
            return True
        if status is PlanStatus.PAUSED or offered.running > _count_waiting(attempts):
            return False  # others work on it
        if offered.tasks and problem is None:
            return False  # a limit ends by itself
        self._runs.set_status(
            run.id, RunStatus.NEEDS_PERSON, problem or lost or self._describe_need(offered, attempts)
        )
        return True

    def _describe_need(self, offered: NextTasks, attempts: Sequence[Attempt]) -> str:
        """Say what needs a person: what the attempts wait for, then other tasks, by their names."""
        parts = [attempt.reason for attempt in attempts if attempt.reason]
        told = {attempt.task_id for attempt in attempts if attempt.reason}
        if others := [id for id in offered.needs_person or () if id not in told][:_NAMED_TASKS]:
            with self._database.reading() as tx:
                tasks = TaskStore(tx).find_by_ids(others)
            named = ", ".join(repr(tasks[id].name) for id in others if id in tasks)
            parts.append(
                f"These tasks wait for a person: {named}. `deepwork status` has the command for each."
            )
        if offered.approval:
            parts.append("The plan waits for an approval: `deepwork approvals list`.")
        return " ".join(parts) or offered.reason or "No task can start without a person."


def list_next_tasks(tx: Transaction, workflow_id: str) -> NextTasks:
    """List the tasks of a plan that can start now, or why none can."""
    return Scheduler(tx).list_next_tasks(
        PlanStore(tx).get(workflow_id), include_failed=True, limit=_MAX_OFFERED
    )


def _split_lost(
    attempts: Sequence[Attempt], hosts: RunHosts, here: str
) -> tuple[list[Attempt], list[Attempt]]:
    """Separate the attempts of machines that are gone: nothing happens there, whatever their rows say."""
    kept = [each for each in attempts if each.host == here or hosts.is_there(each.host)]
    return kept, [each for each in attempts if each not in kept]


def _explain_refusal(run: Run, refused: NothingClaimed, hosts: RunHosts) -> str:
    """Say why a task cannot start, and about the machine that could start it, why that does not."""
    return f"{refused.reason} {hosts.describe(refused.host, run)}" if refused.host else refused.reason


def _explain_lost(run: Run, lost: Sequence[Attempt], hosts: RunHosts) -> str | None:
    gone = dict.fromkeys(each.host for each in lost)
    said = " ".join(hosts.describe(host, run) for host in gone)
    return f"Work on {', '.join(gone)} has not ended. {said}" if gone else None


def _describe_unlanded(unlanded: Sequence[Landing]) -> str:
    named = ", ".join(repr(each.title) for each in unlanded[:_NAMED_TASKS])
    return f"These tasks have not landed: {named}. `deepwork landings list --open` says why."


def _find_unlanded(tx: Transaction, task_ids: Sequence[str]) -> str | None:
    """Say which completed tasks have not landed, in this run or an earlier one; None if all have."""
    landings = LandingStore(tx).find_newest(task_ids)
    if unlanded := [each for each in landings.values() if not each.status.is_final]:
        return _describe_unlanded(unlanded)
    rest = [id for id in task_ids if id not in landings]
    last = {attempt.task_id: attempt.reason or "" for attempt in AttemptStore(tx).list_of_tasks(rest)}
    return next((reason for reason in last.values() if reason.startswith(NOT_LANDED)), None)


def _count_waiting(attempts: Sequence[Attempt]) -> int:
    return sum(attempt.stage is AttemptStage.PARKED for attempt in attempts)


def _find_limit(run: Run, attempts: Sequence[Attempt], spent: int) -> str | None:
    """Return why the run must not start more: its money, or work that waits for a person."""
    if overrun := find_run_overrun(run.options, spent):
        return overrun
    waiting = sum(attempt.stage is AttemptStage.REVIEWING for attempt in attempts)
    if run.options.max_unreviewed is not None and waiting >= run.options.max_unreviewed:
        results = "1 result waits" if waiting == 1 else f"{waiting} results wait"
        return f"{results} for a person: `deepwork approvals list`."
    return None
