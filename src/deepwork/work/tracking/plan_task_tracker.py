"""Tracking the files that planned tasks change, from their claim or start to their end.

Each snapshot is taken after the commit and before the answer, so that no change an agent makes after the
answer is in it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, PendingEvent, Transaction
from deepwork.kernel.errors import DeepworkError, NotAllowed
from deepwork.kernel.files.repositories import (
    RefsElsewhere,
    find_repository,
    find_tree_root,
    is_tree_of,
    read_head,
)
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.merge_bases import find_base
from deepwork.kernel.git.snapshot_types import Snapshot
from deepwork.kernel.user_settings import build_git_environment
from deepwork.work.plans.interfaces import CompletedWork, TaskWorkspace
from deepwork.work.plans.models import PlanEvent, Task, TaskStatus, Workflow
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.attribution_service import AttributionService
from deepwork.work.tracking.models import CheckpointTree, Watch
from deepwork.work.tracking.watch_store import SnapshotResult, WatchStore
from deepwork.work.workspaces.models import LOCAL_HOST, Workspace, WorkspaceStatus
from deepwork.work.workspaces.repositories import RepositoryLocator
from deepwork.work.workspaces.store import WorkspaceStore

log = logging.getLogger("deepwork")

_RUNNING_STATUSES = frozenset({TaskStatus.IN_PROGRESS, TaskStatus.PAUSED, TaskStatus.PLANNING})


class PlanTaskTracker:
    """Takes snapshots of the working tree when planned tasks start and end."""

    def __init__(
        self,
        database: Database,
        attribution: AttributionService,
        repositories: RepositoryLocator,
        repository: Path,
    ) -> None:
        self._repositories = repositories
        self._repository = repository
        self._database = database
        self._attribution = attribution
        self._host = repositories.host
        self._taken: dict[str, SnapshotResult] = {}
        """The snapshots with which calls complete tasks, by task."""

    def handle_events(self, events: Sequence[PendingEvent]) -> None:
        """Start or end the watch of every task that was claimed, updated or released.

        A failure is logged: the change of the task is already committed, and its answer must be sent.
        """
        has_workspace = any("workspace_id" in event.data for event in events)
        if not has_workspace and find_repository(self._repository) is None:
            return  # neither a workspace nor a git repository
        for event in events:
            status = TaskStatus(event.data["status"])
            is_over = status not in _RUNNING_STATUSES or "waits_for" in event.data
            is_taken = event.type == PlanEvent.TASK_CLAIMED or (
                status is TaskStatus.IN_PROGRESS and not is_over
            )
            if is_taken or is_over:
                self._update_watch(event.data["id"], has_begun=is_taken)

    def handle_checkpoints(self, events: Sequence[PendingEvent]) -> None:
        """Take a snapshot at each checkpoint of a task that is watched, so that it can be rewound to it."""
        for event in events:
            try:
                self._record_checkpoint(event.data["task_id"], event.data["id"], event.data["sequence"])
            except DeepworkError as error:
                log.warning("Cannot take a snapshot at checkpoint %s: %s", event.data["id"], error)
            except Exception:
                log.exception("Cannot take a snapshot at checkpoint %s", event.data["id"])

    def localize(self, tx: Transaction, workflow: Workflow) -> Workflow:
        """Return the plan with the path that its repository has on this machine."""
        if self._host == LOCAL_HOST:  # the store is only of this machine
            return workflow
        return self._repositories.localize(tx, workflow)

    def locate(self, tx: Transaction, workflow: Workflow, task: Task) -> Path:
        """Return the tree of the task; raises unless it is a tree of the plan's repository here."""
        tree = self.find_tree(tx, workflow, task)
        if tree is None:
            workspace = WorkspaceStore(tx).find(task.workspace_id) if task.workspace_id else None
            where = f"{workspace.path} on {workspace.host}" if workspace else str(workflow.repository_path)
            raise NotAllowed(
                f"The checks of task {task.name!r} cannot run: {where} is not a working tree of the plan's "
                "repository on this machine.",
                suggestion="Complete it where its tree is, or register that tree with "
                "{tool:workspace_create}.",
                recoverable=True,
            )
        return tree

    def find_tree(self, tx: Transaction, workflow: Workflow, task: Task) -> Path | None:
        """Return the tree of the task; None unless it is a tree of the plan's repository here."""
        workspace = WorkspaceStore(tx).find_active(task.workspace_id)
        if workspace is not None and workspace.host != self._host:
            return None
        return self._find_tree(self.localize(tx, workflow), workspace)

    def take_snapshot(self, task_id: str, tree: Path) -> Snapshot | None:
        """Return all files of the task's tree as they are now; None if they cannot be read."""
        taken = self._taken[task_id] = self._attribution.snapshots.take(tree)
        return taken.snapshot

    def find_base(self, workflow: Workflow, tree: Path) -> str | None:
        """Return the commit that the work in this tree started from; None without git."""
        start = workflow.base_commit
        if start is None or str(tree) == workflow.repository_path:
            return start
        return find_base(Git(tree, environment=build_git_environment(tree)), start, workflow.base_branch)

    def list_changed_paths(self, task_id: str, tree: Path) -> tuple[str, ...] | None:
        """Return the files that the task changed, relative to its tree; None if that is not known."""
        with self._database.reading() as tx:
            watch = WatchStore(tx).find_latest(task_id)
        if watch is None or watch.ended_at is not None or Path(watch.tree_path) != find_tree_root(tree):
            return None  # it was claimed in another tree, or never
        return self._attribution.list_changed_paths(task_id)

    def _update_watch(self, task_id: str, *, has_begun: bool) -> None:
        try:
            with self._database.reading() as tx:
                watch = WatchStore(tx).find_latest(task_id)
            is_watched = watch is not None and watch.ended_at is None
            if has_begun and not is_watched:
                self._start_watch(task_id, watch)
            elif is_watched and not has_begun:
                self._end_watch(task_id)
        except DeepworkError as error:
            log.warning("Cannot track the changes of task %s: %s", task_id, error)
        except Exception:
            log.exception("Cannot track the changes of task %s", task_id)

    def _record_checkpoint(self, task_id: str, checkpoint_id: str, sequence: int) -> None:
        with self._database.reading() as tx:
            watch = WatchStore(tx).find_latest(task_id)
        if watch is None or watch.ended_at is not None or watch.host != self._host:
            return
        taken = self._attribution.snapshots.take(Path(watch.tree_path))
        if taken.snapshot is None or str(taken.tree) != watch.tree_path:
            return
        place = watch.attempt, watch.host, watch.tree_path
        row = CheckpointTree(checkpoint_id, task_id, sequence, *place, taken.snapshot.to_dict(), taken.at)
        with self._database.transaction() as tx:
            WatchStore(tx).save_checkpoint_tree(row)

    def _start_watch(self, task_id: str, last: Watch | None) -> None:
        with self._database.reading() as tx:
            task = TaskStore(tx).get(task_id)
            workflow = self.localize(tx, PlanStore(tx).get(task.workflow_id))
            workspace = WorkspaceStore(tx).find(task.workspace_id) if task.workspace_id else None
        tree = self._find_tree(workflow, workspace)
        if tree is None:
            return
        snapshot = self._attribution.snapshots.take(tree, is_new=_was_made_now(tree))
        with self._database.transaction() as tx:
            attempt = last.attempt + 1 if last else 1
            self._attribution.snapshots.record_start(
                tx,
                task_id,
                task.workflow_id,
                snapshot,
                areas=task.files,
                attempt=attempt,
                agent_id=task.claimed_by,
            )

    def _end_watch(self, task_id: str) -> None:
        taken = self._find_taken(task_id)
        changes = self._attribution.find_changes(task_id, is_end=True, taken=taken)
        with self._database.transaction() as tx:
            workflow_id = TaskStore(tx).get(task_id).workflow_id
            self._attribution.record_end(tx, task_id, workflow_id, changes)
        if changes.ended is not None:
            self._attribution.snapshots.prune(changes.ended.tree, changes.ended.store)

    def _find_taken(self, task_id: str) -> SnapshotResult | None:
        """Return the snapshot with which this call completed the task, unless a commit came after it."""
        taken, completed = self._taken.pop(task_id, None), current_call().find_prepared(CompletedWork)
        if taken is None or taken.snapshot is None or completed is None:
            return None
        with suppress(RefsElsewhere):
            head = read_head(taken.tree)
            if taken.snapshot == completed.snapshot and head and head.commit == completed.head:
                return taken
        return None

    def _find_tree(self, workflow: Workflow, workspace: Workspace | None) -> Path | None:
        """Return the task's working tree, if it is a git tree on this machine.

        A workspace can be registered at any path. One that is not a tree of the workflow's repository is
        only a label: its files must not become readable through the diff of a task.
        """
        repository = Path(workflow.repository_path or "")
        if not repository.is_absolute() or find_repository(repository) is None:
            return None
        if workspace and workspace.status is WorkspaceStatus.ACTIVE and workspace.host == self._host:
            tree = Path(workspace.path)
            return tree if _is_own_tree(repository, tree, workspace) else None
        return repository if repository.is_dir() else None


def _was_made_now(tree: Path) -> bool:
    """Return whether this call made the tree."""
    places = [each for each in current_call().outcomes or () if isinstance(each, TaskWorkspace)]
    return any(each.is_new and each.path == str(tree) for each in places)


def _is_own_tree(repository: Path, tree: Path, workspace: Workspace) -> bool:
    """Return whether the folder still is the working tree of the workspace.

    Without its `.git`, or replaced by a link, it would be part of another tree, and that would be judged.
    """
    if not tree.is_dir() or tree.is_symlink() or not is_tree_of(repository, tree):
        return False
    root = find_tree_root(tree)
    return root == tree or not (workspace.is_made or root == find_tree_root(repository))
