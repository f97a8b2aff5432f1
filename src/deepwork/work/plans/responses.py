"""Response models of the plan tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from deepwork.kernel.answers import Answer
from deepwork.kernel.call import ActionOutcome
from deepwork.kernel.foreign_text import truncate_to_line
from deepwork.kernel.notices.responses import NoticeView
from deepwork.work.plans.interfaces import TaskWorkspace
from deepwork.work.plans.models import (
    Checkpoint,
    CheckpointType,
    FileConflicts,
    PlanStatus,
    SourceType,
    Task,
    TaskStatus,
    Workflow,
    requirements_to_dict,
)

RefusalReason = Literal[
    "claimed",
    "blocked",
    "limit",
    "workflow",
    "files",
    "offline",
    "attempts",
    "approval",
    "budget",
    "review_backlog",
    "work_elsewhere",
]


class WorkflowCreated(Answer):
    id: str
    name: str
    status: PlanStatus
    max_parallel_tasks: int


class WorkflowLine(Answer):
    """A workflow in a list."""

    id: str
    name: str
    status: PlanStatus
    source_type: SourceType
    created_at: int
    updated_at: int
    repository_path: str | None = None
    """Only in lists of several repositories."""

    @classmethod
    def from_workflow(cls, workflow: Workflow, *, with_repository: bool = False) -> Self:
        return cls.of(workflow, **{} if with_repository else {"repository_path": None})


class PlanList(Answer):
    workflows: list[WorkflowLine]
    total: int


class TaskLine(Answer):
    """A task in a list."""

    id: str
    name: str
    status: TaskStatus
    blocked: bool | None = None
    sequence: int
    parallel_group: str | None = None
    depends_on: list[str] | None = None
    depends_on_total: int | None = None
    follows_sequence: int | None = None
    assigned_agent_id: str | None = None
    outcome: str | None = None
    stale_input: list[str] | None = None
    """The names of tasks it builds on whose work was rewound after it began."""

    @classmethod
    def from_task(cls, task: Task, relations: TaskRelations) -> Self:
        return cls.of(
            task,
            outcome=truncate_to_line(task.outcome or task.error),
            stale_input=[each["name"] for each in task.stale_input] if task.stale_input else None,
            **relations.to_fields(task),
        )


class TaskRelations:
    """Facts about tasks that are not in their rows: whether they are blocked, by what, and who holds them."""

    def __init__(
        self,
        *,
        blocked: set[str],
        names: Mapping[str, Sequence[str]],
        counts: Mapping[str, int],
        holders: Mapping[str, str],
        previous: Mapping[int, int | None],
    ) -> None:
        self._blocked, self._names, self._counts = blocked, names, counts
        self._holders, self._previous = holders, previous

    def to_fields(self, task: Task) -> dict[str, Any]:
        names, count = self._names.get(task.id, ()), self._counts.get(task.id, 0)
        return {
            "blocked": True if task.id in self._blocked else None,
            "depends_on": list(names) if task.is_explicit else None,
            "depends_on_total": count if count > len(names) else None,
            "follows_sequence": None if task.is_explicit else self._previous.get(task.sequence),
            "assigned_agent_id": self._holders.get(task.id),
        }


class CheckpointView(Answer):
    id: str
    sequence: int
    type: CheckpointType
    summary: str
    detail: dict[str, Any] | None = None
    files_changed: list[str]
    agent_id: str | None = None
    created_at: int

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        return cls.of(
            checkpoint, detail=_copy_mapping(checkpoint.detail), files_changed=list(checkpoint.files_changed)
        )


class PlanTaskView(Answer):
    """A task with all its details."""

    id: str
    workflow_id: str
    name: str
    description: str
    status: TaskStatus
    blocked: bool | None = None
    sequence: int
    parallel_group: str | None = None
    depends_on: list[str] | None = None
    depends_on_total: int | None = None
    follows_sequence: int | None = None
    plan: dict[str, Any] | None = None
    context: dict[str, Any]
    outcome: str | None = None
    outcome_detail: dict[str, Any] | None = None
    error: str | None = None
    attempts: int
    workspace_id: str | None = None
    assigned_agent_id: str | None = None
    created_at: int
    started_at: int | None = None
    finished_at: int | None = None
    updated_at: int
    checkpoints: list[CheckpointView] | None = None
    checkpoints_total: int | None = None
    failures: int | None = None
    max_attempts: int | None = None
    waits_for_person: bool | None = None
    waits_for: str | None = None
    """`approval` while its work is done and a person has not decided about it."""
    requires: dict[str, Any] | None = None
    """Its own checks, approvals and budget, beside those of its plan."""
    proofs: dict[str, str] | None = None
    """By check, the proof with which it was completed; only if it has checks of its own."""
    stale_input: list[dict[str, str]] | None = None
    """The tasks it builds on whose work was rewound after it began."""

    @classmethod
    def from_task(cls, task: Task, relations: TaskRelations | None = None, **more: Any) -> Self:
        shown: dict[str, Any] = {
            "plan": _copy_mapping(task.plan),
            "context": dict(task.context),
            "outcome_detail": _copy_mapping(task.outcome_detail),
            "checkpoints": None,
            "failures": task.failures or None,
            "max_attempts": task.max_attempts if task.failures else None,
            "waits_for_person": task.waits_for_person or None,
            "requires": requirements_to_dict(task.requirements) or None,
            "stale_input": [dict(each) for each in task.stale_input] if task.stale_input else None,
        }
        known = relations.to_fields(task) if relations else {"assigned_agent_id": task.claimed_by}
        return cls.of(task, **shown | known | more)


class HistoryEntry(Answer):
    """A change of a workflow or of one of its tasks."""

    at: int
    what: str
    task_id: str | None = None
    before: str | None = None
    after: str | None = None
    reason: str | None = None
    by_whom: str
    old_tasks: list[dict[str, Any]] | None = None
    old_tasks_total: int | None = None


class PlanView(Answer):
    """A workflow with all its details."""

    id: str
    name: str
    source_type: SourceType
    source_ref: str | None = None
    source_content: str
    status: PlanStatus
    plan_summary: str | None = None
    plan: dict[str, Any] | None = None
    repository_path: str | None = None
    max_parallel_tasks: int
    auto_create_workspaces: bool
    file_conflicts: FileConflicts
    created_by: str
    created_at: int
    updated_at: int
    tasks: list[TaskLine | PlanTaskView] | None = None
    tasks_total: int | None = None
    history: list[HistoryEntry] | None = None
    requires: dict[str, Any] | None = None
    """The checks, approvals and budget of all its tasks."""
    base_commit: str | None = None
    """Where its checks are defined; only if something is required."""

    @classmethod
    def from_workflow(cls, workflow: Workflow, **more: Any) -> Self:
        return cls.of(
            workflow,
            plan=_copy_mapping(workflow.initial_plan),
            requires=requirements_to_dict(workflow.requirements) if workflow.requirements else None,
            base_commit=workflow.base_commit if workflow.requirements else None,
            **more,
        )


class PlanSet(Answer):
    workflow_id: str
    tasks_created: int
    parallelizable_groups: int
    status: PlanStatus
    approval: dict[str, Any] | None = None
    """What a person has to approve before tasks are handed out."""
    warning: str | None = None


class TaskAdded(Answer):
    success: bool = True
    task_id: str


class TaskRemoved(Answer):
    success: bool = True
    rewired: list[str]


class Replanned(Answer):
    success: bool = True
    tasks_created: int
    tasks_removed: int
    tasks_kept: int


class Replan(Answer):
    success: bool = True
    checkpoint_id: str


class CheckpointAdded(Answer):
    id: str
    sequence: int
    late: bool | None = None
    """True if a former holder of the task added it."""
    warning: str | None = None
    notices: list[NoticeView] | None = None


class Checkpoints(Answer):
    checkpoints: list[CheckpointView]
    total: int


class Claimed(Answer):
    """A claim, granted or refused; a refusal is an answer, not an error."""

    success: bool
    reason: RefusalReason | None = None
    message: str | None = None
    already_claimed_by: str | None = None
    approval: dict[str, Any] | None = None
    status: TaskStatus | None = None
    next_step: str | None = None
    """What to call next, if the task is not started yet."""
    claim_epoch: int | None = None
    lease_expires_at: int | None = None
    conflicts_with: list[str] | None = None
    workspace_id: str | None = None
    workspace_path: str | None = None
    branch: str | None = None
    base: str | None = None
    builds_on: list[str] | None = None
    unmerged: list[str] | None = None
    warning: str | None = None
    context: dict[str, Any] | None = None
    """What task_load_context answers, if it was asked for."""

    def revise(self, outcome: ActionOutcome) -> Self:
        """Replace the workspace; after the commit, because creating its tree may fail."""
        if not isinstance(outcome, TaskWorkspace):
            return self
        warnings = " ".join(filter(None, [self.warning, outcome.problem]))
        return self.model_copy(
            update={
                "workspace_id": outcome.id,
                "workspace_path": outcome.path,
                "branch": outcome.branch,
                "base": outcome.base,
                "builds_on": list(outcome.builds_on) or None,
                "unmerged": list(outcome.unmerged) or None,
                "warning": warnings or None,
            }
        )


class PendingDependency(Answer):
    id: str
    name: str
    status: TaskStatus


class CompletedDependency(Answer):
    id: str
    name: str
    outcome: str


class Dependencies(Answer):
    satisfied: bool
    pending: list[PendingDependency]
    completed: list[CompletedDependency]
    pending_total: int
    completed_total: int


def _copy_mapping(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else dict(value)
