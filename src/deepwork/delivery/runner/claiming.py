"""Claims work for agents, as long as budgets allow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from deepwork.delivery.landing.models import LandingStatus
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.models import FAILED_STAGES, Attempt, AttemptStage, Run, RunEvent, RunStatus
from deepwork.delivery.runner.plan_work import PlanWork
from deepwork.delivery.runner.profiles import AgentProfile
from deepwork.delivery.runner.prompts import build_correction_prompt, build_words_prompt
from deepwork.delivery.runner.responses import build_payload, describe_attempt
from deepwork.delivery.runner.rules import choose_profile, find_run_overrun, is_held
from deepwork.delivery.runner.service import has_room, move_attempt
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.delivery.runner.words import has_unheard_words
from deepwork.delivery.runner.work_sources import StepBudget, WorkItem, WorkPlace, WorkSources
from deepwork.gates.budgets.models import Cost, SubjectKind
from deepwork.gates.budgets.rules import find_own_refusal
from deepwork.gates.budgets.service import BudgetService
from deepwork.kernel.database.transaction import Database, Transaction, join_transaction
from deepwork.kernel.errors import DeepworkError, StorageError
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import copy_with, new_id
from deepwork.work.agents.store import LeaseStore
from deepwork.work.plans.admission import Admission
from deepwork.work.plans.models import Task
from deepwork.work.plans.responses import Claimed
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.wishes.models import WishRole
from deepwork.work.wishes.store import find_role
from deepwork.work.workspaces.finished_work import describe_elsewhere
from deepwork.work.workspaces.models import WORK_ELSEWHERE
from deepwork.work.workspaces.service import WorkspaceService

STOPPED = "The run was stopped."


@dataclass(frozen=True)
class NothingClaimed:
    """Why no task was claimed."""

    reason: str
    host: str | None = None
    """The other machine that has the work of all dependencies, and so may start the task."""


class TaskClaimer:
    """Claims tasks for attempts on this host."""

    def __init__(
        self,
        database: Database,
        plans: PlanWork,
        workspaces: WorkspaceService,
        host: str,
        take: Callable[[str], object],
    ) -> None:
        """`take` gets the id of each attempt before other processes can see it, and look after it."""
        self._database, self._plans, self._workspaces, self._host = database, plans, workspaces, host
        self._take = take

    def claim(
        self, run: Run, task_id: str, profile: AgentProfile, *, is_limited: bool
    ) -> Attempt | NothingClaimed | None:
        """Claim a task and store its attempt, in one transaction; None if others were faster.

        `is_limited`: only while fewer agents of the run work on this host than it may start.
        """
        if missing := self._find_missing(run, task_id):
            return missing
        with self._database.transaction() as tx, join_transaction(tx):
            if RunStore(tx).get_for_update(run.id).status.is_final:
                return NothingClaimed("The run has ended.")
            if is_limited and not has_room(tx, run.id, self._host):
                return None
            if (known := AttemptStore(tx).find_open_of_task(task_id)) and is_held(known):
                return NothingClaimed(f"{known.reason} `deepwork runs give-back {known.id}` continues it.")
            attempt_id = new_id("at")
            agent_id = self._plans.register_agent(attempt_id, profile, TaskStore(tx).get(task_id).name)
            left = self._workspaces.leave_elsewhere(tx, task_id)
            claimed = self._plans.claim(task_id, agent_id)
            if not claimed.success or claimed.claim_epoch is None:
                self._workspaces.take_back(tx, task_id, left)
                return self._give_up(agent_id, claimed)
            if claimed.workspace_id is None:
                self._provide_tree(tx, task_id)
            self._end_lost_attempt(tx, task_id)
            self._take(attempt_id)
            epoch = claimed.claim_epoch
            built = self._build_attempt(tx, run, task_id, attempt_id, agent_id, profile, epoch)
            attempt = self._continue_session(tx, built)
            _add_attempt(tx, attempt)
            return attempt

    def _find_missing(self, run: Run, task_id: str) -> NothingClaimed | None:
        """Refuse a task whose tree would not have the work of its dependencies, unless that is wanted."""
        found = self._workspaces.look_for_dependencies(task_id)
        if not found.elsewhere:
            return None
        if run.options.without_dependencies:
            self._workspaces.accept_missing(task_id)
            return None
        [host] = found.hosts if len(found.hosts) == 1 else [None]
        reason = f"{WORK_ELSEWHERE}: {describe_elsewhere(found.elsewhere)}"
        return NothingClaimed(reason, host=host)

    def _continue_session(self, tx: Transaction, attempt: Attempt) -> Attempt:
        """Let the session that did the work continue, if its work was returned after its attempt ended.

        A landing returns it, or a person who says something about work that was done.
        """
        if continued := self._continue_for_words(tx, attempt):
            return continued
        landing = LandingStore(tx).find_open(attempt.task_id)
        if landing is None or landing.status is not LandingStatus.RETURNED:
            return attempt
        last = AttemptStore(tx).find(landing.attempt_id or "")
        if last is None or not _has_session_of(last, attempt):
            return attempt
        prompt = build_correction_prompt(landing.reason or "The work could not land.", landing.title)
        return copy_with(attempt, vendor_session=last.vendor_session, next_prompt=prompt)

    def _continue_for_words(self, tx: Transaction, attempt: Attempt) -> Attempt | None:
        earlier = AttemptStore(tx).list_of_task(attempt.task_id)
        if not earlier or earlier[-1].stage is not AttemptStage.DONE:
            return None
        if not (_has_session_of(earlier[-1], attempt) and has_unheard_words(tx, attempt.task_id)):
            return None
        prompt = build_words_prompt(TaskStore(tx).get(attempt.task_id).name)
        return copy_with(attempt, vendor_session=earlier[-1].vendor_session, next_prompt=prompt)

    def _provide_tree(self, tx: Transaction, task_id: str) -> None:
        """Assign a worktree together with the claim: what a task changes is tracked where it is claimed."""
        task = TaskStore(tx).get(task_id)
        workflow = self._workspaces.repositories.localize(tx, PlanStore(tx).get(task.workflow_id))
        self._workspaces.provide_for_task(tx, workflow, task, others=1, is_required=True)

    def end_lost_attempts(self, attempts: Sequence[Attempt], reason: str) -> bool:
        """End attempts of other hosts that have no lease any more; return whether there were any.

        A host that is gone for good cannot do so itself; while its lease is alive, nobody else may.
        """
        others = [attempt for attempt in attempts if attempt.host != self._host]
        if not others:
            return False
        with self._database.transaction() as tx:
            lost = [attempt for attempt in others if not _has_lease(tx, attempt)]
            ended = [move_attempt(tx, attempt, AttemptStage.STOPPED, reason=reason) for attempt in lost]
            return any(ended)

    def begin_step(self, run: Run, step_id: str, profile: AgentProfile, place: WorkPlace) -> Attempt | None:
        """Store the attempt at a step of a job; None if another process has begun, or the run has ended.

        Nobody else can take a step, so there is no claim; the agent is registered all the same.
        """
        with self._database.transaction() as tx, join_transaction(tx):
            current = RunStore(tx).get_for_update(run.id)  # locked, so only one process begins
            if current.status is not RunStatus.ACTIVE or AttemptStore(tx).list_of_run(run.id, is_open=True):
                return None
            attempt_id = new_id("at")
            agent_id = self._plans.register_agent(attempt_id, profile, step_id.rpartition("/")[2])
            attempt = self._build_attempt(tx, run, step_id, attempt_id, agent_id, profile, epoch=0)
            self._take(attempt_id)
            placed: Attempt = copy_with(attempt, tree=str(place.tree), branch=place.branch)
            _add_attempt(tx, placed)
            return placed

    def _build_attempt(
        self,
        tx: Transaction,
        run: Run,
        task_id: str,
        attempt_id: str,
        agent_id: str,
        profile: AgentProfile,
        epoch: int,
    ) -> Attempt:
        return Attempt(
            id=attempt_id,
            run_id=run.id,
            workflow_id=run.workflow_id,
            task_id=task_id,
            number=1 + AttemptStore(tx).count_of_tasks([task_id]).get(task_id, 0),
            profile=profile.name,
            vendor=profile.kind,
            agent_id=agent_id,
            claim_epoch=epoch,
            stage=AttemptStage.CLAIMED,
            host=self._host,
            created_at=tx.now,
            updated_at=tx.now,
        )

    def _give_up(self, agent_id: str, claimed: Claimed) -> NothingClaimed | None:
        self._plans.unregister_agent(agent_id)
        if claimed.reason == "claimed":
            return None
        reason = claimed.message or str(claimed.reason)
        return NothingClaimed(reason)

    def _end_lost_attempt(self, tx: Transaction, task_id: str) -> None:
        """End the attempt of a host that lost its lease: its late results get STALE_CLAIM, its tree stays."""
        if left := AttemptStore(tx).find_open_of_task(task_id):
            move_attempt(
                tx, left, AttemptStage.STOPPED, reason=f"Its lease ended; {self._host} took the task."
            )


def _has_session_of(last: Attempt, attempt: Attempt) -> bool:
    """Return whether an attempt has a session that this one, of the same agent and host, can continue."""
    owner = (attempt.profile, attempt.host)
    return last.vendor_session is not None and (last.profile, last.host) == owner


def _has_lease(tx: Transaction, attempt: Attempt) -> bool:
    """Return whether the attempt holds its task, by the store's clock."""
    lease = LeaseStore(tx, lease_ms=0).find(attempt.task_id)
    return lease is not None and lease.who == attempt.agent_id and lease.until >= tx.now


def _add_attempt(tx: Transaction, attempt: Attempt) -> None:
    AttemptStore(tx).add(attempt)
    tx.emit(RunEvent.ATTEMPT_STARTED, build_payload(describe_attempt(attempt)), attempt.workflow_id)


def find_next_profile(tx: Transaction, run: Run, task: WorkItem) -> str | None:
    """Return who works on the task next; None if every agent of the chain has tried as often as it may."""
    attempts = AttemptStore(tx).list_of_task(task.id)
    wish, role = find_role(tx, run.workflow_id, task.id)
    reviewer = wish.options.reviewer if wish and role is WishRole.REVIEWER else None
    chain = (reviewer,) if reviewer else run.chain
    used_up = max((attempt.number for attempt in attempts if attempt.exhausted), default=0)
    failed = [attempt for attempt in attempts if attempt.stage in FAILED_STAGES and attempt.number > used_up]
    return choose_profile(chain, failed, task.max_attempts)


class SpendingLimits:
    """Compares what attempts have spent with what they may."""

    def __init__(self, database: Database, sources: WorkSources) -> None:
        self._database, self._sources = database, sources

    def find_overruns(self, runs: Mapping[str, Run], attempts: Sequence[Attempt]) -> dict[str, str]:
        """Return which budget is used up, by the id of the attempt; announces it if it is that of a plan."""
        if not attempts:
            return {}
        with self._database.reading() as tx:
            of_runs = dict(_list_overrun_runs(tx, runs, attempts))
            found = {each.id: of_runs[each.run_id] for each in attempts if each.run_id in of_runs}
            rest = [each for each in attempts if each.id not in found]
            over = set(_list_overrun_tasks(tx, rest))
        announced = {each.id: self._announce(each) for each in rest if each.task_id in over}
        announced |= {each.id: self._find_step_overrun(each) for each in rest if each.workflow_id is None}
        return found | {id: message for id, message in announced.items() if message}

    def _find_step_overrun(self, attempt: Attempt) -> str | None:
        try:
            limit = self._sources.find(attempt).find_budget(attempt)
        except StorageError:
            raise
        except DeepworkError:  # job.yml is being edited; what was allowed before is not known any more
            return None
        if limit is None:
            return None
        with self._database.transaction() as tx:
            message = find_step_overrun(tx, attempt.task_id, limit, _find_running_since(attempt))
            if message:
                BudgetService(tx).mark_reached(SubjectKind.TASK, attempt.task_id, None, message)
            return message

    def _announce(self, attempt: Attempt) -> str | None:
        with self._database.transaction() as tx:
            task = TaskStore(tx).get(attempt.task_id)
            workflow = PlanStore(tx).get_for_update(task.workflow_id)
            overrun = Admission(tx, workflow, is_claim=True).find_overrun(task)
            return overrun.message if overrun else None


def find_step_overrun(
    tx: Transaction, task_id: str, limit: StepBudget, running_since: int | None = None
) -> str | None:
    """Return why nothing more may be spent on a step; its minutes are those in which an agent worked."""
    tokens, usd_micros = AttemptStore(tx).sum_of_task(task_id)
    worked = BudgetService(tx).find_total(SubjectKind.TASK, task_id).cost.active_ms
    worked += max(0, tx.now - running_since) if running_since is not None else 0
    refusal = find_own_refusal(limit.budget, Cost(usd_micros, tokens, worked), limit.hint, "step")
    return refusal.message if refusal else None


def _find_running_since(attempt: Attempt) -> int | None:
    return attempt.started_at if attempt.stage is AttemptStage.RUNNING else None


def _list_overrun_runs(
    tx: Transaction, runs: Mapping[str, Run], attempts: Sequence[Attempt]
) -> Iterator[tuple[str, str]]:
    for run_id in sorted({each.run_id for each in attempts}):
        options = runs[run_id].options
        if options.max_usd is None:
            continue
        if overrun := find_run_overrun(options, RunStore(tx).sum_usd_micros(run_id)):
            yield run_id, overrun


def _list_overrun_tasks(tx: Transaction, attempts: Sequence[Attempt]) -> Iterator[str]:
    """List the tasks that have used up a budget of their own or of their plan."""
    of_plans = [each.task_id for each in attempts if each.workflow_id is not None]
    tasks = TaskStore(tx).find_by_ids(of_plans) if of_plans else {}
    by_plan: dict[str, list[Task]] = {}
    for task in tasks.values():
        by_plan.setdefault(task.workflow_id, []).append(task)
    for workflow_id, of_plan in by_plan.items():
        admission = Admission(tx, PlanStore(tx).get(workflow_id))
        yield from (task.id for task in of_plan if admission.find_overrun(task))
