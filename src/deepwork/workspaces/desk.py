"""Opening and closing workspaces: decided in a transaction, carried out by git once that is stored.

A workspace is kept before its tree is made, so a crash in between leaves a row that says what was meant, not
a tree that nobody knows. What was begun is taken up again by repeating the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from deepwork.database.idempotency import forget_key
from deepwork.database.transaction import Database, Transaction
from deepwork.errors import DeepworkError, NotAllowed
from deepwork.names import new_id
from deepwork.plans.models import Task, Workflow
from deepwork.plans.workplaces import Workplace
from deepwork.workspaces import rules
from deepwork.workspaces.models import PlaceEvent, Workspace, WorkspaceStatus
from deepwork.workspaces.places import WORKTREES, repository_of
from deepwork.workspaces.responses import WorkspaceView
from deepwork.workspaces.store import WorkspaceStore
from deepwork.workspaces.trees import Trees

_NOT_MADE = "No worktree was made:"


@dataclass
class Closing:
    """What came of the end of a workspace, as far as it is known yet."""

    rescue_branch: str | None = None
    warnings: list[str] = field(default_factory=list)


class WorkspaceDesk:
    """Opens workspaces and closes them, on this machine."""

    def __init__(self, database: Database, trees: Trees, host: str) -> None:
        self._database = database
        self.trees = trees
        self.host = host

    def is_here(self, workspace: Workspace) -> bool:
        """Whether its tree is on this machine."""
        return workspace.host == self.host

    # Opening

    def register(self, tx: Transaction, workspace: Workspace, task_ids: Sequence[str]) -> None:
        """Keep a new workspace and assign tasks to it."""
        store = WorkspaceStore(tx)
        if not store.add(workspace):
            raise _taken(workspace, store.rival(workspace))
        if task_ids:
            store.assign(workspace.id, task_ids)
        self._tell(tx, PlaceEvent.WORKSPACE_CREATED, workspace, task_ids)

    def make(self, workspace: Workspace) -> None:
        """Make the tree of a workspace that is stored; if that fails, it is as if it had never been."""
        try:
            base_branch, base_commit = self.trees.make(workspace)
        except DeepworkError:
            with self._database.transaction() as tx:
                WorkspaceStore(tx).remove(workspace.id)
                self._tell(tx, PlaceEvent.WORKSPACE_REMOVED, workspace)
                forget_key(tx)
            raise
        with self._database.transaction() as tx:
            began = replace(workspace, base_branch=base_branch, base_commit=base_commit)
            store = WorkspaceStore(tx)
            store.keep(workspace, began)
            self._tell(tx, PlaceEvent.WORKSPACE_UPDATED, began, store.tasks([began.id]).get(began.id, ()))

    def for_task(self, tx: Transaction, workflow: Workflow, task: Task, *, others: int) -> Workplace | None:
        """Where a task that was just claimed is worked on: its workspace, or a new one if others run too."""
        store = WorkspaceStore(tx)
        known = store.find(task.workspace_id) if task.workspace_id else None
        if known is not None and known.status is WorkspaceStatus.ACTIVE:
            return self._again(tx, known)
        if not workflow.auto_create_workspaces or not others or workflow.repository_path is None:
            return None
        main = repository_of(Path(workflow.repository_path))
        if main is None:
            return Workplace(problem=f"{_NOT_MADE} {workflow.repository_path} is no git repository here.")
        workspace = self._planned(tx, main, task)
        if not store.add(workspace):
            taken = _taken(workspace, store.rival(workspace))
            return Workplace(problem=f"{_NOT_MADE} {taken.message}")
        store.assign(workspace.id, [task.id])
        self._tell(tx, PlaceEvent.WORKSPACE_CREATED, workspace, [task.id])
        return self._made_afterwards(tx, workspace)

    def _planned(self, tx: Transaction, main: Path, task: Task) -> Workspace:
        name = rules.slug(task.name, task.id)
        return Workspace(
            id=new_id("ws"), workflow_id=task.workflow_id, host=self.host, repository_path=str(main),
            path=str(main / WORKTREES / name), branch=f"deepwork/{name}", base_branch=None, base_commit=None,
            status=WorkspaceStatus.ACTIVE, merge_commit=None, rescue_branch=None, is_made=True,
            created_by=tx.caller, created_at=tx.now, updated_at=tx.now,
        )  # fmt: skip

    def _again(self, tx: Transaction, workspace: Workspace) -> Workplace:
        if workspace.is_made and self.is_here(workspace) and not Path(workspace.path).exists():
            return self._made_afterwards(tx, workspace)
        return Workplace(workspace.id, workspace.path, workspace.branch)

    def _made_afterwards(self, tx: Transaction, workspace: Workspace) -> Workplace:
        def make() -> None:
            try:
                self.make(workspace)
            except DeepworkError as error:
                tx.remark("warning", f"{_NOT_MADE} {error.message} Work in the project itself.")
                tx.take_back("workspace_id", "workspace_path", "branch")

        tx.afterwards(make)
        return Workplace(workspace.id, workspace.path, workspace.branch)

    # Closing

    def close(self, tx: Transaction, workspace: Workspace) -> Closing:
        """The workspace is over: once that is stored, remove its tree, if deepwork made it."""
        closing = Closing()
        if workspace.is_made and self.is_here(workspace):
            tx.afterwards(lambda: self._clear(workspace, closing))
        elif workspace.is_made:
            closing.warnings.append(f"Its tree is on {workspace.host}; run this there to remove it.")
        return closing

    def reopen(self, tx: Transaction, workspace: Workspace) -> None:
        """Refuse to go on where another works by now, or where the tree is gone."""
        if rival := WorkspaceStore(tx).rival(workspace):
            raise _taken(workspace, rival)
        if workspace.is_made and self.is_here(workspace) and not Path(workspace.path).is_dir():
            raise NotAllowed(
                f"The tree of workspace {workspace.id} was removed when it was abandoned.",
                suggestion=f"Create a workspace anew; its branch {workspace.branch!r} is still there.",
            )

    def _clear(self, workspace: Workspace, closing: Closing) -> None:
        if repository_of(Path(workspace.repository_path)) is None:
            return  # the repository is gone, and its trees with it
        try:
            closing.rescue_branch = self.trees.clear(workspace)
        except DeepworkError as error:
            closing.warnings.append(f"Its tree was not removed: {error.message}")
            return
        with self._database.transaction() as tx:
            store = WorkspaceStore(tx)
            kept = store.hold(workspace.id)
            rescued = replace(kept, rescue_branch=closing.rescue_branch or kept.rescue_branch)
            store.keep(kept, rescued)
            self._tell(tx, PlaceEvent.WORKSPACE_REMOVED, rescued)

    def _tell(
        self, tx: Transaction, event: PlaceEvent, workspace: Workspace, task_ids: Sequence[str] = ()
    ) -> None:
        view = WorkspaceView.of(workspace, task_ids).model_dump(mode="json")
        tx.emit(event, view, workspace.workflow_id)


def _taken(workspace: Workspace, rival: Workspace | None) -> NotAllowed:
    if rival is None:  # it was there a moment ago
        return NotAllowed("Another workspace had the same tree or branch just now.", suggestion="Try again.")
    what = f"tree {rival.path!r}" if rival.path == workspace.path else f"branch {rival.branch!r}"
    return NotAllowed(
        f"The active workspace {rival.id} has the {what}.",
        suggestion="Use that one, end it with workspace_update, or choose another path and branch.",
    )
