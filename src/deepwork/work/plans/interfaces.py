"""What plans need from the workspaces package, which plans must not import."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from deepwork.kernel.call import ActionOutcome
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.files.repositories import Head
from deepwork.kernel.git.snapshot_types import Snapshot
from deepwork.kernel.records import dataclass
from deepwork.work.plans.models import Task, Workflow


@dataclass(frozen=True)
class TaskWorkspace(ActionOutcome):
    """The workspace of a task, or why there is none; an outcome if that changes after the commit."""

    id: str | None = None
    path: str | None = None
    branch: str | None = None
    problem: str | None = None
    base: str | None = None
    """The branch that the work goes to in the end."""
    builds_on: tuple[str, ...] = ()
    """The branches of dependencies that the branch contains."""
    unmerged: tuple[str, ...] = ()
    """Those that it does not contain, because they conflicted or are not here; `problem` says how."""
    is_new: bool = False
    """Whether this call made its tree, so that it has the files of its commit and no others yet."""


@dataclass(frozen=True)
class FinishedTree(ActionOutcome):
    """What a completed task left uncommitted in its worktree, found after the commit."""

    files: tuple[str, ...] = ()
    """The first uncommitted files."""
    total: int = 0
    commit: str | None = None
    """The commit that now has the work."""
    remark: str | None = None


class WorkspaceProvider(Protocol):
    """Assigns workspaces to claimed tasks."""

    has_other_machines: bool
    """Whether agents on other machines use the store, too."""

    def provide_for_task(
        self, tx: Transaction, workflow: Workflow, task: Task, *, others: int
    ) -> TaskWorkspace | None:
        """Return the workspace for a task that was just claimed, while `others` tasks are active."""

    def explain_elsewhere(self, tx: Transaction, task: Task) -> str | None:
        """Say which work of dependencies is on other machines, so that the task has to wait for it.

        Raises NotPrepared if `look_for_dependencies` was not called for the call.
        """

    def look_for_dependencies(self, task_id: str) -> object:
        """Look for the work of the task's dependencies in the repository; not inside a transaction."""

    def finish_task(self, tx: Transaction, workflow: Workflow, task: Task) -> None:
        """After the commit, list or commit what the completed task left uncommitted in its worktree."""

    def find_for_task(self, tx: Transaction, task: Task) -> TaskWorkspace | None:
        """Return the active workspace that the task has."""

    def load_current(self, workspace_id: str) -> TaskWorkspace | None:
        """Return the active workspace with what its branch contains now; not inside a transaction."""


@dataclass(frozen=True)
class CompletedWork:
    """The files and the commit of a task's worktree, for the transaction that completes the task."""

    snapshot: Snapshot | None = None
    place: Path | None = None
    """The folder that was looked at; None if that is not known."""

    @property
    def tree(self) -> str | None:
        return self.snapshot.tree if self.snapshot else None

    @property
    def head(self) -> str | None:
        return self.snapshot.head if self.snapshot else None

    @property
    def is_whole(self) -> bool:
        """Whether the tree has all files that could be committed: too large ones are left out."""
        return self.snapshot is not None and not (self.snapshot.listed or self.snapshot.unreadable)


class WorkDescriber(Protocol):
    """Describes the work of a task, for a person who has to approve it."""

    def describe(self, task_id: str, seen: CompletedWork) -> Mapping[str, Any] | None:
        """Return the files that the task changed, with their versions; None if that is not tracked."""


class RepositoryRegistry(Protocol):
    """Resolves and records the repositories that plans are for."""

    def locate(self, repository_path: str | None) -> str:
        """Return the real path; without an argument, that of this project."""

    def ensure_known(self, tx: Transaction, path: str) -> None:
        """Record the repository of a new plan."""

    def find_head(self, path: str) -> Head | None:
        """Return the commit and branch that the repository is on; None without git or a commit."""


class TaskTrees(Protocol):
    """Knows in which working tree a planned task is done, where its work started, and what it changed."""

    def localize(self, tx: Transaction, workflow: Workflow) -> Workflow:
        """Return the plan with the path that its repository has on this machine."""

    def locate(self, tx: Transaction, workflow: Workflow, task: Task) -> Path:
        """Return the tree of the task; raises unless it is a tree of the plan's repository here."""

    def find_base(self, workflow: Workflow, tree: Path) -> str | None:
        """Return the commit that the work in this tree started from; None without git."""

    def find_tree(self, tx: Transaction, workflow: Workflow, task: Task) -> Path | None:
        """Return the tree of the task; None unless it is a tree of the plan's repository here."""

    def take_snapshot(self, task_id: str, tree: Path) -> Snapshot | None:
        """Return all files of the task's tree as they are now; None if they cannot be read.

        Not inside a transaction. If the task is completed with it, no other one is taken at its end.
        """

    def list_changed_paths(self, task_id: str, tree: Path) -> tuple[str, ...] | None:
        """Return the files that the task changed, relative to its tree; None if that is not known."""
