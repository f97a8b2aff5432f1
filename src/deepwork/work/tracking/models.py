"""Tracked workflows, phases, tasks and notes, and the words that describe them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from deepwork.kernel.git.snapshot_types import FileChange
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum
from deepwork.work.plans.models import TaskRequirements


class TrackSize(CaseInsensitiveEnum):
    """How large a workflow is expected to be."""

    SIMPLE = "simple"
    STANDARD = "standard"
    COMPLEX = "complex"


class TrackedWorkflowStatus(CaseInsensitiveEnum):
    """Status of a tracked workflow; one with an open blocker is shown as blocked."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"


class WorkflowEnding(CaseInsensitiveEnum):
    """How a workflow ended; `partial` counts as failed."""

    COMPLETED = "completed"
    FAILED = "failed"
    PARTIAL = "partial"


class PhaseStatus(CaseInsensitiveEnum):
    """Status of a phase."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class PhaseEnding(CaseInsensitiveEnum):
    """How a phase ended."""

    COMPLETED = "completed"
    FAILED = "failed"


class TrackedTaskStatus(CaseInsensitiveEnum):
    """Status of a tracked task."""

    IN_PROGRESS = "in_progress"
    SUCCESS = "success"
    PARTIAL_SUCCESS = "partial_success"
    FAILED = "failed"


class TaskEnding(CaseInsensitiveEnum):
    """How a task ended."""

    SUCCESS = "success"
    PARTIAL_SUCCESS = "partial_success"
    FAILED = "failed"


class CallerType(CaseInsensitiveEnum):
    """Who does a task."""

    ORCHESTRATOR = "orchestrator"
    SUBAGENT = "subagent"


class TestsStatus(CaseInsensitiveEnum):
    """Result of the tests."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not_run"


class Category(CaseInsensitiveEnum):
    """What a decision is about."""

    ARCHITECTURE = "architecture"
    LIBRARY_CHOICE = "library_choice"
    TRADE_OFF = "trade_off"
    WORKAROUND = "workaround"
    OTHER = "other"


class IssueType(CaseInsensitiveEnum):
    """Kind of problem."""

    DOCUMENTATION_GAP = "documentation_gap"
    BUG_ENCOUNTERED = "bug_encountered"
    DEPENDENCY_CONFLICT = "dependency_conflict"
    UNCLEAR_REQUIREMENT = "unclear_requirement"
    OTHER = "other"


class TrackEvent(CaseInsensitiveEnum):
    """Events about tracked work; the payload is the view of the workflow, phase, task or note."""

    WORKFLOW_CREATED = "workflow:created"
    WORKFLOW_UPDATED = "workflow:updated"
    PHASE_CREATED = "phase:created"
    PHASE_UPDATED = "phase:updated"
    TASK_CREATED = "task:created"
    TASK_UPDATED = "task:updated"
    DECISION_CREATED = "decision:created"
    ISSUE_CREATED = "issue:created"
    ISSUE_RESOLVED = "issue:resolved"
    MILESTONE_CREATED = "milestone:created"


@dataclass(frozen=True)
class TrackedWorkflow:
    """Work that agents record while they do it; times are Unix milliseconds."""

    id: str
    name: str
    objective: str
    scope: str | None
    constraints: str | None
    profile: TrackSize
    status: TrackedWorkflowStatus
    total_phases: int
    """The expected number, or the highest number so far if that is more."""
    repository_path: str
    outcome: WorkflowEnding | None = None
    summary: str | None = None
    achievements: tuple[str, ...] = ()
    limitations: tuple[str, ...] = ()
    current_phase: int = 0
    """Number of the phase that was started last; 0 before the first."""
    created_by: str = ""
    created_at: int = 0
    updated_at: int = 0
    completed_at: int | None = None
    requirements: TaskRequirements | None = None
    """What each of its tasks must pass before it counts as a success."""
    base_commit: str | None = None
    """The commit that HEAD had when it started; None without a git repository."""
    base_branch: str | None = None

    @property
    def is_over(self) -> bool:
        return self.completed_at is not None


@dataclass(frozen=True)
class Phase:
    """A part of a workflow, in which tasks are done."""

    id: str
    workflow_id: str
    number: int
    name: str
    description: str | None
    summary: str | None
    status: PhaseStatus
    is_parallel: bool
    started_at: int
    completed_at: int | None = None


@dataclass(frozen=True)
class TrackedTask:
    """A piece of work that one agent does."""

    id: str
    workflow_id: str
    phase_id: str
    parent_task_id: str | None
    name: str
    goal: str
    status: TrackedTaskStatus
    caller_type: CallerType
    agent_name: str | None
    areas: tuple[str, ...]
    started_at: int
    last_sign_at: int
    """Time of the last call about it; after STALE_MS the task is stale."""
    completed_at: int | None = None
    outcome: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)
    """Changed files and their verification, as in the answer of its completion."""
    tokens: int = 0
    """How many tokens the agent reported."""
    created_by: str = "local"

    @property
    def manual_review_needed(self) -> bool:
        """Whether its agent asked for a review by a person when it ended."""
        return bool(self.outcome.get("manual_review_needed"))

    @property
    def is_running(self) -> bool:
        return self.status is TrackedTaskStatus.IN_PROGRESS


@dataclass(frozen=True)
class RecordSubject:
    """What a decision, an issue or a milestone is about: a task of any kind."""

    task_id: str
    task_name: str
    workflow_id: str
    phase_id: str | None = None
    agent_name: str | None = None


@dataclass(frozen=True)
class JobSessionState:
    """The state of a job session; `steps` maps each step to its start and end, ISO or None."""

    id: str
    name: str
    status: str
    goal: str
    current_step: str
    steps: Mapping[str, tuple[str | None, str | None]]


@dataclass(frozen=True)
class Decision:
    """What was chosen, and why."""

    id: str
    subject: RecordSubject
    category: Category
    question: str
    options_considered: tuple[str, ...]
    chosen: str
    reasoning: str
    trade_offs: str | None
    created_at: int


@dataclass(frozen=True)
class Issue:
    """What went wrong; with `requires_human_review` it is a blocker until somebody resolves it."""

    id: str
    subject: RecordSubject
    type: IssueType
    description: str
    resolution: str
    requires_human_review: bool
    created_at: int
    resolved_at: int | None = None
    resolved_by: str | None = None
    resolution_note: str | None = None


@dataclass(frozen=True)
class Milestone:
    """A progress message of a task."""

    id: str
    subject: RecordSubject
    message: str
    progress: int | None
    metadata: Mapping[str, Any] | None
    created_at: int
    logged_by_person: str | None = None
    """The caller, if a person. A person reviews a task by logging a milestone after it has ended."""


@dataclass(frozen=True)
class WorkflowTotals:
    """Sums over the tasks of a workflow."""

    tasks: int
    running: int
    task_ms: int
    tokens: int


@dataclass(frozen=True)
class TaskCounts:
    """Number of tasks of a phase by status, and their total duration."""

    total: int = 0
    success: int = 0
    partial_success: int = 0
    failed: int = 0
    in_progress: int = 0
    task_ms: int = 0


@dataclass(frozen=True)
class Watch:
    """The time of a task's attempt in a working tree; `began` and `ended` are snapshots at both ends."""

    task_id: str
    attempt: int
    workflow_id: str
    parent_task_id: str | None
    areas: tuple[str, ...]
    host: str
    tree_path: str
    began_at: int
    """Nanoseconds on the clock of that host, so that times of one host can be compared."""
    began: Mapping[str, Any]
    ended_at: int | None = None
    ended: Mapping[str, Any] | None = None
    agent_id: str | None = None
    """The agent that held a planned task when the watch began."""


@dataclass(frozen=True)
class CheckpointTree:
    """The snapshot of the working tree at a checkpoint of a task."""

    checkpoint_id: str
    task_id: str
    sequence: int
    attempt: int
    host: str
    tree_path: str
    snapshot: Mapping[str, Any]
    taken_at: int


class Attribution(StrEnum):
    """How a change was attributed, the most certain first."""

    EXCLUSIVE = "exclusive"  # no other task was running
    AREA = "area"  # of the running tasks, only this one declared an area that covers the file
    SHARED = "shared"  # any of the running tasks may have made it
    OUTSIDE = "outside"  # no task was running: a person, a formatter


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedChange(FileChange):
    """A net change of a file, attributed to a task, or to none if no task was running."""

    attribution: Attribution
    shared_with: tuple[str, ...] = ()
    before_tree: str = ""
    """The snapshot before the change; with `after_tree`, it shows the change as a diff."""
    after_tree: str = ""
