"""Loads what is shown with a task and is not in its row: its relations, and the parts of its context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.plans.interfaces import TaskWorkspace, WorkspaceProvider
from deepwork.work.plans.models import Task, TaskStatus
from deepwork.work.plans.responses import TaskRelations
from deepwork.work.plans.rules.levels import Levels
from deepwork.work.plans.stores.claim_store import LEASE_EXPIRED, ClaimStore
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.search_store import CheckpointStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.plans.task_context import (
    DEFAULT_TOKENS,
    ContextOptions,
    ContextSource,
    build_context,
    build_next_context,
)

_MAX_RELATED_TASKS = 200
_MAX_CHECKPOINTS = 1000

_MAX_DEPENDENCIES = 100
_MAX_DEPENDENCIES_IN_LIST = 10


def load_claimed_context(tx: Transaction, task_id: str, agent_id: str) -> dict[str, Any]:
    """Build the context of a task that the agent has just claimed; the claim says who and where."""
    task = TaskStore(tx).get(task_id)
    source = replace(load_context_source(tx, task, ContextOptions()), claim=None)
    if earlier := ClaimStore(tx).list_other_claims(agent_id, task, _MAX_RELATED_TASKS):
        own, last = {id for id, _ in earlier}, earlier[0][1]
        context = build_next_context(source, own, last, DEFAULT_TOKENS)
    else:
        context = build_context(source, ContextOptions(), DEFAULT_TOKENS)
    return {key: value for key, value in context.items() if key != "token_estimate"}


def load_context_source(
    tx: Transaction, task: Task, parts: ContextOptions, workspaces: WorkspaceProvider | None = None
) -> ContextSource:
    """Load what a context is built from, but no more than could ever be shown."""
    store = TaskStore(tx)
    wanted = _MAX_CHECKPOINTS if parts.all_checkpoints else parts.recent_checkpoints
    prior, prior_total = store.list_prior(task, _MAX_RELATED_TASKS)
    siblings, siblings_total = store.list_siblings(task, _MAX_RELATED_TASKS)
    pending, pending_total = store.list_open_dependencies(task, _MAX_RELATED_TASKS)
    completed, completed_total = store.list_done_dependencies(task, _MAX_RELATED_TASKS)
    return ContextSource(
        workflow=PlanStore(tx).get(task.workflow_id),
        task=task,
        checkpoints=CheckpointStore(tx).list_newest(task.id, wanted) if wanted else [],
        checkpoints_total=task.checkpoints,
        prior_tasks=prior,
        prior_total=prior_total,
        siblings=siblings,
        siblings_total=siblings_total,
        dependencies=[*completed, *pending],
        dependencies_total=pending_total + completed_total,
        blocked=task.status is TaskStatus.PENDING and pending_total > 0,
        **load_claim_facts(tx, task, workspaces.find_for_task(tx, task) if workspaces else None),
    )


def update_unmerged(source: ContextSource, workspaces: WorkspaceProvider | None) -> ContextSource:
    """Ask git, after the transaction, which branches were merged into the tree since it began."""
    shown = source.workspace
    if workspaces is None or shown is None or not shown.get("unmerged"):
        return source
    current = workspaces.load_current(shown["id"])
    return replace(source, workspace=_describe_workspace(current) if current else None)


def load_claim_facts(tx: Transaction, task: Task, workspace: TaskWorkspace | None) -> dict[str, Any]:
    """Load where the task is done, who holds it, and why the holder before let go, as fields of a source."""
    facts: dict[str, Any] = {"workspace": _describe_workspace(workspace) if workspace else None}
    lease = ClaimStore(tx).find_lease(task.id)
    if lease is None and not task.attempts:
        return facts  # nobody has held it, and nobody has reported on it
    is_held = lease is not None and lease["agent_id"] is not None and lease["until"] >= tx.now
    if lease is not None and is_held:
        names = ("agent_id", "agent_name", "epoch", "until")
        facts["claim"] = {name: lease[name] for name in names if lease[name] is not None}
    epoch = 0 if lease is None else lease["epoch"]
    ended = ClaimStore(tx).find_last_end(task.id, epoch if is_held else epoch + 1)
    return facts | ({"last_claim": _describe_end(ended)} if ended else {})


def _describe_workspace(workspace: TaskWorkspace) -> dict[str, Any]:
    shown = {
        "id": workspace.id,
        "path": workspace.path,
        "branch": workspace.branch,
        "base": workspace.base,
        "builds_on": list(workspace.builds_on),
        "unmerged": list(workspace.unmerged),
    }
    return {name: value for name, value in shown.items() if value}


def _describe_end(row: Row) -> dict[str, Any]:
    """Describe how a claim ended: the task failed, or its holder released it or went silent."""
    is_expired = row["what"] == "released" and row["reason"] == LEASE_EXPIRED
    shown = {
        "agent_id": row["agent_id"],
        "agent_name": row["agent_name"],
        "ended": "failed" if row["after"] == "failed" else "expired" if is_expired else "released",
        "by": None if is_expired else row["by_whom"],
        "reason": row["reason"],
        "at": row["at"],
    }
    return {name: value for name, value in shown.items() if value is not None}


def load_task_relations(tx: Transaction, tasks: Sequence[Task]) -> TaskRelations:
    """Load the facts about these tasks that are not in their rows."""
    store = TaskStore(tx)
    blocked, previous = _find_waiting(store, tasks)
    explicit = [task.id for task in tasks if task.is_explicit]
    most = _MAX_DEPENDENCIES if len(tasks) == 1 else _MAX_DEPENDENCIES_IN_LIST
    names = store.list_dependency_names(explicit, most)
    return TaskRelations(
        blocked=blocked,
        names=names,
        counts=store.count_dependencies([id for id in explicit if len(names.get(id, ())) == most]),
        holders=ClaimStore(tx).find_holders([task.id for task in tasks if task.claimed_by]),
        previous=previous,
    )


def _find_waiting(store: TaskStore, tasks: Sequence[Task]) -> tuple[set[str], dict[int, int | None]]:
    """Return which of these tasks wait for others, and the next lower sequence of each sequence."""
    pending = [task for task in tasks if task.status is TaskStatus.PENDING]
    if all(task.is_explicit for task in tasks):
        return {task.id for task in pending if task.open_dependencies}, {}
    if len(tasks) == 1:  # counting a whole plan takes longer than all other queries for one task
        [task] = tasks
        before, is_open = store.find_level_before(task)
        return {task.id for task in pending if is_open}, {task.sequence: before}
    levels = {id: Levels(store.count_by_status(id)) for id in {task.workflow_id for task in tasks}}
    previous = {sequence: before for level in levels.values() for sequence, before in level.previous.items()}
    return {task.id for task in pending if levels[task.workflow_id].is_blocked(task)}, previous
