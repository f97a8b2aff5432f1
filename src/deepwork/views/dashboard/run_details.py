"""REST endpoint for one run: its objective, phases, outcome and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.kernel.database.engine import Row
from deepwork.kernel.offered_actions import Act
from deepwork.kernel.values import format_optional_timestamp, format_timestamp
from deepwork.views.dashboard.endpoints import Endpoint, NoParameters, ReadContext, RestAnswer
from deepwork.views.overview import offered_actions
from deepwork.views.overview.evidence import Evidence, read_plan_evidence
from deepwork.views.overview.run_lines import derive_entry_status, derive_phase_status
from deepwork.views.overview.run_refs import get_run_row
from deepwork.views.overview.run_search_store import MAX_REVIEWS, RunEventStore
from deepwork.views.overview.run_store import JOB, PLAN, TRACK, WorkListStore, parse_session_row
from deepwork.views.overview.session_rows import MAX_ACTIVE_SESSIONS, RUNNING_STATUSES
from deepwork.views.overview.session_views import SessionPart, build_session_part
from deepwork.views.overview.work_operations import RunLine, describe_runs
from deepwork.work.plans.models import StatusCount as PlanTally
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.models import TaskCounts
from deepwork.work.tracking.responses import counts_to_dict
from deepwork.work.tracking.store import TrackStore
from deepwork.work.workspaces.models import WorkspaceStatus
from deepwork.work.workspaces.responses import WorkspaceView
from deepwork.work.workspaces.store import WorkspaceStore

MAX_WORKSPACES = 200
MAX_HISTORY = 50


class PhaseLine(RestAnswer):
    number: int
    name: str
    status: str
    is_parallel: bool
    description: str | None = None
    summary: str | None = None
    tasks: dict[str, int]
    started_at: str | None = None
    completed_at: str | None = None


class HistoryLine(RestAnswer):
    at: str
    what: str
    task_id: str | None = None
    before: str | None = None
    after: str | None = None
    reason: str | None = None
    by_whom: str


class PlanPart(RestAnswer):
    """The fields that only plans have."""

    approach: str | None = None
    risks: list[Any] | None = None
    assumptions: list[Any] | None = None
    max_parallel_tasks: int
    history: list[HistoryLine]


class RunWorkspace(RestAnswer):
    id: str
    path: str
    branch: str
    base_branch: str | None = None
    status: str
    merge_commit: str | None = None
    rescue_branch: str | None = None
    host: str
    task_ids: list[str]
    created_at: str
    updated_at: str
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


def read_run(context: ReadContext, _: NoParameters) -> RunWhole:
    """Read one run."""
    row = get_run_row(context.tx, context.id)
    [line] = describe_runs(context.states, [row])
    more = {TRACK: _read_tracked_details, PLAN: _read_plan_details, JOB: _read_job_details}[row["kind"]](
        context, row
    )
    return RunWhole(**vars(line) | more, issues=WorkListStore(context.tx).count_issues(context.id))


def _read_tracked_details(context: ReadContext, row: Row) -> dict[str, Any]:
    store = TrackStore(context.tx)
    workflow = store.get_workflow(row["id"])
    phases = store.list_phases(workflow.id)
    tallies = store.count_tasks_by_phase([phase.id for phase in phases])
    begun = [
        PhaseLine(
            number=phase.number,
            name=phase.name,
            status=phase.status,
            is_parallel=phase.is_parallel,
            description=phase.description,
            summary=phase.summary,
            tasks=counts_to_dict(tallies.get(phase.id, TaskCounts())),
            started_at=format_timestamp(phase.started_at),
            completed_at=format_optional_timestamp(phase.completed_at),
        )
        for phase in phases
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


def _read_plan_details(context: ReadContext, row: Row) -> dict[str, Any]:
    tx = context.tx
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
            _to_run_workspace(WorkspaceView.from_workspace(each, tasks.get(each.id, ()))) for each in found
        ],
        "evidence": read_plan_evidence(tx, workflow),
        "actions": offered_actions.list_plan_actions(workflow.id, workflow.status),
    }


def _to_run_workspace(view: WorkspaceView) -> RunWorkspace:
    same = {name: getattr(view, name) for name in RunWorkspace.model_fields if name != "actions"}
    moments = {
        "created_at": format_timestamp(view.created_at),
        "updated_at": format_timestamp(view.updated_at),
    }
    is_active = view.status is WorkspaceStatus.ACTIVE
    return RunWorkspace(
        **same | moments, actions=offered_actions.list_workspace_actions(view.id) if is_active else []
    )


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


def _read_job_details(context: ReadContext, row: Row) -> dict[str, Any]:
    tx, session = context.tx, parse_session_row(row)
    facts = context.states.load_sessions([session])[session.id]
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


ENDPOINTS = (Endpoint("/api/v1/runs/{id}", "One run.", NoParameters, RunWhole, read_run),)
