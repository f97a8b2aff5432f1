"""What people read about one task of any kind, with its records and related tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar

from deepwork.delivery.runner.operations import RunLines
from deepwork.delivery.runner.responses import AttemptLine
from deepwork.delivery.runner.words import Word, list_words
from deepwork.kernel.answers import Act, Answer, Field, Id
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import NotFound
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.values import format_optional_timestamp, format_timestamp
from deepwork.views.overview import offered_actions
from deepwork.views.overview.evidence import Evidence, read_task_evidence
from deepwork.views.overview.run_refs import StoredRuns
from deepwork.views.overview.run_search_store import MAX_REVIEWS, RunEventStore
from deepwork.views.overview.run_store import JOB, WorkListStore, name_work, parse_session_row
from deepwork.views.overview.session_views import build_step_view, group_attempts
from deepwork.views.overview.states.view import StateView
from deepwork.work.plans.responses import CheckpointView, PlanTaskView
from deepwork.work.plans.stores.claim_store import ClaimStore
from deepwork.work.plans.stores.search_store import CheckpointStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.list_responses import DecisionLine, IssueLine, RunRef
from deepwork.work.tracking.note_store import NoteStore
from deepwork.work.tracking.operations import build_decision_lines, build_issue_lines
from deepwork.work.tracking.responses import MilestoneView, TrackedTaskView
from deepwork.work.tracking.staleness import STALE_MS
from deepwork.work.tracking.store import TrackStore
from deepwork.work.tracking.watch_store import WatchStore

MAX_RECORDS = 200
MAX_RELATED = 500
_TIMESTAMP_FIELDS = ("created_at", "started_at", "finished_at", "updated_at")


class Kin(Answer):
    id: str
    name: str
    status: str | None = None


class TaskWhole(Answer):
    """All details of a task."""

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
    evidence: Evidence | None = None
    attempts: list[AttemptLine] | None = None
    """What agents that deepwork started did about it, the oldest first."""
    words: list[Word] | None = None
    """What people told whoever works on it, the oldest first."""
    files_count: int
    actions: list[Act]


class TaskDetailOperations:
    """Reads one task of any kind."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(self, database: Database, view_states: Callable[[Transaction], StateView]) -> None:
        self._database, self._view_states = database, view_states

    @operation("read")
    def get_work_task(
        self, id: Annotated[Id, Field(description="Of a job's step: SESSION_ID/STEP_ID")]
    ) -> TaskWhole:
        """One task."""
        with self._database.reading() as tx:
            view = self._view_states(tx)
            if "/" in id:
                return _read_step(view, id)
            return _read_planned_task(view, id) if id.startswith("tk_") else _read_tracked_task(view, id)


def _read_tracked_task(view: StateView, id: str) -> TaskWhole:
    tx = view.tx
    store = TrackStore(tx)
    found = store.get_task(id)
    phase = store.get_phase(found.phase_id)
    shown = TrackedTaskView.from_task(found, tx.now - STALE_MS).model_dump(mode="json")
    more = {
        **view.judge_tracked_tasks("id", [id])[id].to_answer(),
        "phase": phase.number,
        "phase_name": phase.name,
        "tokens": found.tokens,
        "created_by": found.created_by,
        "last_sign_at": format_timestamp(found.last_sign_at),
    }
    ended = found.completed_at
    was_reviewed = ended is not None and NoteStore(tx).was_reviewed(id, ended)
    return TaskWhole(
        task=shown | more,
        **_read_records(tx, id, found.workflow_id),
        parents=[Kin(**row) for row in store.list_ancestors(id)],
        children=[Kin(**row) for row in store.list_children(id, MAX_RELATED)],
        verification=found.result.get("verification"),
        commits=found.result.get("commits"),
        actions=offered_actions.list_tracked_task_actions(found, was_reviewed),
    )


def _read_planned_task(view: StateView, id: str) -> TaskWhole:
    tx = view.tx
    store = TaskStore(tx)
    found = store.get(id)
    shown = PlanTaskView.from_task(found).model_dump(mode="json")
    shown |= {name: format_optional_timestamp(shown[name]) for name in _TIMESTAMP_FIELDS if name in shown}
    holder = ClaimStore(tx).find_last_holder(id)
    is_held = holder is not None and holder["who"] == holder["id"] and holder["until"] >= tx.now
    if holder is not None and found.status != "pending":
        shown |= {"agent_name": holder["name"], "claimed_at": format_timestamp(holder["claimed_at"])}
    shown |= {"phase": found.sequence, "is_blocked": store.is_blocked(found), "is_held": is_held}
    shown |= view.judge_tasks([id])[id].to_answer()
    checkpoints = CheckpointStore(tx).list_newest(id, MAX_RECORDS)
    return TaskWhole(
        task=shown,
        **_read_records(tx, id, found.workflow_id),
        parents=[],
        children=[],
        depends_on=[Kin(**row) for row in store.list_named(id, MAX_RELATED)],
        dependents=[Kin(**row) for row in store.list_named(id, MAX_RELATED, are_dependents=True)],
        checkpoints=[
            CheckpointView.from_checkpoint(each).model_dump(mode="json")
            | {"created_at": format_timestamp(each.created_at)}
            for each in checkpoints
        ],
        checkpoints_total=found.checkpoints,
        evidence=read_task_evidence(tx, found),
        attempts=_list_attempts(view, id) or None,
        words=list_words(tx, id) or None,
        actions=offered_actions.list_planned_task_actions(
            id, found.status, holder["id"] if is_held and holder else None
        ),
    )


def _read_step(view: StateView, id: str) -> TaskWhole:
    tx = view.tx
    session_id, _, step = id.partition("/")
    row = WorkListStore(tx).find(JOB, session_id)
    session = parse_session_row(row) if row else None
    if session is None or step not in session.steps:
        raise NotFound("task", id, suggestion="The id of a job step is SESSION_ID/STEP_ID.")
    attempts = group_attempts(RunEventStore(tx).list_reviews([session_id], MAX_REVIEWS)).get(step, ())
    facts = view.load_sessions([session])[session_id]
    shown = build_step_view(facts, step, attempts).model_dump(mode="json")
    return TaskWhole(
        task=shown | {"id": id, "name": step, "workflow_id": session_id, "goal": session.goal},
        **_read_records(tx, id, session_id),
        parents=[],
        children=[],
        attempts=_list_attempts(view, id) or None,
        words=list_words(tx, id) or None,
        actions=offered_actions.list_session_actions(session) if step == session.step_id else [],
    )


def _read_records(tx: Transaction, id: str, run_id: str) -> dict[str, Any]:
    notes, own, runs = NoteStore(tx), {"task_id": id}, StoredRuns()
    milestones, _ = notes.list_milestones(own, MAX_RECORDS)
    run = runs.find_refs(tx, [run_id]).get(run_id)
    return {
        "run": run or RunRef(id=run_id, kind="job", name=run_id),
        "milestones": [MilestoneView.from_note(each) for each in milestones],
        "decisions": build_decision_lines(tx, runs, notes.list_decisions(own, MAX_RECORDS)[0]),
        "issues": build_issue_lines(tx, runs, notes.list_issues(own, MAX_RECORDS)[0]),
        "files_count": WatchStore(tx).count_changed_files(id),
    }


def _list_attempts(view: StateView, task_id: str) -> list[AttemptLine]:
    return RunLines(view.tx, view, name_work).list_attempts_of_task(task_id)
