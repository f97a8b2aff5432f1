"""Response models of the repository and workspace tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from deepwork.kernel.answers import Answer
from deepwork.kernel.call import ActionOutcome
from deepwork.work.plans.interfaces import TaskWorkspace
from deepwork.work.workspaces.models import TreeRemoval, Workspace, WorkspaceStatus


class RepositoryRegistered(Answer):
    id: str
    warning: str | None = None


class RepositoryView(Answer):
    id: str
    path: str
    name: str
    host: str
    created_at: int
    updated_at: int


class Repositories(Answer):
    repositories: list[RepositoryView]
    total: int


class WorkspaceCreated(Answer):
    id: str
    path: str | None = None
    base_commit: str | None = None
    warning: str | None = None


class WorkspaceUpdated(Answer):
    success: bool = True
    merge_commit: str | None = None
    rescue_branch: str | None = None
    warning: str | None = None

    def revise(self, outcome: ActionOutcome) -> Self:
        """Add what became of the tree, which git removes after the commit."""
        if not isinstance(outcome, TreeRemoval):
            return self
        return self.model_copy(
            update={
                "rescue_branch": outcome.rescue_branch or self.rescue_branch,
                "warning": " ".join(filter(None, [self.warning, outcome.warning])) or None,
            }
        )


class WorkspaceView(Answer):
    """A workspace; `is_made` means that deepwork created its tree and will remove it."""

    id: str
    workflow_id: str
    path: str
    branch: str
    base_branch: str | None = None
    base_commit: str | None = None
    status: WorkspaceStatus
    merge_commit: str | None = None
    rescue_branch: str | None = None
    is_made: bool
    host: str
    repository_path: str
    task_ids: list[str]
    created_by: str
    created_at: int
    updated_at: int
    builds_on: list[str] | None = None
    unmerged: list[str] | None = None

    @classmethod
    def from_workspace(cls, workspace: Workspace, task_ids: Sequence[str] = ()) -> Self:
        lists = {"builds_on": list(workspace.builds_on) or None, "unmerged": list(workspace.unmerged) or None}
        return cls.of(workspace, **lists, task_ids=list(task_ids))


class Workspaces(Answer):
    workspaces: list[WorkspaceView]
    total: int


class Forecast(Answer):
    """The conflicts that a merge would cause."""

    clean: bool
    conflicts_with_base: list[str]
    conflicts_with: dict[str, list[str]]
    uncommitted: list[str] | None = None
    """Workspaces with uncommitted work, which the forecast ignores."""
    truncated: list[str] | None = None
    """The lists that were cut, by key or workspace; `counts` has their full lengths."""
    counts: dict[str, int] | None = None
    warning: str | None = None


def describe_workspace(workspace: Workspace) -> TaskWorkspace:
    """Describe a workspace to the agent that works in it."""
    return TaskWorkspace(
        workspace.id,
        workspace.path,
        workspace.branch,
        base=workspace.base_branch,
        builds_on=workspace.builds_on,
        unmerged=workspace.unmerged,
    )
