"""Landings as people see them: in events, REST and the command line."""

from __future__ import annotations

from typing import Any

from deepwork.delivery.landing.models import Landing, Skipped
from deepwork.kernel.answers import Answer
from deepwork.kernel.timestamps import format_timestamp
from deepwork.work.workspaces.models import WORK_ELSEWHERE


class LandingView(Answer):
    """One task's way to a branch."""

    id: str
    kind: str
    status: str
    problem: str | None = None
    reason: str | None = None
    workflow_id: str | None = None
    task_id: str | None = None
    title: str
    target: str
    branch: str | None = None
    source_branch: str | None = None
    source_commit: str | None = None
    base_commit: str | None = None
    merge_commit: str | None = None
    attempt_id: str | None = None
    agent_id: str | None = None
    returns: int
    host: str
    created_by: str
    created_at: str
    updated_at: str
    ended_at: str | None = None


class SkippedTask(Answer):
    """A task that was not landed, and why."""

    task_id: str
    name: str
    reason: str
    refused: bool | None = None
    because: str | None = None
    """`work_elsewhere`: its work is on another machine."""
    branch: str | None = None
    host: str | None = None


class LandResult(Answer):
    """What became of each landing, and which tasks were left out."""

    landings: list[LandingView]
    skipped: list[SkippedTask] | None = None
    exit_code: int
    """0 everything landed, 3 a person is needed, 1 something failed."""


def describe_landing(landing: Landing) -> LandingView:
    """Describe a landing."""
    return LandingView(
        **{name: getattr(landing, name) for name in _SAME_NAMES},
        kind=landing.kind.value,
        status=landing.status.value,
        problem=landing.problem.value if landing.problem else None,
        created_at=format_timestamp(landing.created_at),
        updated_at=format_timestamp(landing.updated_at),
        ended_at=None if landing.ended_at is None else format_timestamp(landing.ended_at),
    )


def describe_skipped(skipped: Skipped) -> SkippedTask:
    """Describe a task that was left out."""
    return SkippedTask(
        task_id=skipped.task_id,
        name=skipped.name,
        reason=skipped.reason,
        refused=skipped.is_refused or None,
        because=WORK_ELSEWHERE if skipped.host else None,
        branch=skipped.branch,
        host=skipped.host,
    )


def build_payload(landing: Landing) -> dict[str, Any]:
    """Return the payload of an event."""
    return describe_landing(landing).model_dump(mode="json")


_SAME_NAMES = (
    *("id", "reason", "workflow_id", "task_id", "title", "target", "branch", "source_branch"),
    *("source_commit", "base_commit", "merge_commit", "attempt_id", "agent_id", "returns", "host"),
    "created_by",
)
