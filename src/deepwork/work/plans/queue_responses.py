"""Answers about what comes next: tasks to claim, and what a changed status leads to."""

from __future__ import annotations

from typing import Any, Self

from deepwork.kernel.answers import Answer, Done
from deepwork.kernel.call import ActionOutcome
from deepwork.kernel.notices.responses import NoticeView
from deepwork.work.plans.interfaces import FinishedTree
from deepwork.work.plans.models import PlanStatus, TaskStatus


class NextTask(Answer):
    """A task that can start now."""

    id: str
    name: str
    description: str
    status: TaskStatus
    sequence: int
    can_parallelize: bool
    parallel_group: str | None = None
    parallel_with: list[str] | None = None
    dependencies_completed: list[str]
    conflicts_with: list[str] | None = None
    attempts: int | None = None
    last_error: str | None = None


class NextTasks(Answer):
    tasks: list[NextTask]
    max_parallel: int
    running: int
    recommended_count: int
    total_available: int
    workflow_status: PlanStatus
    all_complete: bool
    needs_person: list[str] | None = None
    approval: dict[str, Any] | None = None
    """What a person has to approve before tasks are handed out."""
    reason: str | None = None
    warning: str | None = None


class AvailableTask(Answer):
    """A task that the agent can claim."""

    id: str
    workflow_id: str
    name: str
    description: str
    status: TaskStatus
    sequence: int
    parallel_group: str | None = None
    context: dict[str, Any]
    attempts: int
    at_limit: bool | None = None
    conflicts_with: list[str] | None = None


class AvailableTasks(Answer):
    tasks: list[AvailableTask]
    total_available: int
    approval: dict[str, Any] | None = None
    reason: str | None = None


class BlockedTask(Answer):
    id: str
    name: str
    blocked_by: list[str]
    blocked_by_total: int | None = None


class GroupProgress(Answer):
    group_id: str
    task_count: int
    completed: int


class ProgressView(Answer):
    total_tasks: int
    by_status: dict[TaskStatus, int]
    completed_sequence: int
    current_sequence: int
    blocked_tasks: list[BlockedTask]
    blocked_total: int
    parallel_groups: list[GroupProgress]
    parallel_groups_total: int | None = None
    estimated_remaining: int
    estimated_remaining_ms: int | None = None
    reason: str | None = None
    """Why no task is handed out, whichever is ready."""


class UncommittedFiles(Answer):
    """Files of the task's worktree that are not committed; the first of them."""

    files: list[str]
    total: int


class NextTaskName(Answer):
    id: str
    name: str


class TaskUpdated(Done):
    """A changed status; after the end of a task also what comes next, and what was left in its worktree."""

    next_tasks: list[NextTaskName] | None = None
    all_complete: bool | None = None
    uncommitted: UncommittedFiles | None = None
    commit: str | None = None
    """The commit that deepwork made of the uncommitted work, if the plan says so."""
    checks: dict[str, str] | None = None
    """The verdict of each check that the task had to pass."""
    warning: str | None = None
    notices: list[NoticeView] | None = None

    def revise(self, outcome: ActionOutcome) -> Self:
        """Add what git found in the worktree, after the commit."""
        if not isinstance(outcome, FinishedTree):
            return self
        left = UncommittedFiles(files=list(outcome.files), total=outcome.total) if outcome.total else None
        warning = " ".join(filter(None, [self.warning, outcome.remark])) or None
        return self.model_copy(update={"uncommitted": left, "commit": outcome.commit, "warning": warning})
