"""Building the answer to the completion of a task, for the first call and for repeated ones."""

from __future__ import annotations

from typing import Any

from deepwork.database.transaction import Transaction
from deepwork.errors import NotAllowed
from deepwork.timestamps import measure_duration
from deepwork.tracking.models import TaskCounts, TrackedTask
from deepwork.tracking.responses import (
    FilesChanged,
    PhaseProgress,
    TaskCompleted,
    Verification,
    counts_to_dict,
)
from deepwork.tracking.store import TrackStore


def build_completion_answer(tx: Transaction, task: TrackedTask, *, already: bool = False) -> TaskCompleted:
    """Build the answer for a completed task."""
    store = TrackStore(tx)
    phase = store.get_phase(task.phase_id)
    counts = store.count_tasks_by_phase([phase.id]).get(phase.id, TaskCounts())
    result: dict[str, Any] = dict(task.result)
    ended = task.completed_at or tx.now
    return TaskCompleted(
        task_id=task.id,
        workflow_id=task.workflow_id,
        status=task.status,
        duration_seconds=round(measure_duration(task.started_at, ended) / 1000),
        files_changed=FilesChanged(**result["files"]),
        files_count=sum(result["counts"].values()),
        renamed=result.get("renamed"),
        attribution=result.get("attribution"),
        shared_with=result.get("shared_with"),
        preexisting=result.get("preexisting"),
        commits=result.get("commits"),
        truncated=list(result["cut"]) if "cut" in result else None,
        counts=result.get("cut"),
        verification=Verification(**result["verification"]),
        checks=result.get("checks"),
        phase_status=phase.status,
        phase_progress=PhaseProgress(
            number=phase.number,
            name=phase.name,
            tasks=counts_to_dict(counts),
            all_tasks_done=counts.in_progress == 0,
        ),
        already_completed=already or None,
    )


def repeat_completion_answer(tx: Transaction, stored: TrackedTask, repeated: TrackedTask) -> TaskCompleted:
    """Build the first answer again; NotAllowed if the repeated call completes the task differently."""
    if repeated != stored:
        raise NotAllowed(
            f"Task {stored.name!r} is already {stored.status} with a different outcome.",
            suggestion="Read it with {tool:get_context}; a task that has ended cannot be changed.",
        )
    return build_completion_answer(tx, stored, already=True)
