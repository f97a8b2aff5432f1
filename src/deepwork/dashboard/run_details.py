"""One run as a whole: what it is for, how far its phases are, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.dashboard import action_shapes as acts
from deepwork.dashboard.action_shapes import Act
from deepwork.dashboard.endpoints import Endpoint, Nothing, Sight
from deepwork.dashboard.log_store import LogStore
from deepwork.dashboard.moments import iso, told
from deepwork.dashboard.run_store import JOB, PLAN, TRACK, RunStore, kind_of
from deepwork.dashboard.runs import RunLine, lines
from deepwork.dashboard.sessions import SessionPart, session_part, session_row
from deepwork.database.engine import Row
from deepwork.database.transaction import Transaction
from deepwork.errors import NotFound
from deepwork.plans.models import Tally as PlanTally
from deepwork.plans.store import PlanStore
from deepwork.plans.task_store import TaskStore
from deepwork.shapes import Answer
from deepwork.tracking.models import Tally
from deepwork.tracking.responses import counts
from deepwork.tracking.store import TrackStore
from deepwork.workspaces.models import WorkspaceStatus
from deepwork.workspaces.responses import WorkspaceView
from deepwork.workspaces.store import WorkspaceStore

ACTIVE_SESSIONS = 200
REVIEWS = 500
WORKSPACES = 200
HISTORY = 50


class PhaseLine(Answer):
    number: int
    name: str
    status: str
    is_parallel: bool
    description: str | None = None
    summary: str | None = None
    tasks: dict[str, int]
    started_at: str | None = None
    completed_at: str | None = None


class HistoryLine(Answer):
    at: str
    what: str
    task_id: str | None = None
    before: str | None = None
    after: str | None = None
    reason: str | None = None
    by_whom: str


class PlanPart(Answer):
    """What a run that is a plan has beyond other runs."""

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
    created_at: str
    updated_at: str
    actions: list[Act]


class RunWhole(RunLine):
    """A run with everything that is known of it but its tasks."""

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
    actions: list[Act]


def run(sight: Sight, _: Nothing) -> RunWhole:
    """One run."""
    row = run_row(sight.tx, sight.id)
    [line] = lines(sight.tx, [row])
    more = {TRACK: _of_tracked, PLAN: _of_plan, JOB: _of_job}[row["kind"]](sight.tx, row)
    return RunWhole(**dict(line) | more)


def run_row(tx: Transaction, id: str) -> Row:
    """The row of the run with this id."""
    kind = kind_of(id)
    if (row := RunStore(tx).one(kind, id)) is None:
        raise NotFound(
            "session" if kind == JOB else "workflow", id, suggestion="See /api/v1/runs for those there are."
        )
    return row


def _of_tracked(tx: Transaction, row: Row) -> dict[str, Any]:
    store = TrackStore(tx)
    workflow = store.workflow(row["id"])
    phases = store.phases(workflow.id)
    tallies = store.tallies([phase.id for phase in phases])
    begun = [
        PhaseLine(
            number=phase.number, name=phase.name, status=phase.status, is_parallel=phase.is_parallel,
            description=phase.description, summary=phase.summary,
            tasks=counts(tallies.get(phase.id, Tally())),
            started_at=told(phase.started_at), completed_at=iso(phase.completed_at),
        )
        for phase in phases
    ]  # fmt: skip
    numbers = {phase.number for phase in phases}
    to_come = [] if workflow.is_over else range(1, workflow.total_phases + 1)
    awaited = [_awaited(number) for number in to_come if number not in numbers]
    return {
        "objective": workflow.objective, "scope": workflow.scope, "constraints": workflow.constraints,
        "summary": workflow.summary, "outcome": workflow.outcome,
        "achievements": list(workflow.achievements) if workflow.is_over else None,
        "limitations": list(workflow.limitations) if workflow.is_over else None,
        "repository_path": workflow.repository_path, "created_by": workflow.created_by,
        "phases": sorted([*begun, *awaited], key=lambda phase: phase.number), "actions": [],
    }  # fmt: skip


def _awaited(number: int) -> PhaseLine:
    return PhaseLine(
        number=number, name=f"Phase {number}", status="pending", is_parallel=False, tasks=counts(Tally())
    )


def _of_plan(tx: Transaction, row: Row) -> dict[str, Any]:
    workflow = PlanStore(tx).get(row["id"])
    initial: Mapping[str, Any] = workflow.initial_plan or {}
    found, _ = WorkspaceStore(tx).of_workflow(workflow.id, None, WORKSPACES)
    tasks = WorkspaceStore(tx).tasks([each.id for each in found])
    history = RunStore(tx).plan_changes(workflow.id, HISTORY)
    return {
        "objective": workflow.source_content, "summary": workflow.plan_summary,
        "repository_path": workflow.repository_path, "created_by": workflow.created_by,
        "phases": _levels(TaskStore(tx).tallies(workflow.id)),
        "plan": PlanPart(
            approach=initial.get("approach"), risks=initial.get("risks"),
            assumptions=initial.get("assumptions"), max_parallel_tasks=workflow.max_parallel_tasks,
            history=[HistoryLine(**change | {"at": told(change["at"])}) for change in history],
        ),
        "workspaces": [_workspace(WorkspaceView.of(each, tasks.get(each.id, ()))) for each in found],
        "actions": acts.of_plan(workflow.id, workflow.status),
    }  # fmt: skip


def _workspace(view: WorkspaceView) -> RunWorkspace:
    same = {name: getattr(view, name) for name in RunWorkspace.model_fields if name != "actions"}
    moments = {"created_at": told(view.created_at), "updated_at": told(view.updated_at)}
    is_active = view.status is WorkspaceStatus.ACTIVE
    return RunWorkspace(**same | moments, actions=acts.of_workspace(view.id) if is_active else [])


def _levels(tallies: Sequence[PlanTally]) -> list[PhaseLine]:
    """The sequences of a plan, which stand for phases."""
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
            number=number, name=f"Level {number}", status=_level_status(tasks),
            is_parallel=tasks["total"] > 1,
            tasks=tasks,
        )
        for number, tasks in levels.items()
    ]  # fmt: skip


def _level_status(tasks: Mapping[str, int]) -> str:
    if tasks["completed"] == tasks["total"]:
        return "completed"
    if tasks["in_progress"] or tasks["completed"]:
        return "in_progress"
    return "failed" if tasks["failed"] else "pending"


def _of_job(tx: Transaction, row: Row) -> dict[str, Any]:
    session = session_row(row)
    active = [session_row(each) for each in RunStore(tx).active_sessions(ACTIVE_SESSIONS)]
    part = session_part(session, LogStore(tx).reviews([session.id], REVIEWS), active)
    states = {step.id: step for step in part.steps}
    phases = []
    for number, entry in enumerate(session.data["entries"], start=1):
        steps = [states[step] for step in entry["steps"]]
        done = sum(step.status == "completed" for step in steps)
        running = sum(step.status in ("in_progress", "needs_work") for step in steps)
        status = "completed" if done == len(steps) else "in_progress" if running or done else "pending"
        phases.append(
            PhaseLine(
                number=number, name=", ".join(entry["steps"]), status=status,
                is_parallel=bool(entry["is_concurrent"]),
                tasks={"total": len(steps), "completed": done, "failed": 0, "in_progress": running},
                started_at=min((step.started_at for step in steps if step.started_at), default=None),
                completed_at=max((step.completed_at or "" for step in steps), default="") or None
                if done == len(steps) else None,
            )
        )  # fmt: skip
    return {
        "objective": session.goal, "created_by": session.data.get("caller"), "phases": phases,
        "summary": session.data.get("abort_reason"), "session": part,
        "actions": [acts.abort(session.id)] if session.status == "active" else [],
    }  # fmt: skip


ENDPOINTS = (Endpoint("/api/v1/runs/{id}", "One run.", Nothing, RunWhole, run),)
