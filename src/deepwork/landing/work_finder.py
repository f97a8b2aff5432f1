"""Finds the branches of completed tasks that are to land, and what stands in their way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deepwork.database.transaction import Database, Transaction
from deepwork.errors import InvalidInput, NotAllowed
from deepwork.files.repositories import find_repository, is_tree_of
from deepwork.git.branch_merges import find_branch_tips
from deepwork.git.command import Git
from deepwork.git.merge_commits import get_tree
from deepwork.git.uncommitted import commit_uncommitted, list_uncommitted
from deepwork.landing.models import Skipped, TaskWork
from deepwork.plans.models import Node, Task, TaskStatus, Workflow
from deepwork.plans.requirements import ApprovalTime, list_required_approvals
from deepwork.plans.rules.graph import Graph
from deepwork.plans.stores.plan_store import PlanStore
from deepwork.plans.stores.task_store import TaskStore
from deepwork.tracking.watch_store import WatchStore
from deepwork.workspaces.dependency_branches import walk_dependencies
from deepwork.workspaces.models import Workspace, WorkspaceStatus
from deepwork.workspaces.repositories import RepositoryLocator
from deepwork.workspaces.store import WorkspaceStore

_ALL_TASKS = 1_000_000
_MAX_NAMED_FILES = 5


@dataclass(frozen=True)
class PlanWork:
    """What a plan has to land."""

    workflow: Workflow
    repository: Path
    """The main tree of its repository on this machine."""
    ready: tuple[TaskWork, ...]
    skipped: tuple[Skipped, ...]


class WorkFinder:
    """Looks at plans, their workspaces and the branches of these."""

    def __init__(
        self, database: Database, repositories: RepositoryLocator, open_git: Callable[[Path], Git]
    ) -> None:
        self._database, self.repositories, self._open_git = database, repositories, open_git

    def find(self, workflow_id: str, task_id: str | None = None, *, commits: bool = False) -> PlanWork:
        """Find what is to land of a plan, or of one task with everything it builds on.

        With `commits`, what is uncommitted in the trees is committed first; else such a task is refused.
        """
        with self._database.reading() as tx:
            workflow = self.repositories.localize(tx, PlanStore(tx).get(workflow_id))
            chosen = self._choose_tasks(tx, workflow_id, task_id)
            known = WorkspaceStore(tx).find_by_ids(
                [task.workspace_id for task in chosen if task.workspace_id]
            )
            approved = _find_approved_trees(tx, workflow, chosen)
        workspaces = {task.id: known.get(task.workspace_id or "") for task in chosen}
        main = self.find_main_tree(workflow)
        git = self._open_git(main)
        tips = find_branch_tips(git, [each.branch for each in workspaces.values() if each])
        found: list[TaskWork | Skipped] = []
        for task in chosen:
            workspace = workspaces[task.id]
            if problem := _find_obstacle(task, workspace, tips, self.repositories.host):
                found.append(problem)
            elif workspace:
                work = self._look_into_tree(main, task, workspace, tips, commits=commits)
                found.append(_refuse_changed(git, task, work, approved.get(task.id)))
        ready = tuple(each for each in found if isinstance(each, TaskWork))
        return PlanWork(workflow, main, ready, tuple(each for each in found if isinstance(each, Skipped)))

    def find_main_tree(self, workflow: Workflow) -> Path:
        """Return the main tree of the plan's repository on this machine."""
        main = find_repository(Path(workflow.repository_path or "")) if workflow.repository_path else None
        if main is None:
            raise NotAllowed(
                f"Plan {workflow.name!r} has no git repository on this machine, so nothing can be landed.",
                suggestion="Land it where its repository is.",
            )
        return main

    def map_dependencies(self, tx: Transaction, task_ids: Iterable[str | None]) -> dict[str, set[str]]:
        """Map tasks to all tasks that they wait for, directly or not."""
        found = TaskStore(tx).find_by_ids([id for id in task_ids if id])
        graphs: dict[str, Graph] = {}
        dependencies: dict[str, set[str]] = {}
        for task in found.values():
            if task.workflow_id not in graphs:
                graphs[task.workflow_id] = Graph(TaskStore(tx).list_nodes(task.workflow_id))
            dependencies[task.id] = _list_needed(graphs[task.workflow_id], task.id)
        return dependencies

    def _choose_tasks(self, tx: Transaction, workflow_id: str, task_id: str | None) -> list[Task]:
        store = TaskStore(tx)
        if task_id is None:
            return store.list_by_workflow(workflow_id, _ALL_TASKS)[0]
        task = store.get(task_id)
        if not task.status.is_done:
            raise NotAllowed(
                f"Task {task.name!r} is {task.status}; only completed tasks can be landed.",
                suggestion="Complete it first, or land its plan: that lands what is completed.",
                recoverable=True,
            )
        graph = Graph(store.list_nodes(workflow_id))
        needed = store.find_by_ids(list(_list_needed(graph, task_id)))
        # What it builds on lands first, each with a merge commit of its own.
        with_branch = [each for each in needed.values() if each.workspace_id and each.status.is_done]
        return [*sorted(with_branch, key=lambda each: (each.finished_at or 0, each.position)), task]

    def _look_into_tree(
        self, main: Path, task: Task, workspace: Workspace, tips: Mapping[str, str], *, commits: bool
    ) -> TaskWork | Skipped:
        """Refuse or commit what is uncommitted in the tree of the task; then the branch is what lands."""
        tree = Path(workspace.path)
        tip = tips[workspace.branch]
        if tree.is_dir() and is_tree_of(main, tree) and tree != main:
            git = self._open_git(tree)
            if commits:
                tip = commit_uncommitted(git, workspace.branch, _build_message(task))[0] or tip
            elif files := list_uncommitted(git):
                return _skip(task, _describe_uncommitted(workspace, files), is_refused=True)
        if tip == workspace.base_commit:
            return _skip(task, f"Its branch {workspace.branch} has no commits: there is nothing to land.")
        return TaskWork(
            task.id, task.workflow_id, task.name, workspace.branch, tip, task.finished_at or 0, task.outcome
        )


def _find_approved_trees(tx: Transaction, workflow: Workflow, tasks: Iterable[Task]) -> dict[str, str]:
    """Map tasks whose work a person approved to the tree that it had then."""
    approved = [
        task.id
        for task in tasks
        if ApprovalTime.AFTER in list_required_approvals(workflow.requirements, task.requirements)
    ]
    watches = [watch for id in approved if (watch := WatchStore(tx).find_latest(id))]
    return {watch.task_id: str(watch.ended["tree"]) for watch in watches if watch.ended}


def _refuse_changed(git: Git, task: Task, work: TaskWork | Skipped, tree: str | None) -> TaskWork | Skipped:
    """Refuse a branch that has other files than those that a person approved."""
    if isinstance(work, Skipped) or tree is None or get_tree(git, work.commit) == tree:
        return work
    reason = f"{work.branch} was changed after a person approved it. Complete the task again."
    return _skip(task, reason, is_refused=True)


def choose_target(workflow: Workflow, onto: str | None) -> str:
    """Return the branch to land on: the one that was asked for, else the one that the plan started from."""
    target = onto or workflow.base_branch
    if target is None:
        raise InvalidInput(
            f"Plan {workflow.name!r} started from no branch, so it is not known where to land its work.",
            suggestion="Name a branch with --onto.",
        )
    return target


def _list_needed(graph: Graph, task_id: str) -> set[str]:
    def goes_on(_: Node) -> bool:
        return True

    return {node.id for node in walk_dependencies(graph, [graph[task_id]], set(), goes_on)}


def _find_obstacle(
    task: Task, workspace: Workspace | None, tips: Mapping[str, str], host: str
) -> Skipped | None:
    if task.status is not TaskStatus.COMPLETED:
        return _skip(task, f"It is {task.status}: only completed tasks land.")
    if workspace is None:
        return _skip(task, "It has no branch of its own: there is nothing to land.")
    if workspace.status is not WorkspaceStatus.ACTIVE:
        return _skip(task, f"Its workspace {workspace.id} with {workspace.branch} is {workspace.status}.")
    if workspace.host != host:
        return _skip(task, f"Its branch {workspace.branch} is on {workspace.host}.", is_refused=True)
    if workspace.branch not in tips:
        return _skip(task, f"Its branch {workspace.branch} does not exist any more.", is_refused=True)
    return None


def _skip(task: Task, reason: str, *, is_refused: bool = False) -> Skipped:
    return Skipped(task.id, task.name, reason, is_refused)


def _describe_uncommitted(workspace: Workspace, files: Sequence[str]) -> str:
    more = len(files) - _MAX_NAMED_FILES
    named = ", ".join(files[:_MAX_NAMED_FILES]) + (f" and {more} more" if more > 0 else "")
    return f"{workspace.path} has uncommitted work: {named}. Commit it, or land with --commit."


def _build_message(task: Task) -> str:
    subject = " ".join(task.name.split())[:72] or task.id
    outcome = (task.outcome or "").strip()
    return "\n\n".join(part for part in (subject, outcome, f"Deepwork-Task: {task.id}") if part)
