"""Current work: what an agent should know when its session starts again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deepwork.kernel.config import Settings
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import format_age
from deepwork.views.hooks.identity import SessionRecord
from deepwork.views.overview.current_work_store import MAX_ROWS, CurrentWorkStore

CONTEXT_TOKENS = 1200
_MAX_CHECKPOINTS = 3
_MAX_RELATED_TASKS = 20
_MAX_SESSIONS_READ = 50


@dataclass(frozen=True)
class ProjectScope:
    """The part of the store that belongs to one project."""

    sessions: Path
    """The folder with its job session files."""
    repository: str | None
    """The path of the repository; None if the store holds only this project."""


@dataclass(frozen=True)
class CurrentWork:
    """Open work in a project, as seen by one session."""

    agents: dict[str, str]
    """Names of the agents the session acts as, by id."""
    possible_agents: dict[str, str]
    """Names, by id, of agents that the session may have acted as before; another session may use them now."""
    possibly_held: list[Row]
    jobs: list[Row]
    jobs_are_own: bool
    held: list[Row]
    context: dict[str, Any] | None
    """The context of the first held task."""
    tracked: list[Row]
    tracked_tasks: list[Row]
    plans: list[Row]
    unread: list[Row]
    now: int
    """When it was loaded, in Unix milliseconds."""

    @property
    def is_empty(self) -> bool:
        found = (self.possibly_held, self.jobs, self.held, self.tracked, self.plans, self.unread)
        return not any(found)


def get_project_scope(settings: Settings) -> ProjectScope:
    """Return the scope of the project with these settings."""
    has_others = settings.global_store or "://" in settings.database_location
    return ProjectScope(settings.state_folder / "tmp", str(settings.repository_root) if has_others else None)


def load_current_work(
    tx: Transaction, scope: ProjectScope, record: SessionRecord, possible_agents: Sequence[str] = ()
) -> CurrentWork:
    """Load the work of this session; for a session without a record, the work of the whole project."""
    store = CurrentWorkStore(tx)
    held = store.list_held_tasks(record.agents) if record.agents else []
    tracked = (
        record.workflow and store.list_tracked_workflows(None, record.workflow)
    ) or store.list_tracked_workflows(scope.repository, None)
    own = store.find_active_job(record.jobs) if record.jobs else None
    return CurrentWork(
        agents=store.get_agent_names(record.agents) if record.agents else {},
        possible_agents=store.get_agent_names(possible_agents) if possible_agents else {},
        possibly_held=store.list_held_tasks(possible_agents) if possible_agents else [],
        jobs=[own] if own else _list_jobs(store, scope),
        jobs_are_own=own is not None,
        held=held,
        context=_load_task_context(tx, held[0]["id"]) if held else None,
        tracked=tracked,
        tracked_tasks=store.list_open_tracked_tasks([row["id"] for row in tracked]) if tracked else [],
        plans=[row for row in store.list_open_plans(scope.repository) if row["total"]],
        unread=store.count_unread(record.agents) if record.agents else [],
        now=tx.now,
    )


def _list_jobs(store: CurrentWorkStore, scope: ProjectScope) -> list[Row]:
    """List active job sessions whose files are in this project."""
    found = store.list_active_jobs(_MAX_SESSIONS_READ)
    return [row for row in found if (scope.sessions / f"session_{row['id']}.json").exists()][:MAX_ROWS]


def _load_task_context(tx: Transaction, task_id: str) -> dict[str, Any]:
    """Load what is needed to continue a task, within a token budget."""
    # Imported here because most sessions hold no task.
    from deepwork.work.plans import task_context as contexts  # noqa: PLC0415
    from deepwork.work.plans.context_loading import load_claim_facts  # noqa: PLC0415
    from deepwork.work.plans.stores.plan_store import PlanStore  # noqa: PLC0415
    from deepwork.work.plans.stores.search_store import CheckpointStore  # noqa: PLC0415
    from deepwork.work.plans.stores.task_store import TaskStore  # noqa: PLC0415
    from deepwork.work.workspaces.responses import describe_workspace  # noqa: PLC0415
    from deepwork.work.workspaces.store import WorkspaceStore  # noqa: PLC0415

    store = TaskStore(tx)
    task = store.get(task_id)
    pending, pending_total = store.list_open_dependencies(task, _MAX_RELATED_TASKS)
    completed, completed_total = store.list_done_dependencies(task, _MAX_RELATED_TASKS)
    prior, prior_total = store.list_prior(task, _MAX_RELATED_TASKS)
    workspace = WorkspaceStore(tx).find_active(task.workspace_id)
    material = contexts.ContextSource(
        workflow=PlanStore(tx).get(task.workflow_id),
        task=task,
        checkpoints=CheckpointStore(tx).list_newest(task.id, _MAX_CHECKPOINTS),
        checkpoints_total=task.checkpoints,
        prior_tasks=prior,
        prior_total=prior_total,
        siblings=[],
        siblings_total=0,
        dependencies=[*completed, *pending],
        dependencies_total=pending_total + completed_total,
        **load_claim_facts(tx, task, describe_workspace(workspace) if workspace else None),
    )
    include = contexts.ContextOptions(sibling_status=False, recent_checkpoints=_MAX_CHECKPOINTS)
    context = contexts.build_context(material, include, CONTEXT_TOKENS)
    for checkpoint in context["current_task"]["checkpoints"]:  # the hook's text is prose
        checkpoint["created_at"] = format_age(checkpoint["created_at"], tx.now)
    return context
