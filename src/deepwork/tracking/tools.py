"""What can be recorded of workflows, phases and tasks as they happen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from deepwork.database.call import current_call
from deepwork.database.idempotency import under_key
from deepwork.database.transaction import Database, Transaction
from deepwork.errors import NotAllowed
from deepwork.events.log import iso
from deepwork.names import new_id
from deepwork.shapes import Id, Name, Text, Traits
from deepwork.tracking import rules
from deepwork.tracking.completion import answer_of, told_again
from deepwork.tracking.inputs import Metadata, Outcome
from deepwork.tracking.models import (
    CallerType,
    Ending,
    Phase,
    PhaseEnding,
    PhaseStatus,
    Profile,
    Tally,
    Task,
    TaskEnding,
    TaskStatus,
    TrackEvent,
    Workflow,
    WorkflowStatus,
)
from deepwork.tracking.notes import NoteStore
from deepwork.tracking.responses import (
    Metrics,
    PhaseCompleted,
    PhaseStarted,
    PhaseTasks,
    PhaseView,
    TaskCompleted,
    TaskStarted,
    TaskView,
    WorkflowCompleted,
    WorkflowStarted,
    WorkflowView,
)
from deepwork.tracking.store import TrackStore
from deepwork.tracking.watch_store import WatchStore
from deepwork.tracking.watching import Watcher


class TrackTools:
    """Orchestrators and their subagents say what they begin and what came of it."""

    traits: ClassVar = Traits(
        toolset="tracking",
        idempotent=frozenset({"start_phase", "complete_phase", "complete_task", "complete_workflow"}),
        own_keys=frozenset({"start_task", "complete_task", "abandon_task"}),
        aliases={"start": "start-workflow", "done": "complete-task"},
    )

    def __init__(self, database: Database, watcher: Watcher, repository: Path, project: Path) -> None:
        """`repository` is what workflows are about; tasks are done in `project` unless they say otherwise."""
        self._database = database
        self._watcher = watcher
        self._repository = repository
        self._project = project

    # Workflows

    def start_workflow(
        self,
        name: Name,
        objective: Annotated[Text, Field(description="Measurable goal")],
        profile: Profile = Profile.STANDARD,
        total_phases: Annotated[int | None, Field(ge=1, le=1000, description="Expected")] = None,
        scope: Annotated[str | None, Field(description="Included, excluded")] = None,
        constraints: Annotated[str | None, Field(description="Technical limits")] = None,
    ) -> WorkflowStarted:
        """Begin to record a workflow; start its first phase next."""
        with self._database.transaction() as tx:
            workflow = Workflow(
                id=new_id("tw"), name=name, objective=objective, scope=scope, constraints=constraints,
                profile=profile, status=WorkflowStatus.IN_PROGRESS, outcome=None, summary=None,
                achievements=(), limitations=(), current_phase=0,
                total_phases=total_phases or rules.PHASES_EXPECTED[profile],
                repository_path=str(self._repository), created_by=tx.caller,
                created_at=tx.now, updated_at=tx.now,
            )  # fmt: skip
            TrackStore(tx).add_workflow(workflow)
            _tell_workflow(tx, TrackEvent.WORKFLOW_CREATED, workflow)
            return WorkflowStarted(
                workflow_id=workflow.id, profile=profile, total_phases=workflow.total_phases,
                created_at=iso(tx.now),
            )  # fmt: skip

    def complete_workflow(
        self,
        workflow_id: Id,
        status: Ending,
        summary: Text,
        achievements: list[str] | None = None,
        limitations: list[str] | None = None,
    ) -> WorkflowCompleted:
        """End a workflow with a summary; get its figures."""
        with self._database.transaction() as tx:
            store = TrackStore(tx)
            before = store.hold_workflow(workflow_id)
            after = replace(
                before, status=rules.status_of(status), outcome=status, summary=summary,
                achievements=tuple(achievements or ()), limitations=tuple(limitations or ()),
                completed_at=before.completed_at or tx.now, updated_at=tx.now,
            )  # fmt: skip
            if before.is_over:
                _require_same(before, replace(after, updated_at=before.updated_at), "workflow", before.name)
                return _workflow_completed(tx, before, already=True)
            store.keep_workflow(before, after)
            _tell_workflow(tx, TrackEvent.WORKFLOW_UPDATED, after)
            tx.afterwards(lambda: self._watcher.tidy(self._project))
            return _workflow_completed(tx, after)

    # Phases

    def start_phase(
        self,
        workflow_id: Id,
        number: Annotated[int, Field(ge=1)],
        name: Name,
        description: str | None = None,
        is_parallel: Annotated[bool, Field(description="Its tasks may run at once")] = False,
    ) -> PhaseStarted:
        """Begin a phase before its subagents are launched; one that exists is answered as it is."""
        with self._database.transaction() as tx:
            store = TrackStore(tx)
            workflow = store.hold_workflow(workflow_id)
            if known := store.phase_with_number(workflow_id, number):
                differs = rules.phase_changes(known, name, description, is_parallel)
                return _phase_started(known, already_exists=True, differs=differs or None)
            rules.require_under_way(workflow)
            phase = Phase(
                id=new_id("ph"), workflow_id=workflow_id, number=number, name=name, description=description,
                summary=None, status=PhaseStatus.IN_PROGRESS, is_parallel=is_parallel, started_at=tx.now,
            )  # fmt: skip
            store.add_phase(phase)
            more = max(workflow.total_phases, number)
            moved = replace(workflow, current_phase=number, total_phases=more, updated_at=tx.now)
            store.keep_workflow(workflow, moved)
            _tell_phase(tx, TrackEvent.PHASE_CREATED, phase)
            _tell_workflow(tx, TrackEvent.WORKFLOW_UPDATED, moved)
            return _phase_started(phase)

    def complete_phase(self, phase_id: Id, status: PhaseEnding, summary: str | None = None) -> PhaseCompleted:
        """End a phase after its tasks; what is still open is told as warnings."""
        with self._database.transaction() as tx:
            store = TrackStore(tx)
            workflow = store.hold_workflow(store.phase(phase_id).workflow_id)
            before = store.hold_phase(phase_id)
            after = replace(
                before, status=PhaseStatus(status), summary=summary,
                completed_at=before.completed_at or tx.now,
            )  # fmt: skip
            if before.completed_at is not None:
                _require_same(before, after, "phase", before.name)
                return _phase_completed(tx, before, already=True)
            store.keep_phase(after)
            _tell_phase(tx, TrackEvent.PHASE_UPDATED, after)
            moved = replace(workflow, updated_at=tx.now)
            store.keep_workflow(workflow, moved)
            _tell_workflow(tx, TrackEvent.WORKFLOW_UPDATED, moved)
            return _phase_completed(tx, after)

    # Tasks

    def start_task(
        self,
        workflow_id: Id,
        phase_id: Id,
        caller_type: CallerType,
        name: Name,
        goal: Text,
        agent_name: Annotated[Name | None, Field(description="Required for a subagent")] = None,
        parent_task_id: Annotated[Id | None, Field(description="For nested tasks")] = None,
        areas: Annotated[
            list[str] | None, Field(description="Code areas it will touch: paths, globs or words")
        ] = None,
        cwd: Annotated[str | None, Field(description="Working tree, if not the project")] = None,
    ) -> TaskStarted:
        """Begin a task in a phase; what its files are like now is remembered, to tell what it changed."""
        asked = {
            "workflow_id": workflow_id, "phase_id": phase_id, "caller_type": caller_type, "name": name,
            "goal": goal, "agent_name": agent_name, "parent_task_id": parent_task_id, "areas": areas,
            "cwd": cwd,
        }  # fmt: skip
        task = Task(
            id=new_id("tt"), workflow_id=workflow_id, phase_id=phase_id, parent_task_id=parent_task_id,
            name=name, goal=goal, status=TaskStatus.IN_PROGRESS, caller_type=caller_type,
            agent_name=agent_name, areas=tuple(areas or ()), started_at=0, last_sign_at=0,
        )  # fmt: skip
        tree = self._watcher.tree_at(cwd, self._project)
        if not _is_keyed():  # whatever is wrong is said before git is asked
            with self._database.reading() as tx:
                _check_start(TrackStore(tx), task)
        look = self._watcher.look(tree)

        def start() -> dict[str, Any]:
            with self._database.transaction() as tx:
                store = TrackStore(tx)
                store.hold_workflow(workflow_id)
                phase, warnings = _check_start(store, task)
                begun = replace(task, started_at=tx.now, last_sign_at=tx.now, created_by=tx.caller)
                store.add_task(begun)
                self._watcher.begin(tx, begun.id, workflow_id, look, parent_task_id, begun.areas)
                _tell_task(tx, TrackEvent.TASK_CREATED, begun)
                return TaskStarted(
                    task_id=begun.id, workflow_id=workflow_id, phase_id=phase.id,
                    phase_number=phase.number, phase_name=phase.name, caller_type=caller_type,
                    agent_name=agent_name, snapshot_id=look.id, snapshot_type=look.kind,
                    started_at=iso(tx.now), warnings=[*warnings, *look.warnings] or None,
                ).model_dump(mode="json")  # fmt: skip

        return TaskStarted.model_validate(under_key(self._database, asked, start))

    def complete_task(
        self,
        task_id: Id,
        status: TaskEnding,
        outcome: Annotated[Outcome, Field(description="summary is required")],
        metadata: Metadata | None = None,
    ) -> TaskCompleted:
        """End a task: what came of it, and get the files it changed."""
        return self._complete(task_id, TaskStatus(status), outcome, metadata or Metadata())

    def abandon_task(self, task_id: Id, reason: Text) -> TaskCompleted:
        """End a task that nobody works on any more, as failed."""
        outcome = Outcome(summary=f"Abandoned: {reason}", limitations=[reason])
        return self._complete(task_id, TaskStatus.FAILED, outcome, Metadata())

    def _complete(
        self, task_id: str, status: TaskStatus, outcome: Outcome, metadata: Metadata
    ) -> TaskCompleted:
        told: dict[str, Any] = {
            "outcome": outcome.model_dump(mode="json", exclude_none=True),
            "metadata": metadata.model_dump(mode="json", exclude_defaults=True),
        }
        with self._database.reading() as tx:
            store = TrackStore(tx)
            known = store.task(task_id)
            if not known.is_running and not _is_keyed():
                return told_again(tx, known, replace(known, status=status, **told))
            rules.require_children_done(known, store.running_children(task_id))
        findings = self._watcher.findings(task_id)

        def complete() -> dict[str, Any]:
            with self._database.transaction() as tx:
                store = TrackStore(tx)
                workflow = store.hold_workflow(known.workflow_id)
                before = store.hold_task(task_id)
                if not before.is_running:  # somebody was faster
                    again = told_again(tx, before, replace(before, status=status, **told))
                    return again.model_dump(mode="json")
                rules.require_children_done(before, store.running_children(task_id))
                after = replace(
                    before, status=status, completed_at=tx.now, last_sign_at=tx.now,
                    tokens=(metadata.tokens_input or 0) + (metadata.tokens_output or 0),
                    result=findings.told(before.areas), **told,
                )  # fmt: skip
                store.keep_task(before, after)
                self._watcher.end(tx, task_id, workflow.id, findings)
                _tell_task(tx, TrackEvent.TASK_UPDATED, after)
                return answer_of(tx, after).model_dump(mode="json")

        asked = {"task_id": task_id, "status": status, **told}
        return TaskCompleted.model_validate(under_key(self._database, asked, complete))


def _is_keyed() -> bool:
    """Under a key the first answer counts, whatever has become of things since."""
    return current_call().key is not None


def _check_start(store: TrackStore, task: Task) -> tuple[Phase, list[str]]:
    """The phase of a task to be begun, and what is odd about beginning it."""
    workflow = store.workflow(task.workflow_id)
    rules.require_under_way(workflow)
    phase = store.phase(task.phase_id)
    rules.require_open_phase(phase, workflow)
    if task.parent_task_id is not None:
        parent = store.task(task.parent_task_id)
        rules.require_parent(parent, workflow, store.depth(parent.id))
    rules.require_agent_name(task.caller_type, task.agent_name)
    is_alone = phase.is_parallel or task.parent_task_id is not None or not store.running_roots(phase.id)
    return phase, [] if is_alone else [f"Another task runs in phase {phase.number}, which is not parallel"]


def _require_same(kept: Workflow | Phase, told: Workflow | Phase, kind: str, name: str) -> None:
    """Repeating an end is fine; telling it differently is not."""
    if told != kept:
        raise NotAllowed(
            f"The {kind} {name!r} is already {kept.status}, and was ended with other words.",
            suggestion="Read it with get_context; what has ended is not changed any more.",
        )


def _workflow_completed(tx: Transaction, workflow: Workflow, *, already: bool = False) -> WorkflowCompleted:
    store, notes = TrackStore(tx), NoteStore(tx)
    phases, total = store.phases(workflow.id), store.total(workflow.id)
    blockers = notes.open_blockers(workflow.id)
    open_phases = sum(phase.completed_at is None for phase in phases)
    ended = workflow.completed_at or tx.now
    return WorkflowCompleted(
        workflow_id=workflow.id,
        status=workflow.outcome or Ending.COMPLETED,
        summary=workflow.summary or "",
        achievements=list(workflow.achievements),
        limitations=list(workflow.limitations),
        completed_at=iso(ended),
        metrics=Metrics(
            total_phases=len(phases), total_tasks=total.tasks,
            duration=round((ended - workflow.created_at) / 1000),
            task_seconds=round(total.task_ms / 1000), files_changed=WatchStore(tx).paths_of(workflow.id),
            total_tokens=total.tokens, decisions=notes.count("decisions", workflow.id),
            issues=notes.count("issues", workflow.id), blockers_open=blockers,
        ),
        warnings=list(rules.workflow_warnings(open_phases, total.running, blockers)),
        already_completed=already or None,
    )  # fmt: skip


def _phase_started(phase: Phase, **more: Any) -> PhaseStarted:
    return PhaseStarted(
        phase_id=phase.id, workflow_id=phase.workflow_id, number=phase.number, name=phase.name,
        is_parallel=phase.is_parallel, status=phase.status, started_at=iso(phase.started_at), **more,
    )  # fmt: skip


def _phase_completed(tx: Transaction, phase: Phase, *, already: bool = False) -> PhaseCompleted:
    store = TrackStore(tx)
    tally = store.tallies([phase.id]).get(phase.id, Tally())
    blockers = NoteStore(tx).open_blockers(phase.workflow_id, phase.id)
    lower = [each.number for each in store.phases(phase.workflow_id) if _is_open_below(each, phase)]
    ended = phase.completed_at or tx.now
    return PhaseCompleted(
        phase_id=phase.id, workflow_id=phase.workflow_id, number=phase.number, name=phase.name,
        status=phase.status, completed_at=iso(ended), duration_ms=ended - phase.started_at,
        tasks=PhaseTasks.of(tally),
        warnings=list(rules.phase_warnings(phase.status, tally, blockers, lower)),
        already_completed=already or None,
    )  # fmt: skip


def _is_open_below(other: Phase, phase: Phase) -> bool:
    return other.number < phase.number and other.completed_at is None


def _tell_workflow(tx: Transaction, event: TrackEvent, workflow: Workflow) -> None:
    status = rules.shown_status(workflow, NoteStore(tx).open_blockers(workflow.id))
    tx.emit(event, WorkflowView.of(workflow, status).model_dump(mode="json"), workflow.id)


def _tell_phase(tx: Transaction, event: TrackEvent, phase: Phase) -> None:
    tally = TrackStore(tx).tallies([phase.id]).get(phase.id, Tally())
    tx.emit(event, PhaseView.of(phase, tally, tx.now).model_dump(mode="json"), phase.workflow_id)


def _tell_task(tx: Transaction, event: TrackEvent, task: Task) -> None:
    tx.emit(event, TaskView.of(task).model_dump(mode="json"), task.workflow_id)
