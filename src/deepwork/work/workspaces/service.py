"""Opening and closing workspaces: decided in a transaction, carried out by git after the commit.

The row is stored before git creates the tree, so a crash in between leaves a row that states the intent, not
a tree that nothing refers to. Repeating the call completes what was interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from deepwork.kernel.call import current_call
from deepwork.kernel.database.idempotency import forget_key
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError, NotAllowed
from deepwork.kernel.files.repositories import find_repository
from deepwork.kernel.operations import NotPrepared
from deepwork.kernel.values import new_id
from deepwork.work.plans.interfaces import CompletedWork, TaskWorkspace
from deepwork.work.plans.models import Task, Workflow
from deepwork.work.plans.rules.graph import Graph
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.workspaces.finished_work import (
    DependencyBranches,
    FinishedWork,
    build_finished_work,
    describe_elsewhere,
    select_dependency_branches,
)
from deepwork.work.workspaces.models import (
    LOCAL_HOST,
    CheckoutWork,
    FinishedTask,
    TreeRemoval,
    Workspace,
    WorkspaceEvent,
    WorkspaceStatus,
    build_slug,
)
from deepwork.work.workspaces.repositories import WORKTREES, RepositoryLocator
from deepwork.work.workspaces.responses import WorkspaceView, describe_workspace
from deepwork.work.workspaces.store import WorkspaceStore
from deepwork.work.workspaces.worktrees import CreatedTree, WorktreeManager

_NOT_CREATED_PREFIX = "No worktree was created:"


class WorkspaceService:
    """Opens and closes workspaces on this machine."""

    def __init__(
        self, database: Database, worktrees: WorktreeManager, repositories: RepositoryLocator
    ) -> None:
        self._database = database
        self.worktrees = worktrees
        self.repositories = repositories
        self.host = repositories.host
        self.has_other_machines = self.host != LOCAL_HOST
        self._fetched: set[FinishedTask | CheckoutWork] = set()
        """Work of other machines that was found in the repository of this one."""
        self._accepted: set[str] = set()

    def is_local(self, workspace: Workspace) -> bool:
        """Return whether the workspace's tree is on this machine."""
        return workspace.host == self.host

    # Opening

    def register(self, tx: Transaction, workspace: Workspace, task_ids: Sequence[str]) -> None:
        """Insert a new workspace and assign tasks to it."""
        store = WorkspaceStore(tx)
        if not store.add(workspace):
            raise _build_conflict_error(workspace, store.find_conflicting(workspace))
        if task_ids:
            store.assign(workspace.id, task_ids)
        self._emit(tx, WorkspaceEvent.WORKSPACE_CREATED, workspace, task_ids)

    def create_tree(
        self,
        workspace: Workspace,
        dependencies: DependencyBranches | None = None,
        base_commit: str | None = None,
    ) -> CreatedTree:
        """Create the tree of a stored workspace; if git fails, remove the workspace and raise."""
        try:
            created = self.worktrees.create(workspace, dependencies, base_commit)
        except DeepworkError:
            with self._database.transaction() as tx:
                WorkspaceStore(tx).remove(workspace.id)
                self._emit(tx, WorkspaceEvent.WORKSPACE_REMOVED, workspace)
                forget_key(tx)
            raise
        with self._database.transaction() as tx:
            began = replace(
                workspace,
                base_branch=created.base_branch,
                base_commit=created.base_commit,
                builds_on=created.builds_on,
                unmerged=created.unmerged,
            )
            store = WorkspaceStore(tx)
            store.save(workspace, began)
            self._emit(
                tx, WorkspaceEvent.WORKSPACE_UPDATED, began, store.list_task_ids([began.id]).get(began.id, ())
            )
        return created

    def provide_for_task(
        self, tx: Transaction, workflow: Workflow, task: Task, *, others: int, is_required: bool = False
    ) -> TaskWorkspace | None:
        """Return where a newly claimed task is worked on: its workspace, or a new one.

        None means in the project itself: tasks of the plan run one after another, and no dependency was done
        on a branch; or there is no repository. `is_required`: never in the project itself, nor on another
        machine. A new tree is created after the commit.
        """
        store = WorkspaceStore(tx)
        known = store.find_active(task.workspace_id)
        if known and (self.is_local(known) or not is_required):
            return self._reuse(tx, task, known)
        workflow = self.repositories.localize(tx, workflow)
        if workflow.repository_path is None or not (workflow.auto_create_workspaces or is_required):
            return None
        dependencies = self._find_dependencies(tx, task)
        is_alone = workflow.max_parallel_tasks == 1 and not others and not dependencies.all
        if is_alone and not is_required:
            return None
        main = find_repository(Path(workflow.repository_path))
        if main is None:
            return TaskWorkspace(
                problem=f"{_NOT_CREATED_PREFIX} {workflow.repository_path} is not a git repository here."
            )
        workspace = replace(self._build_workspace(tx, main, task), builds_on=dependencies.nearest)
        if not store.add(workspace):
            return self._handle_conflict(tx, task, workspace)
        store.assign(workspace.id, [task.id])
        self._emit(tx, WorkspaceEvent.WORKSPACE_CREATED, workspace, [task.id])
        before = self._list_finished_work(tx, workflow, dependencies.nearest)
        return self._create_tree_after_commit(tx, workflow, workspace, dependencies, before)

    # Work of other machines

    def look_for_dependencies(self, task_id: str) -> DependencyBranches:
        """Find out which work of its dependencies a task could begin with here; not inside a transaction."""
        with self._database.reading() as tx:
            task = TaskStore(tx).get(task_id)
            if not self._may_be_elsewhere(tx, task):
                return DependencyBranches()
            workflow = self.repositories.localize(tx, PlanStore(tx).get(task.workflow_id))
            store = WorkspaceStore(tx)
            done: dict[str, FinishedTask | CheckoutWork] = {
                **store.map_finished_tasks(task.workflow_id),
                **store.map_checkout_work(task.workflow_id, self.host),
            }
            missing = self._find_dependencies(tx, task).elsewhere
        main = find_repository(Path(workflow.repository_path)) if workflow.repository_path else None
        found = [done[each.task_id] for each in missing]
        base = workflow.base_commit
        self._fetched.update(each for each in found if main and self.worktrees.has_work(main, each, base))
        with self._database.reading() as tx:
            return self._find_dependencies(tx, task)

    def accept_missing(self, task_id: str) -> None:
        """Let a task begin without the work of other machines: a person wants that."""
        self._accepted.add(task_id)

    def explain_elsewhere(self, tx: Transaction, task: Task) -> str | None:
        """Say which work of other machines a task waits for; None if it may begin.

        Raises NotPrepared if nobody looked for it yet: `look_for_dependencies`.
        """
        known = WorkspaceStore(tx).find_active(task.workspace_id)
        has_tree = known is not None and self.is_local(known)
        if has_tree or task.id in self._accepted or not self._may_be_elsewhere(tx, task):
            return None
        missing = self._find_dependencies(tx, task).elsewhere
        if missing and current_call().find_prepared(DependencyBranches) is None:
            raise NotPrepared
        return describe_elsewhere(missing) if missing else None

    def explain_missing(self, task_id: str) -> str | None:
        """Say which work of its dependencies the tree of a task does not have; not inside a transaction."""
        dependencies = self.look_for_dependencies(task_id)
        with self._database.reading() as tx:
            workspace = WorkspaceStore(tx).find_active(TaskStore(tx).get(task_id).workspace_id)
        is_unmerged = workspace is not None and workspace.unmerged and self.is_local(workspace)
        left = self._describe_current(workspace).problem if workspace and is_unmerged else None
        return (
            " ".join(filter(None, [*map(str, dependencies.elsewhere), *dependencies.remarks, left])) or None
        )

    def _may_be_elsewhere(self, tx: Transaction, task: Task) -> bool:
        return self.has_other_machines and WorkspaceStore(tx).has_finished_elsewhere(
            task.workflow_id, self.host
        )

    def leave_elsewhere(self, tx: Transaction, task_id: str) -> str | None:
        """Let a task have no workspace if its tree is on another machine, where it stays; return its id."""
        found = WorkspaceStore(tx).find_active(TaskStore(tx).get(task_id).workspace_id)
        if found is None or self.is_local(found):
            return None
        WorkspaceStore(tx).assign(None, [task_id])
        return found.id

    def take_back(self, tx: Transaction, task_id: str, workspace_id: str | None) -> None:
        """Give a task the workspace again that it left in the same transaction."""
        if workspace_id is not None:
            WorkspaceStore(tx).assign(workspace_id, [task_id])

    def find_for_task(self, tx: Transaction, task: Task) -> TaskWorkspace | None:
        """Return the active workspace that the task has."""
        found = WorkspaceStore(tx).find_active(task.workspace_id)
        return describe_workspace(found) if found else None

    def load_current(self, workspace_id: str) -> TaskWorkspace | None:
        """Return the active workspace with what its branch contains now; call it outside a transaction."""
        with self._database.reading() as tx:
            found = WorkspaceStore(tx).find_active(workspace_id)
        return describe_workspace(self.update_unmerged(found)) if found else None

    def update_unmerged(self, workspace: Workspace) -> Workspace:
        """Return the workspace with the branches that were merged since its tree began, if it is local."""
        return self.worktrees.update_unmerged(workspace) if self.is_local(workspace) else workspace

    def finish_task(self, tx: Transaction, workflow: Workflow, task: Task) -> None:
        """After the commit, list or commit what the completed task left uncommitted in its tree."""
        workspace = WorkspaceStore(tx).find_active(task.workspace_id)
        if workspace is not None and self.is_local(workspace):
            done = current_call().find_prepared(CompletedWork)
            work = build_finished_work(workflow, task, workspace, done)
            tx.after_commit(lambda: self.worktrees.save_finished_work(work))

    def _list_finished_work(
        self, tx: Transaction, workflow: Workflow, branches: Sequence[str]
    ) -> list[FinishedWork]:
        """List the work that must be committed before a tree can begin with these branches.

        Each task's own call commits it, but another agent may claim a dependent task a moment earlier.
        """
        if not (workflow.initial_plan or {}).get("commit"):
            return []
        finished = WorkspaceStore(tx).map_finished_tasks(workflow.id)
        wanted = {
            id: each.workspace
            for id, each in finished.items()
            if each.workspace.branch in branches and self.is_local(each.workspace)
        }
        tasks = TaskStore(tx).find_by_ids(list(wanted))
        return [build_finished_work(workflow, tasks[id], each) for id, each in wanted.items()]

    def _find_dependencies(self, tx: Transaction, task: Task) -> DependencyBranches:
        store = WorkspaceStore(tx)
        finished = store.map_finished_tasks(task.workflow_id)
        is_shared = self.has_other_machines
        checkouts = store.map_checkout_work(task.workflow_id, self.host) if is_shared else {}
        if not finished and not checkouts:  # the plan need not be read
            return DependencyBranches()
        plan = Graph(TaskStore(tx).list_nodes(task.workflow_id))

        def is_here(id: str) -> bool:
            if id in checkouts:
                return checkouts[id] in self._fetched
            return self.is_local(finished[id].workspace) or finished[id] in self._fetched

        return select_dependency_branches(plan, task.id, finished, is_here, checkouts)

    def _build_workspace(self, tx: Transaction, main: Path, task: Task) -> Workspace:
        name = build_slug(task.name, task.id)
        return Workspace(
            id=new_id("ws"),
            workflow_id=task.workflow_id,
            host=self.host,
            repository_path=str(main),
            path=str(main / WORKTREES / name),
            branch=f"deepwork/{name}",
            base_branch=None,
            base_commit=None,
            status=WorkspaceStatus.ACTIVE,
            merge_commit=None,
            rescue_branch=None,
            is_made=True,
            created_by=tx.caller,
            created_at=tx.now,
            updated_at=tx.now,
        )

    def _reuse(self, tx: Transaction, task: Task, workspace: Workspace) -> TaskWorkspace:
        if workspace.is_made and self.is_local(workspace) and not Path(workspace.path).exists():
            dependencies = self._find_dependencies(tx, task)
            workflow = PlanStore(tx).get(task.workflow_id)
            return self._create_tree_after_commit(tx, workflow, workspace, dependencies)
        if workspace.unmerged and self.is_local(workspace):
            tx.after_commit(lambda: self._describe_current(workspace))
        return describe_workspace(workspace)

    def _handle_conflict(self, tx: Transaction, task: Task, workspace: Workspace) -> TaskWorkspace:
        """Return the tree that the task had here before it was on another machine, or what is in the way."""
        store = WorkspaceStore(tx)
        rival = store.find_conflicting(workspace)
        if rival and rival.path == workspace.path and rival.workflow_id == workspace.workflow_id:
            store.assign(rival.id, [task.id])
            return self._reuse(tx, task, rival)
        taken = _build_conflict_error(workspace, rival)
        return TaskWorkspace(problem=f"{_NOT_CREATED_PREFIX} {taken.message}")

    def _describe_current(self, workspace: Workspace) -> TaskWorkspace:
        """Describe a tree that began without branches to the next agent that claims the task."""
        current = self.worktrees.update_unmerged(workspace)
        problem = self.worktrees.explain_left_branches(current) if current.unmerged else None
        return replace(describe_workspace(current), problem=problem)

    def _create_tree_after_commit(
        self,
        tx: Transaction,
        workflow: Workflow,
        workspace: Workspace,
        dependencies: DependencyBranches,
        before: Sequence[FinishedWork] = (),
    ) -> TaskWorkspace:
        base = workflow.base_commit if self.has_other_machines else None

        def create() -> TaskWorkspace:
            for work in before:
                self.worktrees.save_missed_work(work)
            try:
                created = self.create_tree(workspace, dependencies, base)
            except DeepworkError as error:
                return TaskWorkspace(
                    problem=f"{_NOT_CREATED_PREFIX} {error.message} Work in the project itself."
                )
            if workspace.unmerged:
                return self._describe_current(workspace)
            return replace(
                describe_workspace(workspace),
                base=created.base_branch,
                builds_on=created.builds_on,
                unmerged=created.unmerged,
                problem=created.problem,
                is_new=created.is_new,
            )

        tx.after_commit(create)
        return describe_workspace(workspace)

    # Closing

    def close(self, tx: Transaction, workspace: Workspace) -> str | None:
        """Remove the tree after the commit, if deepwork created it; return a warning if it is elsewhere."""
        if not workspace.is_made:
            return None
        if not self.is_local(workspace):
            return f"Its tree is on {workspace.host}; run this there to remove it."
        tx.after_commit(lambda: self._remove_tree(workspace))
        return None

    def require_reopenable(self, tx: Transaction, workspace: Workspace) -> None:
        """Raise NotAllowed if another workspace uses the tree or branch now, or if the tree is gone."""
        if rival := WorkspaceStore(tx).find_conflicting(workspace):
            raise _build_conflict_error(workspace, rival)
        if workspace.is_made and self.is_local(workspace) and not Path(workspace.path).is_dir():
            raise NotAllowed(
                f"The tree of workspace {workspace.id} was removed when it was abandoned.",
                suggestion=f"Create a new workspace; its branch {workspace.branch!r} still exists.",
            )

    def _remove_tree(self, workspace: Workspace) -> TreeRemoval | None:
        if find_repository(Path(workspace.repository_path)) is None:
            return None  # the repository is gone, and its trees with it
        try:
            rescue_branch = self.worktrees.remove(workspace)
        except DeepworkError as error:
            return TreeRemoval(warning=f"Its tree was not removed: {error.message}")
        with self._database.transaction() as tx:
            store = WorkspaceStore(tx)
            kept = store.get_for_update(workspace.id)
            rescued = replace(kept, rescue_branch=rescue_branch or kept.rescue_branch)
            store.save(kept, rescued)
            self._emit(tx, WorkspaceEvent.WORKSPACE_REMOVED, rescued)
        return TreeRemoval(rescue_branch)

    def _emit(
        self, tx: Transaction, event: WorkspaceEvent, workspace: Workspace, task_ids: Sequence[str] = ()
    ) -> None:
        view = WorkspaceView.from_workspace(workspace, task_ids).model_dump(mode="json")
        tx.emit(event, view, workspace.workflow_id)


def _build_conflict_error(workspace: Workspace, rival: Workspace | None) -> NotAllowed:
    if rival is None:  # it existed a moment ago
        return NotAllowed(
            "Another workspace had the same tree or branch a moment ago.", suggestion="Try again."
        )
    what = f"tree {rival.path!r}" if rival.path == workspace.path else f"branch {rival.branch!r}"
    return NotAllowed(
        f"The active workspace {rival.id} already uses the {what}.",
        suggestion="Use that one, end it with {tool:workspace_update}, or choose another path and branch.",
    )
