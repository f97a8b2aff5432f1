"""What can be asked of workspaces and repositories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from deepwork.database.transaction import Database, Transaction
from deepwork.errors import Code, InvalidInput, NotAllowed
from deepwork.names import new_id
from deepwork.plans.models import Task
from deepwork.plans.store import PlanStore
from deepwork.plans.task_store import TaskStore
from deepwork.shapes import Done, Id, Limit200, Limit1000, Name, Text, Traits
from deepwork.workspaces import rules
from deepwork.workspaces.desk import WorkspaceDesk
from deepwork.workspaces.models import PlaceEvent, Workspace, WorkspaceStatus
from deepwork.workspaces.places import real_path, repository_of, require_near
from deepwork.workspaces.repositories import RepositoryDesk
from deepwork.workspaces.responses import (
    Forecast,
    Registered,
    Repositories,
    RepositoryView,
    WorkspaceCreated,
    Workspaces,
    WorkspaceUpdated,
    WorkspaceView,
)
from deepwork.workspaces.store import RepositoryStore, WorkspaceStore

_NEIGHBOURS = 50


class WorkspaceTools:
    """Tasks that run at the same time get trees of their own, and these are brought home again."""

    traits: ClassVar = Traits(
        toolset="workspaces",
        read_only=frozenset({"workspace_list", "workspace_check"}),
        idempotent=frozenset({"workspace_update", "task_assign_workspace"}),
        destructive=frozenset({"workspace_update"}),
        aliases={"assign": "task-assign-workspace"},
    )

    def __init__(self, database: Database, desk: WorkspaceDesk) -> None:
        self._database = database
        self._desk = desk

    def workspace_create(
        self,
        workflow_id: Id,
        path: Annotated[Text, Field(description="Absolute, or relative to the repository")],
        branch: Name,
        base_branch: Annotated[Name | None, Field(description="Default: what is checked out")] = None,
        task_ids: Annotated[list[Id] | None, Field(description="To be worked on there")] = None,
        create: Annotated[bool, Field(description="Make the git worktree and branch, too")] = False,
    ) -> WorkspaceCreated:
        """Register a working tree for a workflow's tasks; with create, make it."""
        with self._database.transaction() as tx:
            workflow = PlanStore(tx).get(workflow_id)
            tasks = [_task_of(tx, workflow_id, id) for id in dict.fromkeys(task_ids or ())]
            repository = Path(workflow.repository_path or "/")
            main = repository_of(repository)
            where = Path(real_path("path", path, relative_to=main or repository))
            if create:
                _require_repository(repository, main)
                require_near(main or repository, where)
            workspace = Workspace(
                id=new_id("ws"), workflow_id=workflow_id, host=self._desk.host,
                repository_path=str(main or repository), path=str(where), branch=branch,
                base_branch=base_branch, base_commit=None, status=WorkspaceStatus.ACTIVE,
                merge_commit=None, rescue_branch=None, is_made=create,
                created_by=tx.caller, created_at=tx.now, updated_at=tx.now,
            )  # fmt: skip
            self._desk.register(tx, workspace, [task.id for task in tasks])
            if create:
                tx.afterwards(lambda: self._desk.make(workspace))
        warning = None if create or where.is_dir() else f"There is no folder {path!r} on this machine yet."
        return WorkspaceCreated(id=workspace.id, path=str(where) if create else None, warning=warning)

    def workspace_update(
        self,
        id: Id,
        status: WorkspaceStatus | None = None,
        merge_commit: Annotated[Name | None, Field(description="Default: found in git")] = None,
    ) -> WorkspaceUpdated:
        """Say what became of a workspace; a tree that deepwork made is removed, nothing in it is lost."""
        with self._database.reading() as tx:
            known = WorkspaceStore(tx).get(id)
        found, remark = self._merge(known, status, merge_commit)
        with self._database.transaction() as tx:
            store = WorkspaceStore(tx)
            before = store.hold(id)
            wanted = status or before.status
            rules.require_move(before, wanted)
            if before.status is WorkspaceStatus.ABANDONED and wanted is WorkspaceStatus.ACTIVE:
                self._desk.reopen(tx, before)
            after = replace(before, status=wanted, merge_commit=found or before.merge_commit)
            if after != before:
                after = replace(after, updated_at=tx.now)
                store.keep(before, after)
                view = WorkspaceView.of(after, store.tasks([id]).get(id, ()))
                tx.emit(PlaceEvent.WORKSPACE_UPDATED, view.model_dump(mode="json"), after.workflow_id)
            # Also where nothing changed: the last time may have been cut off before the tree was removed.
            closing = None if wanted is WorkspaceStatus.ACTIVE else self._desk.close(tx, after)
        warnings = [remark, *(closing.warnings if closing else ())]
        return WorkspaceUpdated(
            merge_commit=after.merge_commit,
            rescue_branch=(closing and closing.rescue_branch) or after.rescue_branch,
            warning=" ".join(filter(None, warnings)) or None,
        )

    def workspace_list(
        self, workflow_id: Id, status: list[WorkspaceStatus] | None = None, limit: Limit1000 = 200
    ) -> Workspaces:
        """The workspaces of a workflow, with the tasks that are worked on there."""
        with self._database.reading() as tx:
            PlanStore(tx).get(workflow_id)
            store = WorkspaceStore(tx)
            found, total = store.of_workflow(workflow_id, status, limit)
            tasks = store.tasks([workspace.id for workspace in found])
            views = [WorkspaceView.of(workspace, tasks.get(workspace.id, ())) for workspace in found]
            return Workspaces(workspaces=views, total=total)

    def workspace_check(self, id: Id) -> Forecast:
        """Whether its branch would merge with its base and with other active workspaces; changes nothing."""
        with self._database.reading() as tx:
            store = WorkspaceStore(tx)
            workspace = store.get(id)
            others = store.neighbours(workspace, _NEIGHBOURS)
        if not self._desk.is_here(workspace):
            raise NotAllowed(
                f"The tree of workspace {id} is on {workspace.host}.", suggestion="Ask the server there."
            )
        outlook = self._desk.trees.outlook(workspace, others)
        return Forecast(
            clean=not outlook.with_base and not outlook.with_others,
            conflicts_with_base=outlook.with_base,
            conflicts_with=outlook.with_others,
            uncommitted=outlook.uncommitted or None,
            warning=" ".join(outlook.warnings) or None,
        )

    def task_assign_workspace(self, task_id: Id, workspace_id: Id) -> Done:
        """Say in which workspace a task is worked on."""
        with self._database.transaction() as tx:
            store = WorkspaceStore(tx)
            workflow_id = TaskStore(tx).get(task_id).workflow_id
            PlanStore(tx).hold(workflow_id)
            workspace = store.hold(workspace_id)
            task = _task_of(tx, workspace.workflow_id, task_id)
            rules.require_active(workspace)
            if task.workspace_id != workspace_id:
                store.assign(workspace_id, [task_id])
                view = WorkspaceView.of(workspace, store.tasks([workspace_id])[workspace_id])
                tx.emit(PlaceEvent.WORKSPACE_UPDATED, view.model_dump(mode="json"), workflow_id)
            return Done()

    def _merge(
        self, workspace: Workspace, status: WorkspaceStatus | None, given: str | None
    ) -> tuple[str | None, str | None]:
        """The commit that merged the branch, and what is odd about it."""
        if status is not WorkspaceStatus.MERGED or workspace.status is not WorkspaceStatus.ACTIVE:
            return given, None
        given = given or workspace.merge_commit
        if not self._desk.is_here(workspace) or repository_of(Path(workspace.repository_path)) is None:
            return given, None if given else "No merge commit was given, and git could not be asked."
        return self._desk.trees.merged_by(workspace, given)


class RepositoryTools:
    """Which repositories plans are about."""

    traits: ClassVar = Traits(
        toolset="workspaces",
        read_only=frozenset({"repository_list", "repository_get"}),
        idempotent=frozenset({"repository_register"}),
    )

    def __init__(self, database: Database, desk: RepositoryDesk) -> None:
        self._database = database
        self._desk = desk

    def repository_register(
        self, path: Annotated[Text, Field(description="Absolute")], name: Name | None = None
    ) -> Registered:
        """Make a repository known; one that is known already keeps its id and takes the new name."""
        where = real_path("path", path)
        with self._database.transaction() as tx:
            repository = self._desk.register(tx, where, name)
        is_git = repository_of(Path(where)) is not None
        return Registered(id=repository.id, warning=None if is_git else f"{where} is no git repository here.")

    def repository_list(self, limit: Limit200 = 20, offset: Annotated[int, Field(ge=0)] = 0) -> Repositories:
        """Known repositories, newest first."""
        with self._database.reading() as tx:
            found, total = RepositoryStore(tx).newest(limit, offset)
            return Repositories(repositories=[RepositoryView.of(each) for each in found], total=total)

    def repository_get(self, path: Annotated[Text, Field(description="Absolute")]) -> RepositoryView | None:
        """The repository at this path, or null; links lead to the same one."""
        where = real_path("path", path)
        with self._database.reading() as tx:
            found = RepositoryStore(tx).find(self._desk.host, where)
            return RepositoryView.of(found) if found else None


def _task_of(tx: Transaction, workflow_id: str, task_id: str) -> Task:
    task = TaskStore(tx).get(task_id)
    if task.workflow_id != workflow_id:
        raise InvalidInput(
            f"Task {task_id!r} belongs to workflow {task.workflow_id}, not to {workflow_id}.",
            code=Code.WORKFLOW_MISMATCH,
            suggestion="Name tasks of the workspace's own workflow.",
        )
    return task


def _require_repository(repository: Path, main: Path | None) -> None:
    if main is None:
        raise InvalidInput(
            f"The workflow's repository {repository} is no git repository on this machine.",
            suggestion="Create the workflow with the `repository_path` of one, or leave `create` out.",
        )
