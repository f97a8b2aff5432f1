"""What people read about the working trees of all plans."""

from __future__ import annotations

from typing import ClassVar

from deepwork.kernel.answers import Limit1000
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.operations import Traits, operation
from deepwork.work.workspaces.models import WorkspaceStatus
from deepwork.work.workspaces.responses import Workspaces, WorkspaceView
from deepwork.work.workspaces.store import WorkspaceStore


class WorkspaceOperations:
    """What people read about workspaces."""

    traits: ClassVar = Traits(toolset="workspaces", people_only=True)

    def __init__(self, database: Database) -> None:
        self._database = database

    @operation("read")
    def list_workspaces(
        self, status: list[WorkspaceStatus] | None = None, limit: Limit1000 = 200
    ) -> Workspaces:
        """The workspaces of all plans, the newest first, with their tasks."""
        with self._database.reading() as tx:
            store = WorkspaceStore(tx)
            found, total = store.list_newest(status, limit)
            tasks = store.list_task_ids([workspace.id for workspace in found])
        views = [WorkspaceView.from_workspace(each, tasks.get(each.id, ())) for each in found]
        return Workspaces(workspaces=views, total=total)
