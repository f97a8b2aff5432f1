"""Planned tasks are watched too: from when they are claimed or begun until they end.

Each look is taken after the change is stored and before it is answered, so that nothing an agent does after
an answer counts as having been there before it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from deepwork.database.transaction import Database, Happening
from deepwork.errors import DeepworkError
from deepwork.plans.models import PlanEvent, TaskStatus, Workflow
from deepwork.plans.store import PlanStore
from deepwork.plans.task_store import TaskStore
from deepwork.tracking.watch_store import Watch, WatchStore
from deepwork.tracking.watching import Watcher
from deepwork.workspaces.models import Workspace, WorkspaceStatus
from deepwork.workspaces.places import repository_of
from deepwork.workspaces.store import WorkspaceStore

log = logging.getLogger("deepwork")

_CHANGES = frozenset({PlanEvent.TASK_CLAIMED, PlanEvent.TASK_UPDATED, PlanEvent.TASK_RELEASED})
_STILL_AT_IT = frozenset({TaskStatus.IN_PROGRESS, TaskStatus.PAUSED, TaskStatus.PLANNING})


class PlanWatch:
    """Hears of planned tasks that begin and end, and looks at their trees."""

    def __init__(self, database: Database, watcher: Watcher, host: str, repository: Path) -> None:
        self._repository = repository
        self._database = database
        self._watcher = watcher
        self._host = host

    def heard(self, happenings: Sequence[Happening]) -> None:
        """Something was stored: see whether a task began or ended by it."""
        moved = [{**each.data, "type": each.type} for each in happenings if each.type in _CHANGES]
        if not any("workspace_id" in task for task in moved) and repository_of(self._repository) is None:
            return  # there is nothing to look at
        for task in moved:
            status = TaskStatus(task["status"])
            is_taken = task["type"] == PlanEvent.TASK_CLAIMED or status is TaskStatus.IN_PROGRESS
            if is_taken or status not in _STILL_AT_IT:
                self._follow(task["id"], has_begun=is_taken)

    def _follow(self, task_id: str, *, has_begun: bool) -> None:
        try:
            with self._database.reading() as tx:
                watch = WatchStore(tx).last(task_id)
            is_watched = watch is not None and watch.ended_at is None
            if has_begun and not is_watched:
                self._begin(task_id, watch)
            elif is_watched and not has_begun:
                self._end(task_id)
        except DeepworkError as error:
            log.warning("What task %s changes was not looked at: %s", task_id, error)
        except Exception:
            log.exception("What task %s changes was not looked at", task_id)

    def _begin(self, task_id: str, last: Watch | None) -> None:
        with self._database.reading() as tx:
            task = TaskStore(tx).get(task_id)
            workflow = PlanStore(tx).get(task.workflow_id)
            workspace = WorkspaceStore(tx).find(task.workspace_id) if task.workspace_id else None
        tree = self._tree(workflow, workspace)
        if tree is None:
            return
        look = self._watcher.look(tree)
        with self._database.transaction() as tx:
            attempt = last.attempt + 1 if last else 1
            self._watcher.begin(tx, task_id, task.workflow_id, look, areas=task.files, attempt=attempt)

    def _end(self, task_id: str) -> None:
        findings = self._watcher.findings(task_id)
        with self._database.transaction() as tx:
            workflow_id = TaskStore(tx).get(task_id).workflow_id
            self._watcher.end(tx, task_id, workflow_id, findings)
        if findings.ended is not None:
            self._watcher.tidy(findings.ended.tree)

    def _tree(self, workflow: Workflow, workspace: Workspace | None) -> Path | None:
        """Where the task is worked on, if that is a tree of git's on this machine."""
        if workspace and workspace.status is WorkspaceStatus.ACTIVE and workspace.host == self._host:
            tree = Path(workspace.path)
        else:
            tree = Path(workflow.repository_path or "")
        return tree if tree.is_absolute() and tree.is_dir() and repository_of(tree) is not None else None
