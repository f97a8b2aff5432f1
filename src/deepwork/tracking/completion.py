"""The answer to a task's end: the first time, and whenever somebody asks again."""

from __future__ import annotations

from typing import Any

from deepwork.database.transaction import Transaction
from deepwork.errors import NotAllowed
from deepwork.tracking.models import Tally, Task
from deepwork.tracking.responses import (
    FilesChanged,
    PhaseProgress,
    TaskCompleted,
    Verification,
    counts,
)
from deepwork.tracking.store import TrackStore


def answer_of(tx: Transaction, task: Task, *, already: bool = False) -> TaskCompleted:
    """What the end of this task comes to."""
    store = TrackStore(tx)
    phase = store.phase(task.phase_id)
    tally = store.tallies([phase.id]).get(phase.id, Tally())
    result: dict[str, Any] = dict(task.result)
    ended = task.completed_at or tx.now
    return TaskCompleted(
        task_id=task.id,
        workflow_id=task.workflow_id,
        status=task.status,
        duration_seconds=round((ended - task.started_at) / 1000),
        files_changed=FilesChanged(**result["files"]),
        files_count=sum(result["counts"].values()),
        renamed=result.get("renamed"),
        attribution=result.get("attribution"),
        shared_with=result.get("shared_with"),
        preexisting=result.get("preexisting"),
        commits=result.get("commits"),
        verification=Verification(**result["verification"]),
        phase_status=phase.status,
        phase_progress=PhaseProgress(
            number=phase.number, name=phase.name, tasks=counts(tally),
            all_tasks_done=tally.in_progress == 0,
        ),
        already_completed=already or None,
    )  # fmt: skip


def told_again(tx: Transaction, kept: Task, told: Task) -> TaskCompleted:
    """The first answer again; told with other words, it is refused."""
    if told != kept:
        raise NotAllowed(
            f"Task {kept.name!r} is already {kept.status}, and was ended with other words.",
            suggestion="Read it with get_context; what has ended is not changed any more.",
        )
    return answer_of(tx, kept, already=True)
