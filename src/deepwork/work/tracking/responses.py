"""Response models of the tracking tools; times are ISO 8601 in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from deepwork.kernel.answers import Answer, IsoTime
from deepwork.kernel.foreign_text import truncate_to_line
from deepwork.kernel.notices.responses import NoticeView
from deepwork.kernel.values import format_optional_timestamp, measure_duration
from deepwork.work.tracking.models import (
    CallerType,
    Category,
    Decision,
    Issue,
    IssueType,
    Milestone,
    Phase,
    PhaseStatus,
    TaskCounts,
    TrackedTask,
    TrackedTaskStatus,
    TrackedWorkflow,
    TrackedWorkflowStatus,
    TrackSize,
    WorkflowEnding,
)

MAX_ANSWERS = 20
"""Answers in one context; an answer stays as long as the workflow, but only the newest are shown."""
_MAX_QUESTION = 300


class AnswerView(Answer):
    """An issue that waited for a person, and how it was resolved."""

    issue_id: str
    task_id: str
    question: str
    answer: str
    by: str
    at: str

    @classmethod
    def from_issue(cls, issue: Issue) -> Self:
        return cls(
            issue_id=issue.id,
            task_id=issue.subject.task_id,
            question=truncate_to_line(issue.description, _MAX_QUESTION) or "",
            answer=issue.resolution_note or "",
            by=issue.resolved_by or "",
            at=format_optional_timestamp(issue.resolved_at) or "",
        )


def _to_seconds(ms: int) -> int:
    return round(ms / 1000)


class WorkflowStarted(Answer):
    workflow_id: str
    profile: TrackSize
    total_phases: int
    created_at: str


class Metrics(Answer):
    total_phases: int
    total_tasks: int
    duration: int
    """Seconds from its start to its end."""
    task_seconds: int
    files_changed: int
    total_tokens: int
    decisions: int
    issues: int
    blockers_open: int


class WorkflowCompleted(Answer):
    workflow_id: str
    status: WorkflowEnding
    summary: str
    achievements: list[str]
    limitations: list[str]
    completed_at: str
    metrics: Metrics
    warnings: list[str]
    already_completed: bool | None = None


class PhaseStarted(Answer):
    phase_id: str
    workflow_id: str
    number: int
    name: str
    is_parallel: bool
    status: PhaseStatus
    started_at: IsoTime
    already_exists: bool | None = None
    differs: list[str] | None = None


class PhaseTasks(Answer):
    total: int
    success: int
    partial: int
    failed: int
    in_progress: int

    @classmethod
    def from_counts(cls, counts: TaskCounts) -> Self:
        return cls.of(counts, partial=counts.partial_success)


class PhaseCompleted(Answer):
    phase_id: str
    workflow_id: str
    number: int
    name: str
    status: PhaseStatus
    completed_at: str
    duration_ms: int
    tasks: PhaseTasks
    warnings: list[str]
    already_completed: bool | None = None


class TaskStarted(Answer):
    kept_nulls = frozenset({"snapshot_id"})

    task_id: str
    workflow_id: str
    phase_id: str
    phase_number: int
    phase_name: str
    caller_type: CallerType
    agent_name: str | None = None
    snapshot_id: str | None = None
    snapshot_type: str
    started_at: IsoTime
    warnings: list[str] | None = None


class FilesChanged(Answer):
    added: list[str]
    modified: list[str]
    deleted: list[str]


class Verification(Answer):
    scope_match: bool
    unexpected_files: list[str]
    warnings: list[str]


class PhaseProgress(Answer):
    number: int
    name: str
    tasks: dict[str, int]
    all_tasks_done: bool


class TaskCompleted(Answer):
    task_id: str
    workflow_id: str
    status: TrackedTaskStatus
    duration_seconds: int
    files_changed: FilesChanged
    files_count: int
    """The total number; long lists are cut."""
    renamed: list[dict[str, Any]] | None = None
    attribution: dict[str, str] | None = None
    shared_with: dict[str, list[str]] | None = None
    preexisting: list[str] | None = None
    commits: list[dict[str, str]] | None = None
    truncated: list[str] | None = None
    """The lists that were cut; `counts` has their full lengths."""
    counts: dict[str, int] | None = None
    verification: Verification
    checks: dict[str, str] | None = None
    """The verdict of each check that the task had to pass."""
    phase_status: PhaseStatus
    phase_progress: PhaseProgress
    already_completed: bool | None = None


class DecisionLogged(Answer):
    decision_id: str
    created_at: str


class IssueLogged(Answer):
    issue_id: str
    created_at: str


class IssueResolved(Answer):
    issue_id: str
    resolved_at: str
    already_resolved: bool | None = None


class MilestoneLogged(Answer):
    milestone_id: str
    created_at: str


# Views in get_context and in events


class TrackedWorkflowView(Answer):
    id: str
    name: str
    objective: str
    scope: str | None = None
    constraints: str | None = None
    profile: TrackSize
    status: TrackedWorkflowStatus
    outcome: WorkflowEnding | None = None
    summary: str | None = None
    achievements: list[str] | None = None
    limitations: list[str] | None = None
    current_phase: int
    total_phases: int
    created_at: IsoTime
    updated_at: IsoTime
    completed_at: IsoTime | None = None
    checks: list[str] | None = None
    """What each of its tasks must pass to be a success."""

    @classmethod
    def from_workflow(cls, workflow: TrackedWorkflow, status: TrackedWorkflowStatus | None = None) -> Self:
        return cls.of(
            workflow,
            status=status or workflow.status,
            achievements=list(workflow.achievements) if workflow.is_over else None,
            limitations=list(workflow.limitations) if workflow.is_over else None,
            checks=list(workflow.requirements.checks) if workflow.requirements else None,
        )


class TrackedWorkflows(Answer):
    workflows: list[TrackedWorkflowView]
    total: int


class PhaseView(Answer):
    kept_nulls = frozenset({"phase_id", "started_at", "completed_at"})

    phase_number: int
    phase_name: str
    phase_id: str | None = None
    status: str
    is_parallel: bool
    description: str | None = None
    summary: str | None = None
    tasks: dict[str, int]
    duration_seconds: int
    task_seconds: int
    started_at: IsoTime | None = None
    completed_at: IsoTime | None = None

    @classmethod
    def from_phase(cls, phase: Phase, counts: TaskCounts, now: int) -> Self:
        return cls.of(
            phase,
            phase_number=phase.number,
            phase_name=phase.name,
            phase_id=phase.id,
            tasks=counts_to_dict(counts),
            duration_seconds=_to_seconds(measure_duration(phase.started_at, phase.completed_at or now)),
            task_seconds=_to_seconds(counts.task_ms),
        )


def counts_to_dict(counts: TaskCounts) -> dict[str, int]:
    """Convert to the keys of an answer; partial success counts as completed."""
    return {
        "total": counts.total,
        "completed": counts.success + counts.partial_success,
        "failed": counts.failed,
        "in_progress": counts.in_progress,
    }


class TrackedTaskView(Answer):
    kept_nulls = frozenset({"phase_id", "agent_name", "completed_at", "duration_seconds", "summary"})

    id: str
    workflow_id: str
    phase_id: str | None = None
    parent_task_id: str | None = None
    name: str
    goal: str
    status: str
    caller_type: CallerType | None = None
    agent_name: str | None = None
    areas: list[str]
    started_at: IsoTime | None = None
    completed_at: IsoTime | None = None
    duration_seconds: int | None = None
    manual_review_needed: bool
    summary: str | None = None
    outcome: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    files_changed: dict[str, int] | None = None
    is_stale: bool | None = None

    @classmethod
    def from_task(cls, task: TrackedTask, stale_before: int = 0) -> Self:
        over = task.completed_at
        return cls.of(
            task,
            areas=list(task.areas),
            duration_seconds=None if over is None else _to_seconds(measure_duration(task.started_at, over)),
            summary=task.outcome.get("summary"),
            outcome=_select_outcome(task.outcome),
            metadata=dict(task.metadata) or None,
            files_changed=task.result.get("counts"),
            is_stale=True if task.is_running and task.last_sign_at < stale_before else None,
        )


def _select_outcome(outcome: Mapping[str, Any]) -> dict[str, Any] | None:
    """Select what an outcome has in addition to its summary, which has a key of its own."""
    given = {name: value for name, value in outcome.items() if value}
    return given if given.keys() - {"summary"} else None


class NoteView(Answer):
    """Fields that decisions, issues and milestones share."""

    id: str
    workflow_id: str
    task_id: str
    task_name: str
    agent_name: str | None = None
    created_at: IsoTime

    @classmethod
    def from_note(cls, note: Decision | Issue | Milestone) -> Self:
        return cls.of(note, **vars(note.subject))


class DecisionView(NoteView):
    category: Category
    question: str
    options_considered: list[str]
    chosen: str
    reasoning: str
    trade_offs: str | None = None


class IssueView(NoteView):
    type: IssueType
    description: str
    resolution: str
    requires_human_review: bool
    resolved_at: IsoTime | None = None
    resolved_by: str | None = None
    resolution_note: str | None = None


class MilestoneView(NoteView):
    message: str
    progress: int | None = None
    metadata: dict[str, Any] | None = None


class Context(Answer):
    """The requested parts of a workflow's state."""

    workflow_id: str
    workflow_name: str
    workflow_status: str
    current_phase: int
    total_phases: int
    objective: str | None = None
    scope: str | None = None
    constraints: str | None = None
    profile: TrackSize | None = None
    outcome: WorkflowEnding | None = None
    summary: str | None = None
    achievements: list[str] | None = None
    limitations: list[str] | None = None
    phase_summary: list[PhaseView] | None = None
    tasks: list[TrackedTaskView] | None = None
    tasks_count: int | None = None
    decisions: list[DecisionView] | None = None
    decisions_count: int | None = None
    milestones: list[MilestoneView] | None = None
    milestones_count: int | None = None
    blockers: list[IssueView] | None = None
    blockers_count: int | None = None
    has_blockers: bool | None = None
    answers: list[AnswerView] | None = None
    """The newest answers of people to blockers."""
    answers_count: int | None = None
    notices: list[NoticeView] | None = None
    truncated: list[str] | None = None
    cursor: str | None = None
    filters_applied: dict[str, Any] | None = None
    warning: str | None = None
