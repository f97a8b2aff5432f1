"""Finds the branches of completed tasks that are to land, and what stands in their way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from deepwork.delivery.landing.models import FinishedBranch, Skipped
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.files.repositories import find_repository, is_tree_of
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import CommitRecord, read_commits, resolve_commit
from deepwork.kernel.git.uncommitted import TreeChanged, commit_uncommitted, list_uncommitted
from deepwork.kernel.records import dataclass
from deepwork.work.plans.models import ApprovalTime, Node, Task, TaskStatus, Workflow, list_required_approvals
from deepwork.work.plans.rules.graph import Graph
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.watch_store import WatchStore
from deepwork.work.workspaces.finished_work import (
    WorkElsewhere,
    explain_changed_work,
    find_completed_work,
    get_expected_files,
    is_completed_work,
    locate_work,
    walk_dependencies,
)
from deepwork.work.workspaces.models import LOCAL_HOST, CheckoutWork, FinishedTask, Workspace, WorkspaceStatus
from deepwork.work.workspaces.repositories import RepositoryLocator
from deepwork.work.workspaces.store import WorkspaceStore
from deepwork.work.workspaces.worktrees import contains_checkout_work, find_fetched_work

_ALL_TASKS = 1_000_000
_MAX_NAMED_FILES = 5
_BRANCH_REF_PREFIX = "refs/heads/"


@dataclass(frozen=True)
class LandablePlan:
    """What a plan has to land."""

    workflow: Workflow
    repository: Path
    """The main tree of its repository on this machine."""
    ready: tuple[FinishedBranch, ...]
    skipped: tuple[Skipped, ...]


class WorkFinder:
    """Looks at plans, their workspaces and the branches of these."""

    def __init__(
        self, database: Database, repositories: RepositoryLocator, open_git: Callable[[Path], Git]
    ) -> None:
        self._database, self.repositories, self._open_git = database, repositories, open_git

    def find(self, workflow_id: str, task_id: str | None = None, *, commits: bool = False) -> LandablePlan:
        """Find what is to land of a plan, or of one task with everything it builds on.

        With `commits`, what is uncommitted in the trees is committed first; else such a task is refused.
        """
        with self._database.reading() as tx:
            workflow = self.repositories.localize(tx, PlanStore(tx).get(workflow_id))
            chosen = self._choose_tasks(tx, workflow_id, task_id)
            ids = [task.workspace_id for task in chosen if task.workspace_id]
            known, users = WorkspaceStore(tx).find_by_ids(ids), WorkspaceStore(tx).list_task_ids(ids)
            approved = _find_approved_trees(tx, workflow, chosen)
        main = self.find_main_tree(workflow)
        places = [(task, known.get(task.workspace_id or "")) for task in chosen]
        git = self._open_git(main)
        branches = _Branches(git, places)
        found: list[FinishedBranch | Skipped] = []
        for task, workspace in places:
            problem = _find_obstacle(task, workspace)
            if problem or workspace is None:
                found.append(Skipped(task.id, task.name, problem or ""))
                continue
            is_shared = len(users.get(workspace.id, ())) > 1
            work = (
                self._look_into_tree(main, task, workspace, branches, is_shared, commits=commits)
                if workspace.host == self.repositories.host
                else _find_fetched(git, task, workspace)
            )
            found.append(_refuse_unapproved(task, work, approved.get(task.id)))
        ready = tuple(each for each in found if isinstance(each, FinishedBranch))
        return LandablePlan(workflow, main, ready, tuple(each for each in found if isinstance(each, Skipped)))

    def find_main_tree(self, workflow: Workflow) -> Path:
        """Return the main tree of the plan's repository on this machine."""
        main = find_repository(Path(workflow.repository_path or "")) if workflow.repository_path else None
        if main is None:
            raise NotAllowed(
                f"Plan {workflow.name!r} has no git repository on this machine, so nothing can be landed.",
                suggestion="Land it where its repository is.",
            )
        return main

    def find_outside_work(self, work: LandablePlan, target: str) -> list[Skipped]:
        """List the tasks without a branch to land whose work is on another machine, and not on the target."""
        ids, here = [each.task_id for each in work.skipped], self.repositories.host
        if here == LOCAL_HOST or not ids:
            return []
        with self._database.reading() as tx:
            store = WorkspaceStore(tx)
            checkouts = store.map_checkout_work(work.workflow.id, here)
            finished = store.map_finished_tasks(work.workflow.id)
        git = self._open_git(work.repository)
        tip = f"{_BRANCH_REF_PREFIX}{target}"
        outside = [
            (each, place)
            for each in work.skipped
            if (place := checkouts.get(each.task_id) or _find_merged_elsewhere(finished, each.task_id, here))
        ]
        return [
            _skip_elsewhere(locate_work(each.task_id, each.name, place))
            for each, place in outside
            if not _has_outside_work(git, tip, place)
        ]

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
        self,
        main: Path,
        task: Task,
        workspace: Workspace,
        branches: _Branches,
        is_shared: bool,
        *,
        commits: bool,
    ) -> FinishedBranch | Skipped:
        """Return the work if it is as it was completed; refuse or commit what was not committed then."""
        tip = branches.find_tip(workspace)
        if tip is None:
            return _refuse(task, f"Its branch {workspace.branch} does not exist any more.")
        tree = Path(workspace.path)
        if tree.is_dir() and is_tree_of(main, tree) and tree != main:
            git = self._open_git(tree)
            if commits:
                try:
                    expected = get_expected_files(task)
                    made, _ = commit_uncommitted(git, workspace.branch, _build_message(task), expected)
                except TreeChanged:
                    return _refuse(task, explain_changed_work(task, workspace.branch))
                tip = read_commits(git, [made])[made] if made else tip
            elif files := list_uncommitted(git):
                is_later = is_completed_work(task, tip)
                return _refuse(task, _describe_uncommitted(task, workspace, files, is_later=is_later))
        if tip.commit == workspace.base_commit and task.completed_tree in (None, tip.tree):
            reason = f"Its branch {workspace.branch} has no commits: there is nothing to land."
            return Skipped(task.id, task.name, reason)
        # Of several tasks that share a branch, each lands what the branch had when it was completed.
        candidates = (tip, branches.find_head(task)) if is_shared else (tip,)
        work = find_completed_work(task, candidates)
        if work is None:
            return _refuse(task, explain_changed_work(task, workspace.branch))
        return _build_work(task, workspace, work)


class _Branches:
    """The commits that may have the work of tasks, read with one process."""

    def __init__(self, git: Git, places: Sequence[tuple[Task, Workspace | None]]) -> None:
        refs = [f"{_BRANCH_REF_PREFIX}{workspace.branch}" for _, workspace in places if workspace]
        heads = [task.completed_head for task, workspace in places if workspace and task.completed_head]
        self._records = read_commits(git, [*refs, *heads])

    def find_tip(self, workspace: Workspace) -> CommitRecord | None:
        """Return the tip of the local branch."""
        return self._records.get(f"{_BRANCH_REF_PREFIX}{workspace.branch}")

    def find_head(self, task: Task) -> CommitRecord | None:
        """Return the commit that was checked out when the task was completed, if it is here."""
        return self._records.get(task.completed_head or "")


def _find_merged_elsewhere(
    finished: Mapping[str, FinishedTask], task_id: str, here: str
) -> FinishedTask | None:
    """Return a task whose branch was merged by hand on another machine."""
    found = finished.get(task_id)
    is_merged = found is not None and found.workspace.status is WorkspaceStatus.MERGED
    return found if found and is_merged and found.workspace.host != here else None


def _has_outside_work(git: Git, tip: str, work: FinishedTask | CheckoutWork) -> bool:
    if isinstance(work, CheckoutWork):
        return contains_checkout_work(git, tip, work)
    return resolve_commit(git, work.workspace.merge_commit or "") is not None


def _skip_elsewhere(missing: WorkElsewhere) -> Skipped:
    reason = f"{missing} {missing.describe_remedy()} Or land where all of it is."
    at = {"branch": missing.branch, "host": missing.host}
    return Skipped(missing.task_id, missing.name, reason, is_refused=True, **at)


def _find_fetched(git: Git, task: Task, workspace: Workspace) -> FinishedBranch | Skipped:
    """Return the work of a task that was done on another machine, if somebody fetched it."""
    finished = FinishedTask(workspace, task.completed_tree, task.completed_head)
    work = find_fetched_work(git, finished)
    if work is not None:
        return _build_work(task, workspace, work)
    return _skip_elsewhere(locate_work(task.id, task.name, finished))


def _build_work(task: Task, workspace: Workspace, work: CommitRecord) -> FinishedBranch:
    about = task.id, task.workflow_id, task.name, workspace.branch
    return FinishedBranch(*about, work.commit, work.tree, task.finished_at or 0, task.outcome)


def _find_approved_trees(tx: Transaction, workflow: Workflow, tasks: Iterable[Task]) -> dict[str, str]:
    """Map tasks whose work a person approved to the tree that it had then."""
    approved = [
        task.id
        for task in tasks
        if ApprovalTime.AFTER in list_required_approvals(workflow.requirements, task.requirements)
    ]
    watches = [watch for id in approved if (watch := WatchStore(tx).find_latest(id))]
    return {watch.task_id: str(watch.ended["tree"]) for watch in watches if watch.ended}


def _refuse_unapproved(
    task: Task, work: FinishedBranch | Skipped, tree: str | None
) -> FinishedBranch | Skipped:
    """Refuse a branch that has other files than those that a person approved."""
    if isinstance(work, Skipped) or tree is None or work.tree == tree:
        return work
    return _refuse(task, explain_changed_work(task, work.branch))


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


def _find_obstacle(task: Task, workspace: Workspace | None) -> str | None:
    if task.status is not TaskStatus.COMPLETED:
        return f"It is {task.status}: only completed tasks land."
    if workspace is None:
        return "It has no branch of its own: there is nothing to land."
    if workspace.status is not WorkspaceStatus.ACTIVE:
        return f"Its workspace {workspace.id} with {workspace.branch} is {workspace.status}."
    return None


def _refuse(task: Task, reason: str) -> Skipped:
    return Skipped(task.id, task.name, reason, is_refused=True)


def _describe_uncommitted(task: Task, workspace: Workspace, files: Sequence[str], *, is_later: bool) -> str:
    more = len(files) - _MAX_NAMED_FILES
    named = ", ".join(files[:_MAX_NAMED_FILES]) + (f" and {more} more" if more > 0 else "")
    if is_later:
        return (
            f"{workspace.path} has uncommitted work that came after the task was completed: {named}. Put it"
            f" aside, or open the task again with `deepwork tasks retry {task.id}` and complete it with it."
        )
    return f"{workspace.path} has uncommitted work: {named}. Commit it, or land with --commit."


def _build_message(task: Task) -> str:
    subject = " ".join(task.name.split())[:72] or task.id
    outcome = (task.outcome or "").strip()
    return "\n\n".join(part for part in (subject, outcome, f"Deepwork-Task: {task.id}") if part)
