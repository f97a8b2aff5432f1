"""What people read about one run: its objective, phases, outcome and actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from deepwork.kernel.answers import Act, Answer, Id, IsoTime
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.values import format_timestamp
from deepwork.views.overview import offered_actions
from deepwork.views.overview.evidence import Evidence, read_plan_evidence
from deepwork.views.overview.run_lines import derive_entry_status, derive_phase_status
from deepwork.views.overview.run_refs import get_run_row
from deepwork.views.overview.run_search_store import MAX_REVIEWS, RunEventStore
from deepwork.views.overview.run_store import JOB, PLAN, TRACK, WorkListStore, parse_session_row
from deepwork.views.overview.session_rows import MAX_ACTIVE_SESSIONS, RUNNING_STATUSES
from deepwork.views.overview.session_views import SessionPart, build_session_part
from deepwork.views.overview.states.view import StateView
from deepwork.views.overview.work_operations import RunLine, describe_runs
from deepwork.work.plans.models import StatusCount as PlanTally
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.models import TaskCounts
from deepwork.work.tracking.responses import counts_to_dict
from deepwork.work.tracking.store import TrackStore
from deepwork.work.workspaces.models import WorkspaceStatus
from deepwork.work.workspaces.store import WorkspaceStore

MAX_WORKSPACES = 200
MAX_HISTORY = 50


class PhaseLine(Answer):
    number: int
    name: str
    status: str
    is_parallel: bool
    description: str | None = None
    summary: str | None = None
    tasks: dict[str, int]
    started_at: IsoTime | None = None
    completed_at: IsoTime | None = None


class HistoryLine(Answer):
    at: str
    what: str
    task_id: str | None = None
    before: str | None = None
    after: str | None = None
    reason: str | None = None
    by_whom: str


class PlanPart(Answer):
    """The fields that only plans have."""

    approach: str | None = None
    risks: list[Any] | None = None
    assumptions: list[Any] | None = None
    max_parallel_tasks: int
    history: list[HistoryLine]


class RunWorkspace(Answer):
    id: str
    path: str
    branch: str
    base_branch: str | None = None
    status: str
    merge_commit: str | None = None
    rescue_branch: str | None = None
    host: str
    task_ids: list[str]
    created_at: IsoTime
    updated_at: IsoTime
    actions: list[Act]


class RunWhole(RunLine):
    """All details of a run except its tasks."""

    issues: int
    scope: str | None = None
    constraints: str | None = None
    summary: str | None = None
    outcome: str | None = None
    achievements: list[str] | None = None
    limitations: list[str] | None = None
    repository_path: str | None = None
    created_by: str | None = None
    phases: list[PhaseLine]
    plan: PlanPart | None = None
    session: SessionPart | None = None
    workspaces: list[RunWorkspace] | None = None
    evidence: Evidence | None = None
    actions: list[Act]


class WorkDetailOperations:
    """Reads one run of any kind."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(self, database: Database, view_states: Callable[[Transaction], StateView]) -> None:
        self._database, self._view_states = database, view_states

    @operation("read")
    def get_work(self, id: Id) -> RunWhole:
        """One run."""
        with self._database.reading() as tx:
            row, view = get_run_row(tx, id), self._view_states(tx)
            [line] = describe_runs(view, [row])
            more = _READERS[row["kind"]](view, row)
            return RunWhole(**vars(line) | more, issues=WorkListStore(tx).count_issues(id))


def _read_tracked_details(view: StateView, row: Row) -> dict[str, Any]:
    store = TrackStore(view.tx)
    workflow = store.get_workflow(row["id"])
    phases = store.list_phases(workflow.id)
    tallies = store.count_tasks_by_phase([phase.id for phase in phases])
    begun = [
        PhaseLine.of(phase, tasks=counts_to_dict(tallies.get(phase.id, TaskCounts()))) for phase in phases
    ]
    numbers = {phase.number for phase in phases}
    to_come = [] if workflow.is_over else range(1, workflow.total_phases + 1)
    awaited = [_build_pending_phase(number) for number in to_come if number not in numbers]
    return {
        "objective": workflow.objective,
        "scope": workflow.scope,
        "constraints": workflow.constraints,
        "summary": workflow.summary,
        "outcome": workflow.outcome,
        "achievements": list(workflow.achievements) if workflow.is_over else None,
        "limitations": list(workflow.limitations) if workflow.is_over else None,
        "repository_path": workflow.repository_path,
        "created_by": workflow.created_by,
        "phases": sorted([*begun, *awaited], key=lambda phase: phase.number),
        "actions": [],
    }


def _build_pending_phase(number: int) -> PhaseLine:
    return PhaseLine(
        number=number,
        name=f"Phase {number}",
        status="pending",
        is_parallel=False,
        tasks=counts_to_dict(TaskCounts()),
    )


def _read_plan_details(view: StateView, row: Row) -> dict[str, Any]:
    tx = view.tx
    workflow = PlanStore(tx).get(row["id"])
    initial: Mapping[str, Any] = workflow.initial_plan or {}
    found, _ = WorkspaceStore(tx).list_for_workflow(workflow.id, None, MAX_WORKSPACES)
    tasks = WorkspaceStore(tx).list_task_ids([each.id for each in found])
    history = WorkListStore(tx).list_plan_changes(workflow.id, MAX_HISTORY)
    return {
        "objective": workflow.source_content,
        "summary": workflow.plan_summary,
        "repository_path": workflow.repository_path,
        "created_by": workflow.created_by,
        "phases": _build_level_phases(TaskStore(tx).count_by_status(workflow.id)),
        "plan": PlanPart(
            approach=initial.get("approach"),
            risks=initial.get("risks"),
            assumptions=initial.get("assumptions"),
            max_parallel_tasks=workflow.max_parallel_tasks,
            history=[HistoryLine(**change | {"at": format_timestamp(change["at"])}) for change in history],
        ),
        "workspaces": [
            RunWorkspace.of(
                each,
                task_ids=list(tasks.get(each.id, ())),
                actions=offered_actions.list_workspace_actions(each.id)
                if each.status is WorkspaceStatus.ACTIVE
                else [],
            )
            for each in found
        ],
        "evidence": read_plan_evidence(tx, workflow),
        "actions": offered_actions.list_plan_actions(workflow.id, workflow.status),
    }


def _build_level_phases(tallies: Sequence[PlanTally]) -> list[PhaseLine]:
    """Build the phases of a plan: one for each sequence."""
    levels: dict[int, dict[str, int]] = {}
    for tally in tallies:
        level = levels.setdefault(tally.sequence, {"total": 0, "completed": 0, "failed": 0, "in_progress": 0})
        level["total"] += tally.count
        word = (
            "completed"
            if tally.status.is_done
            else "in_progress"
            if tally.status.is_running
            else tally.status
        )
        if word in level:
            level[word] += tally.count
    return [
        PhaseLine(
            number=number,
            name=f"Level {number}",
            status=derive_phase_status(
                {
                    "total": tasks["total"],
                    "done": tasks["completed"],
                    "running": tasks["in_progress"],
                    "failed": tasks["failed"],
                }
            ),
            is_parallel=tasks["total"] > 1,
            tasks=tasks,
        )
        for number, tasks in levels.items()
    ]


def _read_job_details(view: StateView, row: Row) -> dict[str, Any]:
    tx, session = view.tx, parse_session_row(row)
    facts = view.load_sessions([session])[session.id]
    active = [parse_session_row(each) for each in WorkListStore(tx).list_active_sessions(MAX_ACTIVE_SESSIONS)]
    part = build_session_part(facts, RunEventStore(tx).list_reviews([session.id], MAX_REVIEWS), active)
    states = {step.id: step for step in part.steps}
    phases = []
    for number, entry in enumerate(session.data["entries"], start=1):
        steps = [states[step] for step in entry["steps"]]
        done = sum(step.status == "completed" for step in steps)
        running = sum(step.status in RUNNING_STATUSES for step in steps)
        phases.append(
            PhaseLine(
                number=number,
                name=", ".join(entry["steps"]),
                status=derive_entry_status([step.status for step in steps]),
                is_parallel=bool(entry["is_concurrent"]),
                tasks={"total": len(steps), "completed": done, "failed": 0, "in_progress": running},
                started_at=min((step.started_at for step in steps if step.started_at), default=None),
                completed_at=max((step.completed_at or "" for step in steps), default="") or None
                if done == len(steps)
                else None,
            )
        )
    return {
        "objective": session.goal,
        "created_by": session.data.get("caller"),
        "phases": phases,
        "summary": session.data.get("abort_reason"),
        "session": part,
        "actions": offered_actions.list_session_actions(session),
    }


_READERS = {TRACK: _read_tracked_details, PLAN: _read_plan_details, JOB: _read_job_details}
