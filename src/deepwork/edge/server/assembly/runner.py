"""Builds the runner of agents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.delivery.provenance.store import LinkRecorder
from deepwork.delivery.runner.attempt_engine import AttemptEngine
from deepwork.delivery.runner.attempt_files import AttemptLocks
from deepwork.delivery.runner.claiming import TaskClaimer
from deepwork.delivery.runner.finishing import AttemptFinisher, AttemptLander
from deepwork.delivery.runner.plan_work import PlannedTasks, PlanWork
from deepwork.delivery.runner.preparing import AttemptPreparer, RunnerFolders
from deepwork.delivery.runner.runner import Runner
from deepwork.delivery.runner.scheduling import RunScheduler
from deepwork.delivery.runner.work_sources import Finishers, WorkSources
from deepwork.delivery.runner.workspace_setup import build_workspace_settings
from deepwork.edge.server.assembly.trees import open_git
from deepwork.edge.server.invocation import invoke, perform
from deepwork.edge.server.registry import index_by_name
from deepwork.kernel.call import Call
from deepwork.kernel.records import dataclass
from deepwork.work.plans.models import list_required_checks
from deepwork.work.plans.stores.task_store import TaskStore

if TYPE_CHECKING:
    from deepwork.delivery.landing.responses import LandResult
    from deepwork.delivery.landing.service import LandingService
    from deepwork.delivery.runner.job_finishing import JobStepFinisher
    from deepwork.delivery.runner.job_runs import JobScheduler, JobStarter
    from deepwork.delivery.runner.job_steps import JobServices, JobSteps
    from deepwork.delivery.runner.models import Attempt
    from deepwork.delivery.runner.preparing import AgentDoor
    from deepwork.delivery.runner.profiles import AgentProfile
    from deepwork.edge.server.assembly.jobs import JobsAssembly
    from deepwork.edge.server.registry import OperationSpec
    from deepwork.gates.checks.service import CheckService
    from deepwork.kernel.config import Settings
    from deepwork.kernel.database.transaction import Database
    from deepwork.work.plans.models import Workflow
    from deepwork.work.plans.task_proofs import TaskProver
    from deepwork.work.workspaces.service import WorkspaceService

_MAX_TASKS = 100_000
_LANDING_WAIT_SECONDS = 5.0
"""How long one look waits for another process that lands on the same branch."""


@dataclass(frozen=True)
class RunnerParts:
    """The services that the runner uses."""

    database: Database
    settings: Settings
    find_operation: Callable[[str], OperationSpec]
    prover: TaskProver
    workspaces: WorkspaceService
    get_checks: Callable[[Path], CheckService]
    build_jobs: Callable[[Settings], JobsAssembly]
    """Builds the services for jobs of another tree of the repository."""
    host: str
    lease_ms: int
    get_landings: Callable[[], LandingService]
    record_heartbeats: Callable[[Collection[str]], Mapping[str, Collection[str]]]
    open_door: Callable[[], AgentDoor]
    """Returns what answers the agents of one engine."""


def build_runner(parts: RunnerParts) -> Runner:
    """Build the runner; its engine is built when it drives."""
    return Runner(
        parts.database,
        parts.settings,
        _build_plan_work(parts),
        parts.host,
        lambda get_profile: build_engine(parts, get_profile),
        lambda workflow: _require_trusted_checks(parts, workflow),
        parts.workspaces.repositories.localize,
        lambda: _build_job_starter(parts),
        open_git,
    )


def _build_job_starter(parts: RunnerParts) -> JobStarter:
    from deepwork.delivery.runner.job_runs import JobStarter

    project = parts.settings.repository_root
    catalog = parts.build_jobs(replace(parts.settings, project_root=project)).catalog
    steps, git = build_job_steps(parts), open_git(project)
    return JobStarter(parts.database, project, catalog, steps, git, parts.get_checks, parts.host)


def build_engine(parts: RunnerParts, get_profile: Callable[[str], AgentProfile]) -> AttemptEngine:
    """Build the engine that looks after the attempts of this host."""
    database, settings, host, plans = parts.database, parts.settings, parts.host, _build_plan_work(parts)
    places = RunnerFolders(settings.repository_root, settings.state_folder)
    locks = AttemptLocks(settings.state_folder)
    claimer = TaskClaimer(database, plans, parts.workspaces, host, locks.take)
    tasks = PlannedTasks(database, plans, parts.workspaces, partial(build_workspace_settings, settings))
    get_steps = cache(lambda: build_job_steps(parts))
    sources = WorkSources(tasks, get_steps)
    finishers = Finishers(
        AttemptFinisher(database, plans, parts.prover, open_git, LinkRecorder(open_git)),
        cache(lambda: _build_job_finisher(parts, plans, get_steps())),
    )
    get_jobs = cache(lambda: _build_job_scheduler(parts, claimer, get_steps(), get_profile))
    return AttemptEngine(
        database,
        plans,
        RunScheduler(database, claimer, get_jobs, get_profile, host, parts.lease_ms),
        AttemptPreparer(
            database, sources, places, partial(build_workspace_settings, settings), parts.open_door()
        ),
        finishers,
        AttemptLander(database, plans, partial(_land_task, parts)),
        sources,
        locks,
        get_profile,
        host,
        parts.lease_ms,
        parts.record_heartbeats,
    )


def _land_task(parts: RunnerParts, attempt: Attempt) -> LandResult:
    from deepwork.delivery.landing.service import LandRequest

    request = LandRequest(attempt.workflow_id or "", attempt.task_id)
    return parts.get_landings().land(request, wait_seconds=_LANDING_WAIT_SECONDS)


# The parts for jobs are imported with the first job.


def _build_job_finisher(parts: RunnerParts, plans: PlanWork, steps: JobSteps) -> JobStepFinisher:
    from deepwork.delivery.runner.job_finishing import JobStepFinisher

    return JobStepFinisher(parts.database, plans, steps, open_git, LinkRecorder(open_git))


def _build_job_scheduler(
    parts: RunnerParts, claimer: TaskClaimer, steps: JobSteps, get_profile: Callable[[str], AgentProfile]
) -> JobScheduler:
    from deepwork.delivery.runner.job_runs import JobScheduler

    return JobScheduler(parts.database, claimer, steps, get_profile, parts.host)


def build_job_steps(parts: RunnerParts) -> JobSteps:
    """Build what gives the steps of jobs to agents, each run in a tree of its own."""
    from deepwork.delivery.runner.job_steps import JobSteps

    opened: dict[Path, JobServices] = {}

    def open_jobs(tree: Path) -> JobServices:
        if tree not in opened:
            opened[tree] = _open_jobs(parts, tree)
        return opened[tree]

    return JobSteps(parts.database, open_jobs, open_git, partial(build_workspace_settings, parts.settings))


def _open_jobs(parts: RunnerParts, tree: Path) -> JobServices:
    """Return the jobs of a tree, as a server that serves it as its project would, on the same store."""
    from deepwork.delivery.runner.job_steps import JobServices

    jobs = parts.build_jobs(replace(parts.settings, project_root=tree))
    specs = index_by_name([jobs.tools])
    return JobServices(jobs.catalog, jobs.sessions, partial(_call_job_tool, parts.database, specs))


def _require_trusted_checks(parts: RunnerParts, workflow: Workflow) -> None:
    """Raise GateClosed if the plan has checks whose commands nobody trusted."""
    with parts.database.reading() as tx:
        tasks, _ = TaskStore(tx).list_by_workflow(workflow.id, _MAX_TASKS)
    required = [list_required_checks(workflow.requirements, task.requirements) for task in tasks]
    names = sorted({name for names in required for name in names})
    if names and workflow.base_commit:
        root = Path(workflow.repository_path or "")
        parts.get_checks(root).require_trusted(root, workflow.base_commit, names)


def _build_plan_work(parts: RunnerParts) -> PlanWork:
    def perform_operation(name: str, arguments: Mapping[str, Any]) -> Any:
        return perform(parts.database, parts.find_operation(name), arguments, _build_call(name))

    return PlanWork(perform_operation)


def _call_job_tool(
    database: Database,
    specs: Mapping[str, OperationSpec],
    tool: str,
    arguments: Mapping[str, Any],
    *,
    key: str,
) -> Mapping[str, Any]:
    answer: Mapping[str, Any] = invoke(database, specs[tool], arguments, _build_call(tool, key))
    return answer


def _build_call(tool: str, key: str | None = None) -> Call:
    """Build a call as the commands of this machine make it."""
    return Call(tool=tool, key=key, patience=None, carries_notices=False)
