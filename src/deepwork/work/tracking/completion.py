"""How tracks, phases and tasks end, what they used, and the answers to that, first and repeated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deepwork.gates.budgets.models import MICROS_PER_USD, Entry
from deepwork.gates.budgets.service import BudgetService
from deepwork.gates.budgets.store import build_usage
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import format_timestamp, measure_duration
from deepwork.work.tracking import rules
from deepwork.work.tracking.inputs import Metadata, Outcome
from deepwork.work.tracking.models import (
    Phase,
    TaskCounts,
    TrackedTask,
    TrackedTaskStatus,
    TrackedWorkflow,
    WorkflowEnding,
)
from deepwork.work.tracking.note_store import NoteStore
from deepwork.work.tracking.responses import (
    FilesChanged,
    Metrics,
    PhaseCompleted,
    PhaseProgress,
    PhaseTasks,
    TaskCompleted,
    Verification,
    WorkflowCompleted,
    counts_to_dict,
)
from deepwork.work.tracking.store import TrackStore
from deepwork.work.tracking.watch_store import WatchStore


@dataclass(frozen=True)
class ReportedEnding:
    """How a task ends, as a call reports it."""

    status: TrackedTaskStatus
    outcome: Outcome
    metadata: Metadata
    abandoned_for: str | None = None
    """Why nobody works on the task any more; None if its agent ends it."""

    @property
    def tokens(self) -> int:
        return (self.metadata.tokens_input or 0) + (self.metadata.tokens_output or 0)

    def apply(self, task: TrackedTask) -> TrackedTask:
        """Return the task with what was reported."""
        return replace(
            task,
            status=self.status,
            outcome=self.outcome.model_dump(mode="json", exclude_none=True),
            metadata=self.metadata.model_dump(mode="json", exclude_defaults=True),
        )


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


def build_workflow_completed(
    tx: Transaction, workflow: TrackedWorkflow, *, already: bool = False
) -> WorkflowCompleted:
    """Build the answer for a workflow that has ended."""
    store, notes = TrackStore(tx), NoteStore(tx)
    phases, total = store.list_phases(workflow.id), store.sum_tasks(workflow.id)
    blockers = notes.count_open_blockers(workflow.id)
    open_phases = sum(phase.completed_at is None for phase in phases)
    ended = workflow.completed_at or tx.now
    return WorkflowCompleted(
        workflow_id=workflow.id,
        status=workflow.outcome or WorkflowEnding.COMPLETED,
        summary=workflow.summary or "",
        achievements=list(workflow.achievements),
        limitations=list(workflow.limitations),
        completed_at=format_timestamp(ended),
        metrics=Metrics(
            total_phases=len(phases),
            total_tasks=total.tasks,
            duration=round(measure_duration(workflow.created_at, ended) / 1000),
            task_seconds=round(total.task_ms / 1000),
            files_changed=WatchStore(tx).count_changed_paths(workflow.id),
            total_tokens=total.tokens,
            decisions=notes.count("decisions", workflow.id),
            issues=notes.count("issues", workflow.id),
            blockers_open=blockers,
        ),
        warnings=list(rules.list_workflow_warnings(open_phases, total.running, blockers)),
        already_completed=already or None,
    )


def build_phase_completed(tx: Transaction, phase: Phase, *, already: bool = False) -> PhaseCompleted:
    """Build the answer for a phase that has ended."""
    store = TrackStore(tx)
    tally = store.count_tasks_by_phase([phase.id]).get(phase.id, TaskCounts())
    blockers = NoteStore(tx).count_open_blockers(phase.workflow_id, phase.id)
    others = store.list_phases(phase.workflow_id)
    lower = [each.number for each in others if each.number < phase.number and each.completed_at is None]
    ended = phase.completed_at or tx.now
    return PhaseCompleted.of(
        phase,
        phase_id=phase.id,
        completed_at=format_timestamp(ended),
        duration_ms=measure_duration(phase.started_at, ended),
        tasks=PhaseTasks.from_counts(tally),
        warnings=list(rules.list_phase_warnings(phase.status, tally, blockers, lower)),
        already_completed=already or None,
    )


def record_usage(tx: Transaction, task: TrackedTask) -> None:
    """Add the metadata of a task that ended to the ledger, if it has any figures."""
    given = task.metadata
    cost = given.get("cost_usd")
    if cost is None and not task.tokens:
        return
    usage = build_usage(
        input=int(given.get("tokens_input") or 0),
        output=int(given.get("tokens_output") or 0),
        usd_micros=None if cost is None else round(cost * MICROS_PER_USD),
        model=given.get("model"),
    )
    BudgetService(tx).record(Entry(f"result:{task.id}", 1, usage, task.workflow_id, task.id))
