"""MCP tools for workspaces and repositories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar

from deepwork.kernel.answers import Done, Field, Id, Limit200, Limit1000, Name, Text
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import MAX_ECHOED, Code, InvalidInput, NotAllowed
from deepwork.kernel.files.repositories import find_repository, is_tree_of
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.text_budget.shortening import MAX_LIST_BYTES, ListCutter
from deepwork.kernel.values import new_id
from deepwork.work.plans.models import Task
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.workspaces.models import (
    Workspace,
    WorkspaceEvent,
    WorkspaceStatus,
    require_active,
    require_transition,
)
from deepwork.work.workspaces.repositories import RepositoryLocator, require_allowed_tree_path, resolve_path
from deepwork.work.workspaces.responses import (
    Forecast,
    Repositories,
    RepositoryRegistered,
    RepositoryView,
    WorkspaceCreated,
    Workspaces,
    WorkspaceUpdated,
    WorkspaceView,
)
from deepwork.work.workspaces.service import WorkspaceService
from deepwork.work.workspaces.store import RepositoryStore, WorkspaceStore

_MAX_COMPARED_WORKSPACES = 50


class WorkspaceTools:
    """Tools to create, close and check workspaces."""

    traits: ClassVar = Traits(toolset="workspaces", aliases={"assign": "task-assign-workspace"})

    def __init__(self, database: Database, service: WorkspaceService) -> None:
        self._database = database
        self._service = service

    @operation("work")
    def workspace_create(
        self,
        workflow_id: Id,
        path: Annotated[Text, Field(description="Absolute, or relative to the repository")],
        branch: Name,
        base_branch: Annotated[Name | None, Field(description="Default: the checked-out one")] = None,
        task_ids: list[Id] | None = None,
        create: Annotated[bool, Field(description="Also create the git worktree and branch")] = False,
    ) -> WorkspaceCreated:
        """Register a working tree for tasks of a plan, or create it."""
        with self._database.transaction() as tx:
            workflow = PlanStore(tx).get(workflow_id)
            tasks = [_get_task_of_workflow(tx, workflow_id, id) for id in dict.fromkeys(task_ids or ())]
            repository = Path(workflow.repository_path or "/")
            main = find_repository(repository)
            where = Path(resolve_path("path", path, relative_to=main or repository))
            if create:
                _require_repository(repository, main)
                is_owner = current_call().scope == "admin"
                require_allowed_tree_path(main or repository, where, may_be_beside=is_owner)
                self._require_allowed_base(main or repository, base_branch)
            else:
                _require_registrable(main or repository, where)
            workspace = Workspace(
                id=new_id("ws"),
                workflow_id=workflow_id,
                host=self._service.host,
                repository_path=str(main or repository),
                path=str(where),
                branch=branch,
                base_branch=base_branch,
                base_commit=None,
                status=WorkspaceStatus.ACTIVE,
                merge_commit=None,
                rescue_branch=None,
                is_made=create,
                created_by=tx.caller,
                created_at=tx.now,
                updated_at=tx.now,
            )
            self._service.register(tx, workspace, [task.id for task in tasks])
            if create:
                tx.after_commit(lambda: self._create_tree(workspace))
        warning = None if create or where.is_dir() else f"There is no folder {path!r} on this machine yet."
        return WorkspaceCreated(id=workspace.id, path=str(where) if create else None, warning=warning)

    def _require_allowed_base(self, repository: Path, base: str | None) -> None:
        """Raise NotAllowed if a caller without the scope admin asks for files that are on no local branch."""
        if current_call().scope == "admin" or base is None:
            return
        if not self._service.worktrees.has_branch(repository, base):
            raise NotAllowed(
                f"There is no local branch {base[:MAX_ECHOED]!r} to begin with.",
                code=Code.UNAUTHORIZED,
                suggestion="Name a local branch; only the scope admin can begin with other commits.",
            )

    @operation("work", idempotent=True, destructive=True, for_people=True)
    def workspace_update(
        self,
        id: Id,
        status: WorkspaceStatus | None = None,
        merge_commit: Annotated[Name | None, Field(description="Default: found in git")] = None,
    ) -> WorkspaceUpdated:
        """Set a workspace's status; closing removes a tree that deepwork created, without losing work."""
        with self._database.reading() as tx:
            known = WorkspaceStore(tx).get(id)
        found, remark = self._find_merge_commit(known, status, merge_commit)
        with self._database.transaction() as tx:
            store = WorkspaceStore(tx)
            before = store.get_for_update(id)
            wanted = status or before.status
            require_transition(before, wanted)
            if before.status is WorkspaceStatus.ABANDONED and wanted is WorkspaceStatus.ACTIVE:
                self._service.require_reopenable(tx, before)
            after = replace(before, status=wanted, merge_commit=found or before.merge_commit)
            if after != before:
                after = replace(after, updated_at=tx.now)
                store.save(before, after)
                view = WorkspaceView.from_workspace(after, store.list_task_ids([id]).get(id, ()))
                tx.emit(WorkspaceEvent.WORKSPACE_UPDATED, view.model_dump(mode="json"), after.workflow_id)
            # Also if nothing changed: an earlier call may have been interrupted before the tree was removed.
            elsewhere = None if wanted is WorkspaceStatus.ACTIVE else self._service.close(tx, after)
        return WorkspaceUpdated(
            merge_commit=after.merge_commit,
            rescue_branch=after.rescue_branch,
            warning=" ".join(filter(None, [remark, elsewhere])) or None,
        )

    @operation("read")
    def workspace_list(
        self, workflow_id: Id, status: list[WorkspaceStatus] | None = None, limit: Limit1000 = 200
    ) -> Workspaces:
        """The workspaces of a plan, with their tasks."""
        with self._database.reading() as tx:
            PlanStore(tx).get(workflow_id)
            store = WorkspaceStore(tx)
            found, total = store.list_for_workflow(workflow_id, status, limit)
            tasks = store.list_task_ids([workspace.id for workspace in found])
        current = map(self._service.update_unmerged, found)
        views = [WorkspaceView.from_workspace(each, tasks.get(each.id, ())) for each in current]
        return Workspaces(workspaces=views, total=total)

    @operation("read")
    def workspace_check(self, id: Id) -> Forecast:
        """Check if its branch would merge with its base and other active workspaces."""
        with self._database.reading() as tx:
            store = WorkspaceStore(tx)
            workspace = store.get(id)
            others = store.list_others_in_repository(workspace, _MAX_COMPARED_WORKSPACES)
        if not self._service.is_local(workspace):
            raise NotAllowed(
                f"The tree of workspace {id} is on {workspace.host}.", suggestion="Call the server there."
            )
        preview = self._service.worktrees.preview_merge(workspace, others)
        lists = ListCutter()
        share = MAX_LIST_BYTES // max(1, len(preview.with_others))
        conflicts = {
            other: lists.cut(other, files, max_bytes=share) for other, files in preview.with_others.items()
        }
        return Forecast(
            clean=not preview.with_base and not preview.with_others,
            conflicts_with_base=lists.cut("conflicts_with_base", preview.with_base),
            conflicts_with=conflicts,
            uncommitted=preview.uncommitted or None,
            truncated=list(lists.totals) or None,
            counts=lists.totals or None,
            warning=" ".join(preview.warnings) or None,
        )

    @operation("work", idempotent=True)
    def task_assign_workspace(self, task_id: Id, workspace_id: Id) -> Done:
        """Assign a task to a workspace."""
        with self._database.transaction() as tx:
            store = WorkspaceStore(tx)
            workflow_id = TaskStore(tx).get(task_id).workflow_id
            PlanStore(tx).get_for_update(workflow_id)
            workspace = store.get_for_update(workspace_id)
            task = _get_task_of_workflow(tx, workspace.workflow_id, task_id)
            require_active(workspace)
            if task.workspace_id != workspace_id:
                store.assign(workspace_id, [task_id])
                view = WorkspaceView.from_workspace(
                    workspace, store.list_task_ids([workspace_id])[workspace_id]
                )
                tx.emit(WorkspaceEvent.WORKSPACE_UPDATED, view.model_dump(mode="json"), workflow_id)
            return Done()

    def _create_tree(self, workspace: Workspace) -> None:
        self._service.create_tree(workspace)

    def _find_merge_commit(
        self, workspace: Workspace, status: WorkspaceStatus | None, given: str | None
    ) -> tuple[str | None, str | None]:
        """Return the commit that merged the branch, and a warning if it looks wrong."""
        if status is not WorkspaceStatus.MERGED or workspace.status is not WorkspaceStatus.ACTIVE:
            return given, None
        given = given or workspace.merge_commit
        if not self._service.is_local(workspace) or find_repository(Path(workspace.repository_path)) is None:
            return given, None if given else "No merge commit was given, and git cannot look for it here."
        return self._service.worktrees.resolve_merge_commit(workspace, given)


class RepositoryTools:
    """Tools to register and list repositories."""

    traits: ClassVar = Traits(toolset="workspaces")

    def __init__(self, database: Database, locator: RepositoryLocator) -> None:
        self._database = database
        self._locator = locator

    @operation("admin", idempotent=True)
    def repository_register(
        self, path: Annotated[Text, Field(description="Absolute")], name: Name | None = None
    ) -> RepositoryRegistered:
        """Register a repository, or rename it."""
        where = resolve_path("path", path)
        with self._database.transaction() as tx:
            repository = self._locator.register(tx, where, name)
        is_git = find_repository(Path(where)) is not None
        return RepositoryRegistered(
            id=repository.id, warning=None if is_git else f"{where} is not a git repository here."
        )

    @operation("read")
    def repository_list(self, limit: Limit200 = 20, offset: Annotated[int, Field(ge=0)] = 0) -> Repositories:
        """Registered repositories, newest first."""
        with self._database.reading() as tx:
            found, total = RepositoryStore(tx).list_newest(limit, offset)
            return Repositories(repositories=[RepositoryView.of(each) for each in found], total=total)

    @operation("read")
    def repository_get(self, path: Annotated[Text, Field(description="Absolute")]) -> RepositoryView | None:
        """The repository at this path, or null; follows links."""
        where = resolve_path("path", path)
        with self._database.reading() as tx:
            found = RepositoryStore(tx).find(self._locator.host, where)
            return RepositoryView.of(found) if found else None


def _get_task_of_workflow(tx: Transaction, workflow_id: str, task_id: str) -> Task:
    task = TaskStore(tx).get(task_id)
    if task.workflow_id != workflow_id:
        raise InvalidInput(
            f"Task {task_id!r} belongs to workflow {task.workflow_id}, not to {workflow_id}.",
            code=Code.WORKFLOW_MISMATCH,
            suggestion="Pass tasks of the workspace's workflow.",
        )
    return task


def _require_registrable(repository: Path, path: Path) -> None:
    """Raise NotAllowed if a caller without the scope admin registers a tree of another repository."""
    if current_call().scope != "admin" and not is_tree_of(repository, path):
        raise NotAllowed(
            f"{str(path)[:MAX_ECHOED]!r} is not a worktree of the workflow's repository.",
            code=Code.UNAUTHORIZED,
            suggestion="Register a worktree of the repository, or let this call make one with `create`.",
        )


def _require_repository(repository: Path, main: Path | None) -> None:
    if main is None:
        raise InvalidInput(
            f"The workflow's repository {repository} is not a git repository on this machine.",
            suggestion="Create the workflow with the `repository_path` of one, or omit `create`.",
        )
