"""MCP tools to record workflows, phases and tasks as they happen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from deepwork.kernel.answers import Field, Id, Name, Text
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.operations import InTransaction, Traits, operation
from deepwork.kernel.reserved_names import require_unreserved
from deepwork.kernel.values import format_timestamp, new_id
from deepwork.work.tracking import rules
from deepwork.work.tracking.attribution_service import AttributionService, TaskChanges
from deepwork.work.tracking.completion import (
    ReportedEnding,
    build_completion_answer,
    build_phase_completed,
    build_workflow_completed,
    record_usage,
    repeat_completion_answer,
)
from deepwork.work.tracking.inputs import Metadata, Outcome
from deepwork.work.tracking.models import (
    CallerType,
    Phase,
    PhaseEnding,
    PhaseStatus,
    TaskCounts,
    TaskEnding,
    TrackedTask,
    TrackedTaskStatus,
    TrackedWorkflow,
    TrackedWorkflowStatus,
    TrackEvent,
    TrackSize,
    WorkflowEnding,
)
from deepwork.work.tracking.note_store import NoteStore
from deepwork.work.tracking.notices import notify_of_abandoned_task
from deepwork.work.tracking.responses import (
    PhaseCompleted,
    PhaseStarted,
    PhaseView,
    TaskCompleted,
    TaskStarted,
    TrackedTaskView,
    TrackedWorkflowView,
    WorkflowCompleted,
    WorkflowStarted,
)
from deepwork.work.tracking.store import TrackStore
from deepwork.work.tracking.task_proofs import TrackedTaskProver, describe_proofs
from deepwork.work.tracking.watch_store import SnapshotResult

if TYPE_CHECKING:  # imported by the first workflow that names a check
    from deepwork.gates.checks.models import Proof


class TrackTools:
    """Tools with which orchestrators and subagents record what they start and complete."""

    traits: ClassVar = Traits(
        toolset="tracking", aliases={"start": "start-workflow", "done": "complete-task"}
    )

    def __init__(
        self,
        database: Database,
        attribution: AttributionService,
        prover: TrackedTaskProver,
        repository: Path,
        project: Path,
    ) -> None:
        """`repository` is stored with workflows; tasks run in `project` unless they give `cwd`."""
        self._prover = prover
        self._database = database
        self._attribution = attribution
        self._repository = repository
        self._project = project

    # Workflows

    @operation("work", long_running=True)
    def start_workflow(
        self,
        name: Name,
        objective: Annotated[Text, Field(description="Measurable goal")],
        profile: TrackSize = TrackSize.STANDARD,
        total_phases: Annotated[int | None, Field(ge=1, le=1000, description="Expected")] = None,
        scope: Annotated[str | None, Field(description="Included, excluded")] = None,
        constraints: Annotated[str | None, Field(description="Technical limits")] = None,
        checks: Annotated[list[Name] | None, Field(description="Of .deepwork/checks.yml")] = None,
    ) -> InTransaction[WorkflowStarted]:
        """Start recording a workflow; start its first phase next."""
        workflow = TrackedWorkflow(
            id=new_id("tw"),
            name=name,
            objective=objective,
            scope=scope,
            constraints=constraints,
            profile=profile,
            status=TrackedWorkflowStatus.IN_PROGRESS,
            total_phases=total_phases or rules.PHASES_EXPECTED[profile],
            repository_path=str(self._repository),
        )
        return InTransaction(partial(self._save_started_workflow, self._prover.pin(workflow, checks or ())))

    def _save_started_workflow(self, planned: TrackedWorkflow) -> WorkflowStarted:
        with self._database.transaction() as tx:
            workflow = replace(planned, created_by=tx.caller, created_at=tx.now, updated_at=tx.now)
            TrackStore(tx).add_workflow(workflow)
            _emit_workflow(tx, TrackEvent.WORKFLOW_CREATED, workflow)
            return WorkflowStarted(
                workflow_id=workflow.id,
                profile=workflow.profile,
                total_phases=workflow.total_phases,
                created_at=format_timestamp(tx.now),
            )

    @operation("work", idempotent=True)
    def complete_workflow(
        self,
        workflow_id: Id,
        status: WorkflowEnding,
        summary: Text,
        achievements: list[str] | None = None,
        limitations: list[str] | None = None,
    ) -> WorkflowCompleted:
        """End a workflow with a summary; returns its figures."""
        with self._database.transaction() as tx:
            store = TrackStore(tx)
            before = store.get_workflow_for_update(workflow_id)
            after = replace(
                before,
                status=rules.to_workflow_status(status),
                outcome=status,
                summary=summary,
                achievements=tuple(achievements or ()),
                limitations=tuple(limitations or ()),
                completed_at=before.completed_at or tx.now,
                updated_at=tx.now,
            )
            if before.is_over:
                _require_same_ending(
                    before, replace(after, updated_at=before.updated_at), "workflow", before.name
                )
                return build_workflow_completed(tx, before, already=True)
            store.save_workflow(before, after)
            _emit_workflow(tx, TrackEvent.WORKFLOW_UPDATED, after)
            tx.after_commit(lambda: self._attribution.snapshots.prune(self._project))
            return build_workflow_completed(tx, after)

    # Phases

    @operation("work", idempotent=True)
    def start_phase(
        self,
        workflow_id: Id,
        number: Annotated[int, Field(ge=1)],
        name: Name,
        description: str | None = None,
        is_parallel: bool = False,
    ) -> PhaseStarted:
        """Start a phase before launching its subagents; an existing one is returned unchanged."""
        with self._database.transaction() as tx:
            store = TrackStore(tx)
            workflow = store.get_workflow_for_update(workflow_id)
            if known := store.find_phase(workflow_id, number):
                differs = rules.find_phase_differences(known, name, description, is_parallel)
                return _build_phase_started(known, already_exists=True, differs=differs or None)
            rules.require_open_workflow(workflow)
            phase = Phase(
                id=new_id("ph"),
                workflow_id=workflow_id,
                number=number,
                name=name,
                description=description,
                summary=None,
                status=PhaseStatus.IN_PROGRESS,
                is_parallel=is_parallel,
                started_at=tx.now,
            )
            store.add_phase(phase)
            more = max(workflow.total_phases, number)
            moved = replace(workflow, current_phase=number, total_phases=more, updated_at=tx.now)
            store.save_workflow(workflow, moved)
            _emit_phase(tx, TrackEvent.PHASE_CREATED, phase)
            _emit_workflow(tx, TrackEvent.WORKFLOW_UPDATED, moved)
            return _build_phase_started(phase)

    @operation("work", idempotent=True)
    def complete_phase(self, phase_id: Id, status: PhaseEnding, summary: str | None = None) -> PhaseCompleted:
        """End a phase after its tasks; warnings list what is still open."""
        with self._database.transaction() as tx:
            store = TrackStore(tx)
            workflow = store.get_workflow_for_update(store.get_phase(phase_id).workflow_id)
            before = store.get_phase_for_update(phase_id)
            after = replace(
                before,
                status=PhaseStatus(status),
                summary=summary,
                completed_at=before.completed_at or tx.now,
            )
            if before.completed_at is not None:
                _require_same_ending(before, after, "phase", before.name)
                return build_phase_completed(tx, before, already=True)
            store.save_phase(after)
            _emit_phase(tx, TrackEvent.PHASE_UPDATED, after)
            moved = replace(workflow, updated_at=tx.now)
            store.save_workflow(workflow, moved)
            _emit_workflow(tx, TrackEvent.WORKFLOW_UPDATED, moved)
            return build_phase_completed(tx, after)

    # Tasks

    @operation("work", long_running=True)
    def start_task(
        self,
        workflow_id: Id,
        phase_id: Id,
        caller_type: CallerType,
        name: Name,
        goal: Text,
        agent_name: Annotated[Name | None, Field(description="Required for a subagent")] = None,
        parent_task_id: Id | None = None,
        areas: Annotated[
            list[str] | None, Field(description="Code areas it will touch: paths, globs or words")
        ] = None,
        cwd: Annotated[str | None, Field(description="Working tree, if not the project")] = None,
    ) -> InTransaction[TaskStarted]:
        """Start a task in a phase; takes a snapshot of the files, to find out what it changes."""
        task = TrackedTask(
            id=new_id("tt"),
            workflow_id=workflow_id,
            phase_id=phase_id,
            parent_task_id=parent_task_id,
            name=name,
            goal=goal,
            status=TrackedTaskStatus.IN_PROGRESS,
            caller_type=caller_type,
            agent_name=agent_name,
            areas=tuple(areas or ()),
            started_at=0,
            last_sign_at=0,
        )
        require_unreserved("agent_name", agent_name, current_call().caller)
        tree = self._attribution.snapshots.resolve_tree(cwd, self._project)
        with self._database.reading() as tx:  # report errors before the expensive snapshot
            _validate_start(TrackStore(tx), task)
        snapshot = self._attribution.snapshots.take(tree)
        return InTransaction(partial(self._save_started_task, task, snapshot))

    def _save_started_task(self, planned: TrackedTask, snapshot: SnapshotResult) -> TaskStarted:
        with self._database.transaction() as tx:
            store = TrackStore(tx)
            store.get_workflow_for_update(planned.workflow_id)
            phase, warnings = _validate_start(store, planned)
            task = replace(planned, started_at=tx.now, last_sign_at=tx.now, created_by=tx.caller)
            store.add_task(task)
            self._attribution.snapshots.record_start(
                tx, task.id, task.workflow_id, snapshot, task.parent_task_id, task.areas
            )
            _emit_task(tx, TrackEvent.TASK_CREATED, task)
            return _build_task_started(task, phase, snapshot, warnings)

    @operation("work", idempotent=True, long_running=True, may_become_task=True)
    def complete_task(
        self, task_id: Id, status: TaskEnding, outcome: Outcome, metadata: Metadata | None = None
    ) -> InTransaction[TaskCompleted]:
        """End a task with its outcome; returns the files it changed."""
        return self._complete(
            task_id, ReportedEnding(TrackedTaskStatus(status), outcome, metadata or Metadata())
        )

    @operation("work", long_running=True, for_people=True)
    def abandon_task(self, task_id: Id, reason: Text) -> InTransaction[TaskCompleted]:
        """End a task that nobody works on any more as failed."""
        outcome = Outcome(summary=f"Abandoned: {reason}", limitations=[reason])
        return self._complete(task_id, ReportedEnding(TrackedTaskStatus.FAILED, outcome, Metadata(), reason))

    def _complete(self, task_id: str, ending: ReportedEnding) -> InTransaction[TaskCompleted]:
        """Prove the checks and compare the files, both without a transaction, then end the task."""
        with self._database.reading() as tx:
            store = TrackStore(tx)
            task = store.get_task(task_id)
            if task.is_running:
                rules.require_children_done(task, store.list_running_children(task_id))
        proofs = self._prover.prove(task, ending.status)
        changes = self._attribution.find_changes(task_id, is_end=True) if task.is_running else None
        return InTransaction(partial(self._save_completed_task, task, ending, proofs, changes))

    def _save_completed_task(
        self, known: TrackedTask, ending: ReportedEnding, proofs: Sequence[Proof], changes: TaskChanges | None
    ) -> TaskCompleted:
        with self._database.transaction() as tx:
            store = TrackStore(tx)
            store.get_workflow_for_update(known.workflow_id)
            before = store.get_task_for_update(known.id)
            if changes is None or not before.is_running:  # completed by an earlier or concurrent call
                return repeat_completion_answer(tx, before, ending.apply(before))
            rules.require_children_done(before, store.list_running_children(before.id))
            after = replace(
                ending.apply(before),
                completed_at=tx.now,
                last_sign_at=tx.now,
                tokens=ending.tokens,
                result={**changes.to_result(before.areas), **describe_proofs(proofs)},
            )
            store.save_task(before, after)
            self._attribution.record_end(tx, after.id, after.workflow_id, changes)
            self._prover.record(tx, after.id, proofs)
            _emit_task(tx, TrackEvent.TASK_UPDATED, after)
            record_usage(tx, after)
            if ending.abandoned_for is not None:
                notify_of_abandoned_task(tx, after, ending.abandoned_for)
            return build_completion_answer(tx, after)


def _validate_start(store: TrackStore, task: TrackedTask) -> tuple[Phase, list[str]]:
    """Check that the task may start; return its phase and warnings."""
    workflow = store.get_workflow(task.workflow_id)
    rules.require_open_workflow(workflow)
    phase = store.get_phase(task.phase_id)
    rules.require_open_phase(phase, workflow)
    if task.parent_task_id is not None:
        parent = store.get_task(task.parent_task_id)
        rules.require_parent(parent, workflow, store.get_depth(parent.id))
    rules.require_agent_name(task.caller_type, task.agent_name)
    is_alone = phase.is_parallel or task.parent_task_id is not None or not store.count_running_roots(phase.id)
    return phase, [] if is_alone else [f"Another task runs in phase {phase.number}, which is not parallel"]


def _require_same_ending(
    stored: TrackedWorkflow | Phase, ending: TrackedWorkflow | Phase, kind: str, name: str
) -> None:
    """Raise NotAllowed if a repeated completion differs from the stored one."""
    if ending != stored:
        what = "summary" if ending.summary != stored.summary else "outcome"
        raise NotAllowed(
            f"{kind.capitalize()} {name!r} is already {stored.status} with a different {what}.",
            suggestion=f"Read it with {{tool:get_context}}; a {kind} that has ended cannot be changed.",
        )


def _build_phase_started(phase: Phase, **more: Any) -> PhaseStarted:
    return PhaseStarted.of(phase, phase_id=phase.id, **more)


def _build_task_started(
    task: TrackedTask, phase: Phase, snapshot: SnapshotResult, warnings: Sequence[str]
) -> TaskStarted:
    return TaskStarted.of(
        task,
        task_id=task.id,
        phase_number=phase.number,
        phase_name=phase.name,
        snapshot_id=snapshot.id,
        snapshot_type=snapshot.kind,
        warnings=[*warnings, *snapshot.warnings] or None,
    )


def _emit_workflow(tx: Transaction, event: TrackEvent, workflow: TrackedWorkflow) -> None:
    status = rules.get_visible_status(workflow, NoteStore(tx).count_open_blockers(workflow.id))
    tx.emit(event, TrackedWorkflowView.from_workflow(workflow, status).model_dump(mode="json"), workflow.id)


def _emit_phase(tx: Transaction, event: TrackEvent, phase: Phase) -> None:
    tally = TrackStore(tx).count_tasks_by_phase([phase.id]).get(phase.id, TaskCounts())
    tx.emit(event, PhaseView.from_phase(phase, tally, tx.now).model_dump(mode="json"), phase.workflow_id)


def _emit_task(tx: Transaction, event: TrackEvent, task: TrackedTask) -> None:
    tx.emit(event, TrackedTaskView.from_task(task).model_dump(mode="json"), task.workflow_id)
