"""Builds the runner of an application."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.delivery.provenance.recorder import LinkRecorder
from deepwork.delivery.runner.attempt_locks import AttemptLocks
from deepwork.delivery.runner.claiming import TaskClaimer
from deepwork.delivery.runner.engine import AttemptEngine
from deepwork.delivery.runner.finishing import AttemptFinisher
from deepwork.delivery.runner.job_finishing import JobStepFinisher
from deepwork.delivery.runner.job_scheduling import JobScheduler
from deepwork.delivery.runner.job_starting import JobStarter
from deepwork.delivery.runner.job_steps import JobServices, JobSteps
from deepwork.delivery.runner.landing import AttemptLander
from deepwork.delivery.runner.loop import Runner
from deepwork.delivery.runner.planned_tasks import PlannedTasks
from deepwork.delivery.runner.preparing import AttemptPreparer, Places
from deepwork.delivery.runner.run_settings import build_workspace_settings
from deepwork.delivery.runner.scheduling import RunScheduler
from deepwork.delivery.runner.work_kinds import Finishers, WorkSources
from deepwork.edge.server.git_access import open_git
from deepwork.edge.server.invocation import invoke
from deepwork.edge.server.registry import index_by_name
from deepwork.kernel.call import Call
from deepwork.work.plans.models import list_required_checks
from deepwork.work.plans.stores.task_store import TaskStore

if TYPE_CHECKING:
    from deepwork.delivery.landing.service import LandingService
    from deepwork.delivery.runner.interfaces import AgentDoor, ToolCaller
    from deepwork.delivery.runner.profiles import AgentProfile
    from deepwork.edge.server.jobs_assembly import JobsAssembly
    from deepwork.edge.server.registry import OperationSpec
    from deepwork.gates.checks.service import CheckService
    from deepwork.kernel.config import Settings
    from deepwork.kernel.database.transaction import Database
    from deepwork.work.plans.models import Workflow
    from deepwork.work.plans.task_proofs import TaskProver
    from deepwork.work.workspaces.service import WorkspaceService

_MAX_TASKS = 100_000


@dataclass(frozen=True)
class RunnerParts:
    """The services that the runner uses."""

    database: Database
    settings: Settings
    call: ToolCaller
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
        parts.call,
        parts.host,
        lambda get_profile: build_engine(parts, get_profile),
        lambda workflow: _require_trusted_checks(parts, workflow),
        parts.workspaces.repositories.localize,
        lambda: _build_job_starter(parts),
    )


def _build_job_starter(parts: RunnerParts) -> JobStarter:
    project = parts.settings.repository_root
    catalog = parts.build_jobs(replace(parts.settings, project_root=project)).catalog
    steps, git = build_job_steps(parts), open_git(project)
    return JobStarter(parts.database, project, catalog, steps, git, parts.get_checks, parts.host)


def build_engine(parts: RunnerParts, get_profile: Callable[[str], AgentProfile]) -> AttemptEngine:
    """Build the engine that looks after the attempts of this host."""
    database, call, settings, host = parts.database, parts.call, parts.settings, parts.host
    places = Places(settings.repository_root, settings.state_folder)
    locks, steps = AttemptLocks(settings.state_folder), build_job_steps(parts)
    claimer = TaskClaimer(database, call, parts.workspaces, host, locks.take)
    tasks = PlannedTasks(database, call, parts.workspaces, partial(build_workspace_settings, settings))
    sources = WorkSources(tasks, steps)
    finishers = Finishers(
        AttemptFinisher(database, call, parts.prover, open_git, LinkRecorder(open_git)),
        JobStepFinisher(database, call, steps, open_git, LinkRecorder(open_git)),
    )
    jobs = JobScheduler(database, claimer, steps, get_profile, host)
    return AttemptEngine(
        database,
        call,
        RunScheduler(database, call, claimer, jobs, get_profile, host, parts.lease_ms),
        AttemptPreparer(
            database, sources, places, partial(build_workspace_settings, settings), parts.open_door()
        ),
        finishers,
        AttemptLander(database, call, parts.get_landings),
        sources,
        locks,
        get_profile,
        host,
        parts.lease_ms,
        parts.record_heartbeats,
    )


def build_job_steps(parts: RunnerParts) -> JobSteps:
    """Build what gives the steps of jobs to agents, each run in a tree of its own."""
    opened: dict[Path, JobServices] = {}

    def open_jobs(tree: Path) -> JobServices:
        if tree not in opened:
            opened[tree] = _open_jobs(parts, tree)
        return opened[tree]

    return JobSteps(parts.database, open_jobs, open_git, partial(build_workspace_settings, parts.settings))


def _open_jobs(parts: RunnerParts, tree: Path) -> JobServices:
    """Return the jobs of a tree, as a server that serves it as its project would, on the same store."""
    jobs = parts.build_jobs(replace(parts.settings, project_root=tree))
    specs = index_by_name([jobs.tools])
    return JobServices(jobs.catalog, jobs.sessions, partial(call_tool, parts.database, specs.__getitem__))


def _require_trusted_checks(parts: RunnerParts, workflow: Workflow) -> None:
    """Raise GateClosed if the plan has checks whose commands nobody trusted."""
    with parts.database.reading() as tx:
        tasks, _ = TaskStore(tx).list_by_workflow(workflow.id, _MAX_TASKS)
    required = [list_required_checks(workflow.requirements, task.requirements) for task in tasks]
    names = sorted({name for names in required for name in names})
    if names and workflow.base_commit:
        root = Path(workflow.repository_path or "")
        parts.get_checks(root).require_trusted(root, workflow.base_commit, names)


def call_tool(
    database: Database,
    find_spec: Callable[[str], OperationSpec],
    tool: str,
    arguments: Mapping[str, Any],
    *,
    key: str | None = None,
) -> Mapping[str, Any]:
    """Call a tool as the commands of this machine do."""
    call = Call(tool=tool, key=key, patience=None, carries_notices=False)
    answer: Mapping[str, Any] = invoke(database, find_spec(tool), arguments, call)
    return answer
