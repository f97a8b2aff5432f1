"""MCP tools to log decisions, issues and milestones on a task of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from deepwork.kernel.answers import Field, Id, Name, Text, check_object
from deepwork.kernel.call import is_person
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import NotAllowed, NotFound
from deepwork.kernel.foreign_text import remove_invisible
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.reserved_names import require_unreserved
from deepwork.kernel.values import format_timestamp, new_id
from deepwork.work.agents.store import AgentStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.attribution import JobSessionFinder
from deepwork.work.tracking.models import (
    Category,
    Decision,
    Issue,
    IssueType,
    Milestone,
    RecordSubject,
    TrackEvent,
)
from deepwork.work.tracking.note_store import NoteStore
from deepwork.work.tracking.notices import notify_of_answer, notify_of_milestone, record_verdict
from deepwork.work.tracking.responses import (
    DecisionLogged,
    DecisionView,
    IssueLogged,
    IssueResolved,
    IssueView,
    MilestoneLogged,
    MilestoneView,
)
from deepwork.work.tracking.store import TrackStore

Message = Annotated[str, Field(min_length=1, max_length=500)]


class LogTools:
    """Tools to log decisions, issues and milestones."""

    traits: ClassVar = Traits(
        toolset="tracking",
        aliases={
            "resolve": "resolve-issue",
            "decide": "log-decision",
            "issue": "log-issue",
            "milestone": "log-milestone",
        },
    )

    def __init__(self, database: Database, sessions: JobSessionFinder) -> None:
        self._database = database
        self._sessions = sessions

    @operation("work")
    def log_decision(
        self,
        task_id: Annotated[Id, Field(description="Tracked, planned, or SESSION_ID/STEP_ID of a job")],
        category: Category,
        question: Text,
        chosen: Text,
        reasoning: Text,
        options_considered: list[str] | None = None,
        trade_offs: str | None = None,
    ) -> DecisionLogged:
        """Record a decision: what was chosen, from what, and why."""
        with self._database.transaction() as tx:
            decision = Decision(
                id=new_id("dc"),
                subject=_resolve_subject(tx, task_id, self._sessions),
                category=category,
                question=question,
                options_considered=tuple(options_considered or ()),
                chosen=chosen,
                reasoning=reasoning,
                trade_offs=trade_offs,
                created_at=tx.now,
            )
            NoteStore(tx).add_decision(decision)
            view = DecisionView.from_note(decision).model_dump(mode="json")
            tx.emit(TrackEvent.DECISION_CREATED, view, decision.subject.workflow_id)
            return DecisionLogged(decision_id=decision.id, created_at=format_timestamp(tx.now))

    @operation("work")
    def log_issue(
        self,
        task_id: Id,
        type: IssueType,
        description: Text,
        resolution: Annotated[Text, Field(description="What was done or tried")],
        requires_human_review: Annotated[bool, Field(description="A blocker until resolve_issue")] = False,
    ) -> IssueLogged:
        """Record a problem; one that needs a person is a blocker until it is resolved."""
        with self._database.transaction() as tx:
            issue = Issue(
                id=new_id("is"),
                subject=_resolve_subject(tx, task_id, self._sessions),
                type=type,
                description=description,
                resolution=resolution,
                requires_human_review=requires_human_review,
                created_at=tx.now,
            )
            NoteStore(tx).add_issue(issue)
            view = IssueView.from_note(issue).model_dump(mode="json")
            tx.emit(TrackEvent.ISSUE_CREATED, view, issue.subject.workflow_id)
            return IssueLogged(issue_id=issue.id, created_at=format_timestamp(tx.now))

    @operation("work", for_people=True)
    def log_milestone(
        self,
        task_id: Id,
        message: Message,
        progress: Annotated[float | None, Field(ge=0, le=100, description="Percent")] = None,
        metadata: dict[str, Any] | None = None,
    ) -> MilestoneLogged:
        """Record the progress of a task; only its newest 100 are stored."""
        with self._database.transaction() as tx:
            for author in _find_authors(metadata):
                require_unreserved("metadata", author, tx.caller)
            milestone = Milestone(
                id=new_id("ml"),
                subject=_resolve_subject(tx, task_id, self._sessions),
                message=message,
                progress=None if progress is None else round(progress),
                metadata=None if metadata is None else check_object("metadata", metadata),
                created_at=tx.now,
                logged_by_person=tx.caller if is_person(tx.caller) else None,
            )
            notes = NoteStore(tx)
            if same := notes.find_recent_duplicate(milestone):
                return MilestoneLogged(milestone_id=same.id, created_at=format_timestamp(same.created_at))
            notes.add_milestone(milestone)
            record_verdict(tx, milestone)
            view = MilestoneView.from_note(milestone).model_dump(mode="json")
            tx.emit(TrackEvent.MILESTONE_CREATED, view, milestone.subject.workflow_id)
            notify_of_milestone(tx, milestone)
            return MilestoneLogged(milestone_id=milestone.id, created_at=format_timestamp(tx.now))

    @operation("work", idempotent=True, for_people=True)
    def resolve_issue(
        self,
        issue_id: Id,
        note: Text,
        resolved_by: Annotated[Name | None, Field(description="Default: the caller")] = None,
    ) -> IssueResolved:
        """Mark an issue as resolved; a blocker then no longer blocks."""
        with self._database.transaction() as tx:
            require_unreserved("resolved_by", resolved_by, tx.caller)
            notes = NoteStore(tx)
            issue = notes.get_issue_for_update(issue_id)
            if issue.resolved_at is not None:
                return _repeat_resolution(issue, note, issue.resolved_at)
            resolved = replace(
                issue, resolved_at=tx.now, resolved_by=resolved_by or tx.caller, resolution_note=note
            )
            notes.save_resolution(resolved)
            view = IssueView.from_note(resolved).model_dump(mode="json")
            tx.emit(TrackEvent.ISSUE_RESOLVED, view, issue.subject.workflow_id)
            notify_of_answer(tx, resolved)
            return IssueResolved(issue_id=issue_id, resolved_at=format_timestamp(tx.now))


def _resolve_subject(tx: Transaction, task_id: str, sessions: JobSessionFinder) -> RecordSubject:
    """Resolve the id of a tracked task, a planned task or a job step; counts as activity on the task."""
    if "/" in task_id:
        return _resolve_step(tx, task_id, sessions)
    if task_id.startswith("tk_"):
        planned = TaskStore(tx).get(task_id)
        holder = AgentStore(tx).get(planned.claimed_by) if planned.claimed_by else None
        return RecordSubject(
            task_id, planned.name, planned.workflow_id, None, holder.name if holder else None
        )
    store = TrackStore(tx)
    task = store.get_task(task_id)
    store.touch_task(task_id)
    return RecordSubject(task_id, task.name, task.workflow_id, task.phase_id, task.agent_name)


def _resolve_step(tx: Transaction, task_id: str, sessions: JobSessionFinder) -> RecordSubject:
    session_id, _, step_id = task_id.partition("/")
    session = sessions.find_session(tx, session_id)
    if session is None or step_id not in session.steps:
        raise NotFound(
            "task",
            task_id,
            suggestion="For a step of a job, pass SESSION_ID/STEP_ID; see {tool:get_session}.",
        )
    return RecordSubject(task_id, f"{session.name}: {step_id}", session_id)


def _find_authors(value: object) -> Iterator[object]:
    """Find what `by` names at any depth; the dashboard shows it as the author."""
    if isinstance(value, dict):
        for key, each in value.items():
            if remove_invisible(key).strip().casefold() == "by":
                yield each
            yield from _find_authors(each)
    elif isinstance(value, list):
        for each in value:
            yield from _find_authors(each)


def _repeat_resolution(issue: Issue, note: str, at: int) -> IssueResolved:
    if issue.resolution_note != note:
        raise NotAllowed(
            f"Issue {issue.id!r} was already resolved by {issue.resolved_by} with a different note.",
            suggestion="If the problem is back, log a new issue.",
        )
    return IssueResolved(issue_id=issue.id, resolved_at=format_timestamp(at), already_resolved=True)
