"""The runner: starts runs, drives them until they have ended, and survives being killed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.delivery.runner.attempt_engine import AttemptEngine
from deepwork.delivery.runner.models import Run, RunOptions, RunRequest, WorkResult, WorkStatus
from deepwork.delivery.runner.plan_work import PlanWork
from deepwork.delivery.runner.profiles import (
    DEFAULT_CHAIN,
    AgentProfile,
    ProfileCatalog,
    load_catalog,
    require_any_agent,
    require_program,
)
from deepwork.delivery.runner.rules import is_held
from deepwork.delivery.runner.scheduling import list_next_tasks
from deepwork.delivery.runner.service import RunService, create_run
from deepwork.delivery.runner.store import AttemptStore
from deepwork.delivery.runner.worker import PlanDone, Worker, repeat_until_over
from deepwork.delivery.runner.workspace_setup import require_trusted_setup
from deepwork.kernel.call import current_call
from deepwork.kernel.config import STATE_FOLDER, Settings, require_known_keys
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.files.repositories import find_tree_root
from deepwork.kernel.git.refs import FIRST_COMMIT, get_commit
from deepwork.kernel.git.uncommitted import list_uncommitted
from deepwork.work.plans.models import PlanStatus, Workflow
from deepwork.work.plans.scheduling import Scheduler
from deepwork.work.plans.stores.plan_store import PlanStore

if TYPE_CHECKING:
    from deepwork.delivery.runner.job_runs import JobStarter
    from deepwork.kernel.git.command import Git


class Runner:
    """Runs plans and jobs with agents on this host."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        plans: PlanWork,
        host: str,
        build_engine: Callable[[Callable[[str], AgentProfile]], AttemptEngine],
        require_trusted_checks: Callable[[Workflow], None],
        localize: Callable[[Transaction, Workflow], Workflow],
        build_job_starter: Callable[[], JobStarter],
        open_git: Callable[[Path], Git],
    ) -> None:
        self._database, self._settings, self._plans, self._host = database, settings, plans, host
        self._build_engine, self._require_trusted_checks = build_engine, require_trusted_checks
        self._localize, self._build_job_starter = localize, build_job_starter
        self._open_git = open_git
        self._runs = RunService(database)

    # Starting

    def start_plan(self, workflow_id: str, request: RunRequest, *, is_local: bool = True) -> Run:
        """Start a run of a plan, or join the one that goes on.

        Unless `is_local`, this host starts no tasks of it: another engine calls `work_in_run`.
        """
        try:
            self._load_runnable(workflow_id)
        except NotAllowed:  # such as after the plan was completed by another host
            self._end_strays()
            raise
        chain = self._choose_chain(request)
        new = self._build_run(workflow_id, request, chain)
        with self._database.reading() as tx:
            workflow = self._localize(tx, PlanStore(tx).get(workflow_id))
        self._require_sound_settings()
        self._require_trusted_checks(workflow)
        if request.parallel and request.parallel > workflow.max_parallel_tasks:
            self._plans.set_parallelism(workflow.id, request.parallel)
        agents = (request.parallel or self._settings.run_agents) if is_local else None
        return self._runs.start(new, self._host, agents, changed=tuple(request.options))

    def start_job(self, job_workflow: str, goal: str, request: RunRequest) -> Run:
        """Start a run of a job, or let the one with the same goal go on that is not done yet.

        Its agents work in a worktree of their own, on a branch that begins at the last commit.
        """
        jobs = self._build_job_starter()
        name, _ = jobs.find(job_workflow)
        self._require_commit(jobs.project)
        new = self._build_job_run(name, goal, request, jobs.project)
        self._require_sound_settings()
        jobs.require_trusted_checks(name)
        known = jobs.find_unfinished(name, new.goal or "")
        return self._runs.start(new, self._host, 1, changed=tuple(request.options), known=known)

    def _build_job_run(self, job: str, goal: str, request: RunRequest, project: Path) -> Run:
        if not goal.strip():
            raise InvalidInput("A job has to know what it is run for.", suggestion="Pass --goal TEXT.")
        chain = self._choose_chain(request)
        with self._database.reading() as tx:
            now = tx.now
        return create_run(
            repository_path=str(project),
            chain=[profile.name for profile in chain],
            options=build_run_options(self._settings, {**request.options, "chain_name": request.chain}),
            created_by=current_call().caller,
            now=now,
            job=job,
            goal=goal.strip(),
        )

    def _end_strays(self) -> None:
        """End agents of this host whose attempts ended in the store while no runner looked after them."""
        with closing(self._build_engine(self._find_profile)) as engine:
            engine.end_strays()

    def _build_run(self, workflow_id: str, request: RunRequest, chain: Sequence[AgentProfile]) -> Run:
        workflow, now = self._load_runnable(workflow_id)
        return create_run(
            repository_path=workflow.repository_path or "",
            chain=[profile.name for profile in chain],
            options=build_run_options(self._settings, {**request.options, "chain_name": request.chain}),
            created_by=current_call().caller,
            now=now,
            workflow_id=workflow.id,
        )

    def _load_runnable(self, workflow_id: str) -> tuple[Workflow, int]:
        """Return a plan that can be run, and the time; raises PlanDone if there is nothing left to do."""
        with self._database.reading() as tx:
            workflow = self._localize(tx, PlanStore(tx).get(workflow_id))
            now, is_left = tx.now, AttemptStore(tx).has_open_of_plan(workflow_id)
        _require_runnable(workflow, is_left=is_left)
        self._require_commit(Path(workflow.repository_path or self._settings.repository_root))
        return workflow, now

    def _require_commit(self, project: Path) -> None:
        """Raise unless worktrees can be made of the project: each begins with a commit."""
        if find_tree_root(project) is None:
            raise NotAllowed(
                f"{project} is in no git repository, and agents work in worktrees of one.",
                suggestion=f"Make one: `git init && {FIRST_COMMIT}`.",
            )
        get_commit(self._open_git(project), "HEAD")

    def require_ready(self, request: RunRequest) -> list[str]:
        """Raise unless agents can be started in this project; return who works, the first one first."""
        self._require_commit(self._settings.repository_root)
        self._require_sound_settings()
        if not request.agents and not request.chain and self._settings.run_chain == DEFAULT_CHAIN:
            require_any_agent(self._load_catalog())
        return [profile.name for profile in self._choose_chain(request)]

    def list_unseen_files(self, project: Path) -> list[str]:
        """List what is not committed in a person's checkout: agents begin with a commit, and do not see it.

        Settings of deepwork are not meant for agents.
        """
        found = list_uncommitted(self._open_git(project))
        return [path for path in found if STATE_FOLDER not in Path(path).parts]

    def _choose_chain(self, request: RunRequest) -> tuple[AgentProfile, ...]:
        catalog = self._load_catalog()
        if request.agents and request.chain:
            raise InvalidInput(
                "Name agents or a chain, not both.", suggestion="Leave out --chain or --agent."
            )
        if request.agents:
            chain = tuple(catalog.get_agent(name) for name in request.agents)
        else:
            chain = catalog.get_chain(request.chain or self._settings.run_chain)
        for profile in chain:
            require_program(profile)
        return chain

    def _require_sound_settings(self) -> None:
        require_known_keys(self._settings.project_root)
        require_trusted_setup(self._settings)

    def _load_catalog(self) -> ProfileCatalog:
        return load_catalog()

    def preview(self, workflow_id: str, request: RunRequest) -> list[dict[str, Any]]:
        """Describe what would be started first, and how; starts and stores nothing."""
        require_known_keys(self._settings.project_root)
        self._load_runnable(workflow_id)
        profile = self._choose_chain(request)[0]
        run = self._build_run(workflow_id, request, [profile])
        with self._database.reading() as tx:
            offered = list_next_tasks(tx, workflow_id)
        engine = self._build_engine(self._find_profile)
        try:
            first = offered.tasks[: request.parallel or self._settings.run_agents]
            return [engine.preview(run, task.id, profile) for task in first]
        finally:
            engine.close()

    def preview_job(self, job_workflow: str, goal: str, request: RunRequest) -> list[dict[str, Any]]:
        """Describe how the first step of a job would be started; starts and stores nothing."""
        jobs = self._build_job_starter()
        name, workflow = jobs.find(job_workflow)
        profile = self._choose_chain(request)[0]
        run = self._build_job_run(name, goal, request, jobs.project)
        engine = self._build_engine(self._find_profile)
        try:
            return [engine.preview(run, f"SESSION/{workflow.step_ids[0]}", profile)]
        finally:
            engine.close()

    # Driving

    def drive(self, run_id: str, stop: threading.Event) -> Run:
        """Work on this run, and no other, until it has ended or `stop` is set; agents go on then.

        Several processes of a host may do this: they share the attempts, and one takes over from another.
        """
        self._work(run_id, stop)
        return self._get_run(run_id)

    def _work(self, run_id: str, stop: threading.Event) -> None:
        engine = self._build_engine(self._find_profile)
        try:
            repeat_until_over(
                self._database,
                stop,
                partial(engine.tick, run_id),
                lambda _: self._get_run(run_id).status.is_final,
            )
        finally:
            engine.close()

    def carry_out(self, attempt_id: str, stop: threading.Event) -> None:
        """Look after an attempt until its agent was ended, as a person wants; another process may do that."""

        def is_over(_: bool) -> bool:
            with self._database.reading() as tx:
                attempt = AttemptStore(tx).get(attempt_id)
            return attempt.stage.is_final or attempt.wish is None or is_held(attempt)

        with closing(self._build_engine(self._find_profile)) as engine:
            repeat_until_over(self._database, stop, partial(engine.tick_one, attempt_id), is_over)

    # Working on one task

    def work_once(
        self,
        workflow_id: str | None,
        agent: str | None,
        stop: threading.Event | None = None,
        *,
        labels: Collection[str] = (),
    ) -> WorkResult:
        """Bring one attempt to its end, whatever else this host does; if `stop` is set, its agent goes on.

        It goes on with an attempt that was left on this host, or starts the oldest ready task of the plan,
        or of all open plans of this repository. It takes only tasks whose required capabilities are all
        among `labels`.
        """
        self._require_sound_settings()
        request = RunRequest(agents=(agent,) if agent else ())
        engine = self._build_engine(self._find_profile)
        try:
            join = partial(self._join_for_work, request=request)
            worker = Worker(self._database, engine, self._host, join, frozenset(labels))
            plans = self._list_open_plans(workflow_id, labels)
            return worker.work(plans, workflow_id, stop or threading.Event())
        finally:
            engine.close()

    def work_in_run(self, run_id: str, stop: threading.Event) -> tuple[WorkResult, Run]:
        """Bring one attempt of a run to its end, as `work_once` does; end the run if nothing can go on."""
        run = self._get_run(run_id)
        if run.status.is_final or run.workflow_id is None:
            return WorkResult(WorkStatus.NOTHING), run
        self._require_sound_settings()
        self._runs.join_host(run_id, self._host)
        with closing(self._build_engine(self._find_profile)) as engine:
            worker = Worker(self._database, engine, self._host, lambda _: (self._get_run(run_id), run.chain))
            result = worker.work([run.workflow_id], run.workflow_id, stop)
            if not stop.is_set():
                engine.scheduler.settle(run_id)
            return result, self._get_run(run_id)

    def _list_open_plans(self, workflow_id: str | None, labels: Collection[str]) -> Iterator[str]:
        """Yield the plans with ready tasks, the oldest first; or the one that was named."""
        if workflow_id is not None:
            yield workflow_id
            return
        with self._database.reading() as tx:
            found = Scheduler(tx, str(self._settings.repository_root)).list_offering_plans(labels)
        yield from found

    def _join_for_work(self, workflow_id: str, *, request: RunRequest) -> tuple[Run, Sequence[str]]:
        """Return the open run of a plan, or a new one, and who may work on its tasks."""
        self._load_runnable(workflow_id)
        chain = self._choose_chain(request)
        new = self._build_run(workflow_id, request, chain)
        with self._database.reading() as tx:
            workflow = PlanStore(tx).get(workflow_id)
        self._require_trusted_checks(workflow)
        run, is_of_person = self._runs.join_for_work(new, self._host)
        return run, run.chain if is_of_person and not request.agents else new.chain

    def _find_profile(self, name: str) -> AgentProfile:
        return self._load_catalog().get_agent(name)

    def _get_run(self, run_id: str) -> Run:
        run = self._runs.find(run_id)
        if run is None:
            raise NotAllowed(f"Run {run_id} was removed.")
        return run


def build_run_options(settings: Settings, given: Mapping[str, Any]) -> RunOptions:
    """Build the options of a run: what a person gave, else what the project says."""
    options = RunOptions(
        minutes=settings.run_minutes,
        stall_minutes=settings.run_stall_minutes,
        wait_at_limit=settings.run_wait_at_limit,
        resumes=settings.run_resumes,
        land=settings.run_land,
        max_unreviewed=settings.run_max_unreviewed or None,
    )
    return replace(options, **given)


def _require_runnable(workflow: Workflow, *, is_left: bool) -> None:
    """Raise NotAllowed if there is nothing to do; `is_left`: an attempt of the plan is still to be ended."""
    if workflow.status is PlanStatus.COMPLETED and not is_left:
        raise PlanDone(f"Plan {workflow.name!r} is completed: there is nothing left to do.")
    if workflow.status.is_final and not is_left:
        raise NotAllowed(
            f"Plan {workflow.name!r} is {workflow.status}.", suggestion="Run a plan that has open tasks."
        )
    if workflow.status is PlanStatus.PLANNING:
        raise NotAllowed(
            f"Plan {workflow.name!r} has no tasks yet.",
            suggestion=f"Add them: `deepwork plans set-plan {workflow.id} FILE`.",
        )
    if not workflow.repository_path or not Path(workflow.repository_path).is_dir():
        raise NotAllowed(
            f"The repository of plan {workflow.name!r} is not on this machine: {workflow.repository_path}.",
            suggestion="Run it where the repository is, or in a clone that has the commit at which the plan "
            f"started: {workflow.base_commit or 'none is known'}.",
        )
