"""MCP tools that read the state of workflows and the changes of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from deepwork.kernel.answers import Field, Id, Limit200
from deepwork.kernel.call import current_call, is_person
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.notices.store import MAX_NOTICES, NoticeStore, build_views, carry_after_reading
from deepwork.kernel.operations import Traits, operation
from deepwork.work.agents.presence import Presence
from deepwork.work.tracking.attribution import JobSessionFinder
from deepwork.work.tracking.context import (
    ContextFilter,
    ContextRequest,
    ContextSection,
    build_plan_context,
    build_session_context,
    build_tracked_context,
)
from deepwork.work.tracking.diffs import DiffService, TaskDiff
from deepwork.work.tracking.models import TrackedWorkflowStatus
from deepwork.work.tracking.note_store import NoteStore
from deepwork.work.tracking.responses import Context, TrackedWorkflows, TrackedWorkflowView
from deepwork.work.tracking.rules import get_visible_status
from deepwork.work.tracking.store import TrackStore

if TYPE_CHECKING:
    from deepwork.work.tracking.inputs import Filter

Limit500 = Annotated[int, Field(ge=1, le=500, description="Of each list")]


class ContextTools:
    """Tools to read the state of workflows and the changes of tasks."""

    traits: ClassVar = Traits(
        toolset="tracking",
        aliases={"list": "get-tracked-workflows", "context": "get-context", "diff": "get-task-diff"},
    )

    def __init__(
        self, database: Database, presence: Presence, diffs: DiffService, sessions: JobSessionFinder
    ) -> None:
        self._database = database
        self._presence = presence
        self._sessions = sessions
        self._diffs = diffs

    @operation("read")
    def get_context(
        self,
        workflow_id: Annotated[Id, Field(description="Tracked, planned, or a job session")],
        include: list[ContextSection],
        filter: Filter | None = None,
        limit: Limit500 = 50,
        cursor: Annotated[str | None, Field(description="From the last answer, to continue")] = None,
    ) -> Context:
        """The state of a workflow: phases, tasks, decisions, milestones, blockers that wait for a person."""
        chosen = ContextFilter(filter.phase, filter.agent, filter.since_ms) if filter else ContextFilter()
        request = ContextRequest(tuple(dict.fromkeys(include)), chosen, limit, cursor)
        with self._database.reading() as tx:
            context = self._build_context(tx, workflow_id, request)
            reader = self._presence.find_unnamed_actor(tx)
            agents = [reader.id] if reader else []
            waiting = NoticeStore(tx).list_waiting(agents, [workflow_id], MAX_NOTICES)
        is_marked = self._presence.may_mark_notices and not is_person(current_call().caller)
        notices = carry_after_reading(self._database, waiting, is_marked=is_marked)
        return context.model_copy({"notices": build_views(notices, is_iso=True)}) if notices else context

    def _build_context(self, tx: Transaction, workflow_id: str, request: ContextRequest) -> Context:
        if workflow_id.startswith("wf_"):
            return build_plan_context(tx, workflow_id, request)
        if session := self._sessions.find_session(tx, workflow_id):
            return build_session_context(tx, session, request)
        return build_tracked_context(tx, workflow_id, request)

    @operation("read")
    def get_tracked_workflows(
        self,
        status: list[TrackedWorkflowStatus] | None = None,
        limit: Limit200 = 20,
        offset: Annotated[int, Field(ge=0)] = 0,
    ) -> TrackedWorkflows:
        """Tracked workflows, newest first; to find the one you were in."""
        with self._database.reading() as tx:
            found, total = TrackStore(tx).list_workflows(status, limit, offset)
            blocked = NoteStore(tx).count_blockers_by_workflow([workflow.id for workflow in found])
        views = [
            TrackedWorkflowView.from_workflow(
                workflow, get_visible_status(workflow, blocked.get(workflow.id, 0))
            )
            for workflow in found
        ]
        return TrackedWorkflows(workflows=views, total=total)

    @operation("read")
    def get_task_diff(
        self,
        task_id: Annotated[Id, Field(description="Tracked or planned")],
        path: Annotated[str | None, Field(description="Only this file, with its diff")] = None,
        max_bytes: Annotated[int, Field(ge=1, le=1_000_000, description="Of each diff")] = 20_000,
    ) -> TaskDiff:
        """The files a task changed, committed or not; for one file, its diff."""
        return self._diffs.get_diff(task_id, path, max_bytes)
