"""What can be asked of the state of a workflow, and of what a task changed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from deepwork.database.transaction import Database
from deepwork.shapes import Id, Limit200, Traits
from deepwork.tracking.context import Wanted, of_plan, of_session, of_tracked
from deepwork.tracking.inputs import Filter, Part
from deepwork.tracking.models import WorkflowStatus
from deepwork.tracking.notes import NoteStore
from deepwork.tracking.responses import Context, TaskDiff, TrackedWorkflows, WorkflowView
from deepwork.tracking.rules import shown_status
from deepwork.tracking.store import TrackStore
from deepwork.tracking.subjects import Sessions
from deepwork.tracking.watching import Watcher

Limit500 = Annotated[int, Field(ge=1, le=500, description="Of each list")]


class ContextTools:
    """The memory of a workflow."""

    traits: ClassVar = Traits(
        toolset="tracking",
        read_only=frozenset({"get_context", "get_task_diff", "get_tracked_workflows"}),
        aliases={"list": "get-tracked-workflows", "context": "get-context", "diff": "get-task-diff"},
    )

    def __init__(self, database: Database, watcher: Watcher, sessions: Sessions) -> None:
        self._database = database
        self._sessions = sessions
        self._watcher = watcher

    def get_context(
        self,
        workflow_id: Annotated[Id, Field(description="Tracked, planned, or a job session")],
        include: list[Part],
        filter: Filter | None = None,
        limit: Limit500 = 50,
        cursor: Annotated[str | None, Field(description="From the last answer, for the rest")] = None,
    ) -> Context:
        """The state of a workflow: phases, tasks, decisions, milestones, blockers that wait for a person."""
        wanted = Wanted(tuple(dict.fromkeys(include)), filter or Filter(), limit, cursor)
        with self._database.reading() as tx:
            if workflow_id.startswith("wf_"):
                return of_plan(tx, workflow_id, wanted)
            if session := self._sessions.session(tx, workflow_id):
                return of_session(tx, session, wanted)
            return of_tracked(tx, workflow_id, wanted)

    def get_tracked_workflows(
        self,
        status: list[WorkflowStatus] | None = None,
        limit: Limit200 = 20,
        offset: Annotated[int, Field(ge=0)] = 0,
    ) -> TrackedWorkflows:
        """Tracked workflows, newest first: to find the one you were at."""
        with self._database.reading() as tx:
            found, total = TrackStore(tx).workflows(status, limit, offset)
            blocked = NoteStore(tx).blocked([workflow.id for workflow in found])
        views = [
            WorkflowView.of(workflow, shown_status(workflow, blocked.get(workflow.id, 0)))
            for workflow in found
        ]
        return TrackedWorkflows(workflows=views, total=total)

    def get_task_diff(
        self,
        task_id: Annotated[Id, Field(description="Tracked or planned")],
        path: Annotated[str | None, Field(description="Only this file, with its diff")] = None,
        max_bytes: Annotated[int, Field(ge=1, le=1_000_000, description="Of each diff")] = 20_000,
    ) -> TaskDiff:
        """The files a task changed, committed or not; for one file, the diff itself."""
        return self._watcher.diff(task_id, path, max_bytes)
