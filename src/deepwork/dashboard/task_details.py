"""One task as a whole, whatever its kind: its goal, its outcome, and all that hangs on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from deepwork.dashboard import action_shapes as acts
from deepwork.dashboard.action_shapes import Act
from deepwork.dashboard.endpoints import Endpoint, Nothing, Sight, ToolEndpoint
from deepwork.dashboard.kin_store import KinStore
from deepwork.dashboard.log_store import LogStore
from deepwork.dashboard.moments import iso, told
from deepwork.dashboard.note_store import FilePages
from deepwork.dashboard.notes import DecisionLine, IssueLine, decisions_of_task, issues_of_task
from deepwork.dashboard.run_details import REVIEWS
from deepwork.dashboard.run_store import JOB, RunStore
from deepwork.dashboard.runs import RunRef, refs
from deepwork.dashboard.sessions import attempts_of, session_row, step_view
from deepwork.database.transaction import Transaction
from deepwork.errors import NotFound
from deepwork.plans.checkpoints import CheckpointStore
from deepwork.plans.responses import CheckpointView
from deepwork.plans.responses import TaskView as PlannedView
from deepwork.plans.task_store import TaskStore
from deepwork.shapes import Answer
from deepwork.tracking.context import STALE_MS
from deepwork.tracking.notes import NoteStore
from deepwork.tracking.responses import MilestoneView, TaskView
from deepwork.tracking.store import TrackStore

NOTES = 200
KIN = 500
_MOMENTS = ("created_at", "started_at", "finished_at", "updated_at")


class Kin(Answer):
    id: str
    name: str
    status: str | None = None


class TaskWhole(Answer):
    """A task with everything that is known of it."""

    task: dict[str, Any]
    run: RunRef
    parents: list[Kin]
    children: list[Kin]
    depends_on: list[Kin] | None = None
    dependents: list[Kin] | None = None
    milestones: list[MilestoneView]
    decisions: list[DecisionLine]
    issues: list[IssueLine]
    checkpoints: list[dict[str, Any]] | None = None
    checkpoints_total: int | None = None
    verification: dict[str, Any] | None = None
    commits: list[dict[str, Any]] | None = None
    files_count: int
    actions: list[Act]


class DiffQuery(Nothing):
    path: str | None = Field(default=None, description="Only this file, with its diff")
    max_bytes: int | None = Field(default=None, ge=1, le=1_000_000, description="Of each diff")


def task(sight: Sight, _: Nothing) -> TaskWhole:
    """One task."""
    if "/" in sight.id:
        return _step(sight.tx, sight.id)
    return _planned(sight.tx, sight.id) if sight.id.startswith("tk_") else _tracked(sight.tx, sight.id)


def _tracked(tx: Transaction, id: str) -> TaskWhole:
    found, kin = TrackStore(tx).task(id), KinStore(tx)
    phase = TrackStore(tx).phase(found.phase_id)
    shown = TaskView.of(found, tx.now - STALE_MS).model_dump(mode="json")
    more = {
        "phase": phase.number, "phase_name": phase.name, "tokens": found.tokens,
        "created_by": found.created_by,
        "last_sign_at": told(found.last_sign_at),
    }  # fmt: skip
    around = _around(tx, id, found.workflow_id)
    return TaskWhole(
        task=shown | more, **around,
        parents=[Kin(**row) for row in kin.above(id)],
        children=[Kin(**row) for row in kin.below(id, KIN)],
        verification=found.result.get("verification"), commits=found.result.get("commits"),
        actions=acts.of_tracked_task(found, _was_seen(around["milestones"], iso(found.completed_at))),
    )  # fmt: skip


def _was_seen(milestones: Sequence[MilestoneView], ended: str | None) -> bool:
    """Whether a person has said something of a task since it ended."""
    return ended is not None and any(
        each.created_at >= ended and str((each.metadata or {}).get("by", "")).startswith("human:")
        for each in milestones
    )


def _planned(tx: Transaction, id: str) -> TaskWhole:
    found, kin = TaskStore(tx).get(id), KinStore(tx)
    shown = PlannedView.of(found).model_dump(mode="json")
    shown |= {name: iso(shown[name]) for name in _MOMENTS if name in shown}
    holder = kin.last_holder(id)
    is_held = holder is not None and holder["who"] == holder["id"] and holder["until"] >= tx.now
    if holder is not None and found.status != "pending":
        shown |= {"agent_name": holder["name"], "claimed_at": told(holder["claimed_at"])}
    shown |= {"phase": found.sequence, "is_blocked": TaskStore(tx).is_blocked(found), "is_held": is_held}
    checkpoints = CheckpointStore(tx).newest(id, NOTES)
    return TaskWhole(
        task=shown, **_around(tx, id, found.workflow_id), parents=[], children=[],
        depends_on=[Kin(**row) for row in kin.waited_for(id, KIN)],
        dependents=[Kin(**row) for row in kin.waiting(id, KIN)],
        checkpoints=[
            CheckpointView.of(each).model_dump(mode="json") | {"created_at": told(each.created_at)}
            for each in checkpoints
        ],
        checkpoints_total=found.checkpoints,
        actions=acts.of_planned_task(id, found.status, holder["id"] if is_held and holder else None),
    )  # fmt: skip


def _step(tx: Transaction, id: str) -> TaskWhole:
    session_id, _, step = id.partition("/")
    row = RunStore(tx).one(JOB, session_id)
    session = session_row(row) if row else None
    if session is None or step not in session.steps:
        raise NotFound("task", id, suggestion="A step of a job is named SESSION_ID/STEP_ID.")
    attempts = attempts_of(LogStore(tx).reviews([session_id], REVIEWS)).get(step, ())
    shown = step_view(session, step, attempts).model_dump(mode="json")
    is_current = session.status == "active" and step == session.step_id
    return TaskWhole(
        task=shown | {"id": id, "name": step, "workflow_id": session_id, "goal": session.goal},
        **_around(tx, id, session_id), parents=[], children=[],
        actions=[acts.abort(session_id)] if is_current else [],
    )  # fmt: skip


def _around(tx: Transaction, id: str, run_id: str) -> dict[str, Any]:
    milestones, _ = NoteStore(tx).milestones({"task_id": id}, NOTES)
    run = refs(tx, [run_id]).get(run_id)
    return {
        "run": run or RunRef(id=run_id, kind="job", name=run_id),
        "milestones": [MilestoneView.of(each) for each in milestones],
        "decisions": decisions_of_task(tx, id, NOTES), "issues": issues_of_task(tx, id, NOTES),
        "files_count": FilePages(tx).of_task(id),
    }  # fmt: skip


ENDPOINTS = (Endpoint("/api/v1/tasks/{id}", "One task.", Nothing, TaskWhole, task),)
DIFF = ToolEndpoint(
    "/api/v1/tasks/{id}/diff", "The files a task changed; for one file, the diff itself.", DiffQuery,
    "get_task_diff",
    lambda path, query: {"task_id": path["id"], **query.model_dump(exclude_none=True)},
)  # fmt: skip
JOBS = ToolEndpoint(
    "/api/v1/jobs", "The jobs of this project and their workflows.", Nothing, "get_workflows", lambda *_: {}
)
