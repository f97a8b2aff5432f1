"""Building the answer of get_context: the requested sections, each within the limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar

from deepwork.kernel.answers import check_input
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import format_timestamp
from deepwork.work.plans.models import Task as PlannedTask
from deepwork.work.plans.models import TaskStatus as PlannedStatus
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking import rules
from deepwork.work.tracking.models import JobSessionState, Phase, TaskCounts, TrackedWorkflow
from deepwork.work.tracking.note_store import NoteStore
from deepwork.work.tracking.responses import (
    MAX_ANSWERS,
    AnswerView,
    Context,
    DecisionView,
    IssueView,
    MilestoneView,
    PhaseView,
    TrackedTaskView,
    TrackedWorkflowView,
    counts_to_dict,
)
from deepwork.work.tracking.staleness import STALE_MS
from deepwork.work.tracking.store import TrackStore

Position = tuple[int, int]
"""A time and the creation sequence, or a position in a plan and 0."""
Record = TypeVar("Record")


ContextSection = Literal["phase_summary", "tasks", "decisions", "milestones", "blockers"]


@dataclass(frozen=True)
class ContextFilter:
    """Which records to return."""

    phase: int | None = None
    agent: str | None = None
    since_ms: int | None = None


@dataclass(frozen=True)
class ContextRequest:
    """The arguments of a get_context call."""

    include: tuple[ContextSection, ...]
    filter: ContextFilter
    limit: int
    cursor: str | None

    def includes(self, part: ContextSection) -> bool:
        """Return whether to build this section; with a cursor, only the sections that it continues."""
        return part in self.include and (self.cursor is None or part in self.positions)

    @property
    def positions(self) -> dict[str, Position]:
        """Where each truncated section continues, parsed from the cursor."""
        if self.cursor is None:
            return {}
        try:
            parts = [place.split(":") for place in self.cursor.split(",")]
            positions = {part: (int(at), int(seq)) for part, at, seq in parts}
            check_input({"cursor": [list(position) for position in positions.values()]})
        except (ValueError, InvalidInput):
            raise InvalidInput(
                "`cursor` is not from an earlier answer.", suggestion="Omit it to start from the beginning."
            ) from None
        return positions


class _ContextBuilder:
    """Collects the sections of an answer, and the cursor for truncated ones."""

    def __init__(self, request: ContextRequest) -> None:
        self.parts: dict[str, Any] = {}
        self._request = request
        self._cut: list[str] = []
        self._next: list[str] = []

    def add_section(
        self,
        part: ContextSection,
        found: Sequence[Record],
        total: int,
        show: Callable[[Record], Any],
        position: Callable[[Record], Position],
    ) -> None:
        """Add a section. `found` holds one record more than the limit if there are more."""
        limit = self._request.limit
        shown = found[:limit]
        self.parts |= {part: [show(each) for each in shown], f"{part}_count": total}
        if len(found) > limit:
            at, seq = position(shown[-1])
            self._cut.append(part)
            self._next.append(f"{part}:{at}:{seq}")

    def build(self, **header: Any) -> Context:
        filters = self._request.filter
        given = {"phase": filters.phase, "agent": filters.agent, "since": _format_since(filters)}
        return Context(
            **header,
            **self.parts,
            truncated=self._cut or None,
            cursor=",".join(self._next) or None,
            filters_applied=given if any(value is not None for value in given.values()) else None,
        )


def build_tracked_context(tx: Transaction, workflow_id: str, request: ContextRequest) -> Context:
    """Build the state of a tracked workflow."""
    store, notes, answer = TrackStore(tx), NoteStore(tx), _ContextBuilder(request)
    workflow = store.get_workflow(workflow_id)
    phase, warning = _find_filtered_phase(store, workflow, request.filter.phase)
    if request.includes("phase_summary"):
        answer.parts["phase_summary"] = _build_phase_summary(tx, workflow_id, request.filter.phase)
    if request.includes("tasks"):
        tasks, total = store.list_tasks(
            workflow_id,
            phase_id=phase,
            agent=request.filter.agent,
            since=request.filter.since_ms,
            after=request.positions.get("tasks"),
            limit=request.limit + 1,
        )
        stale = tx.now - STALE_MS
        answer.add_section(
            "tasks",
            tasks,
            total,
            lambda task: TrackedTaskView.from_task(task, stale),
            lambda task: (task.started_at, store.get_created_seq(task.id)),
        )
    _add_notes(answer, notes, request, {"workflow_id": workflow_id, "phase_id": phase})
    shown = TrackedWorkflowView.from_workflow(workflow)
    return answer.build(
        workflow_id=workflow.id,
        workflow_name=workflow.name,
        workflow_status=rules.get_visible_status(workflow, notes.count_open_blockers(workflow_id)),
        current_phase=workflow.current_phase,
        total_phases=shown.total_phases,
        objective=workflow.objective,
        scope=workflow.scope,
        constraints=workflow.constraints,
        profile=workflow.profile,
        outcome=workflow.outcome,
        summary=workflow.summary,
        achievements=shown.achievements,
        limitations=shown.limitations,
        warning=warning,
    )


def build_plan_context(tx: Transaction, workflow_id: str, request: ContextRequest) -> Context:
    """Build the state of a planned workflow, with its levels as phases."""
    workflow, store, answer = PlanStore(tx).get(workflow_id), TaskStore(tx), _ContextBuilder(request)
    tallies = _count_levels(store.count_by_status(workflow_id))
    if request.includes("phase_summary"):
        answer.parts["phase_summary"] = [
            _build_level_view(number, tally)
            for number, tally in tallies.items()
            if request.filter.phase in (None, number)
        ]
    if request.includes("tasks"):
        found, total = _list_planned_tasks(tx, workflow_id, request)
        names = store.find_last_holder_names([task.id for task in found]) if found else {}
        answer.add_section(
            "tasks",
            found,
            total,
            lambda task: _build_planned_task_view(task, names.get(task.id)),
            lambda task: (task.position, 0),
        )
    level = request.filter.phase
    _add_notes(answer, NoteStore(tx), request, {"workflow_id": workflow_id, "level": level})
    running_levels = [number for number, tally in tallies.items() if tally.in_progress]
    return answer.build(
        workflow_id=workflow.id,
        workflow_name=workflow.name,
        workflow_status=workflow.status,
        current_phase=max(running_levels, default=0),
        total_phases=len(tallies),
        summary=workflow.plan_summary,
        objective=workflow.source_content[:_MAX_OBJECTIVE],
        warning=None if level is None or level in tallies else f"There is no level {level}.",
    )


def build_session_context(tx: Transaction, session: JobSessionState, request: ContextRequest) -> Context:
    """Build the state of a job session, with its steps as tasks."""
    answer = _ContextBuilder(request)
    if request.includes("tasks"):
        first = request.positions.get("tasks", (-1, 0))[0] + 1
        steps = list(enumerate(_list_steps(session, request.filter)))
        answer.add_section(
            "tasks",
            steps[first : first + request.limit + 1],
            len(steps),
            lambda step: _build_step_view(session, *step[1]),
            lambda step: (step[0], 0),
        )
    _add_notes(answer, NoteStore(tx), request, {"workflow_id": session.id})
    done = sum(ended is not None for _, ended in session.steps.values())
    if request.includes("phase_summary"):
        answer.parts["phase_summary"] = []
    return answer.build(
        workflow_id=session.id,
        workflow_name=session.name,
        workflow_status=session.status,
        current_phase=done,
        total_phases=len(session.steps),
        objective=session.goal[:_MAX_OBJECTIVE],
        warning=None if request.filter.phase is None else "A job has no phases: all of its steps are listed.",
    )


_Step = tuple[str, tuple[str | None, str | None]]


def _list_steps(session: JobSessionState, filters: ContextFilter) -> list[_Step]:
    """Return the steps that match; none matches a filter by agent, because steps have no agent."""
    since = filters.since_ms
    return [
        (id, times)
        for id, times in session.steps.items()
        if filters.agent is None
        and (since is None or any(time is not None and _parse_iso_ms(time) >= since for time in times))
    ]


def _build_step_view(
    session: JobSessionState, id: str, times: tuple[str | None, str | None]
) -> TrackedTaskView:
    begun, ended = times
    status = "completed" if ended else "in_progress" if begun or id == session.current_step else "pending"
    return TrackedTaskView(
        id=f"{session.id}/{id}",
        workflow_id=session.id,
        name=id,
        goal=session.goal[:_MAX_OBJECTIVE],
        status=status,
        areas=[],
        started_at=begun,
        completed_at=ended,
        manual_review_needed=False,
    )


_MAX_OBJECTIVE = 2000
_RUNNING_STATUSES = frozenset({PlannedStatus.IN_PROGRESS, PlannedStatus.PLANNING, PlannedStatus.PAUSED})


def _add_notes(
    answer: _ContextBuilder, notes: NoteStore, request: ContextRequest, where: Mapping[str, Any]
) -> None:
    filters = request.filter
    matching = {**where, "agent": filters.agent, "since": filters.since_ms}

    def build_query(part: ContextSection) -> tuple[dict[str, Any], int]:
        return {**matching, "beyond": request.positions.get(part)}, request.limit + 1

    def build_position_getter(table: str) -> Callable[[Any], Position]:
        return lambda note: (note.created_at, notes.get_created_seq(table, note.id))

    if request.includes("decisions"):
        found = notes.list_decisions(*build_query("decisions"))
        answer.add_section("decisions", *found, DecisionView.from_note, build_position_getter("decisions"))
    if request.includes("milestones"):
        milestones = notes.list_milestones(*build_query("milestones"))
        answer.add_section(
            "milestones", *milestones, MilestoneView.from_note, build_position_getter("milestones")
        )
    if request.includes("blockers"):
        waiting, limit = build_query("blockers")
        blockers = notes.list_issues({**waiting, "blockers": True, "open": True}, limit)
        answer.add_section("blockers", *blockers, IssueView.from_note, build_position_getter("issues"))
        answer.parts["has_blockers"] = answer.parts["blockers_count"] > 0
    if request.cursor is None:
        _add_answers(answer, notes, matching)


def _add_answers(answer: _ContextBuilder, notes: NoteStore, matching: Mapping[str, Any]) -> None:
    """Add the answers of people, whatever sections are requested: an agent does not know that one came."""
    answered, total = notes.list_answers(matching, MAX_ANSWERS)
    if answered:
        views = [AnswerView.from_issue(issue) for issue in answered]
        answer.parts |= {"answers": views, "answers_count": total}


def _parse_iso_ms(text: str) -> int:
    """Parse an ISO time, as deepwork writes it, to Unix milliseconds."""
    return (datetime.fromisoformat(text) - _EPOCH) // _ONE_MILLISECOND


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_MILLISECOND = timedelta(milliseconds=1)


def _format_since(filters: ContextFilter) -> str | None:
    return None if filters.since_ms is None else format_timestamp(filters.since_ms)


def _find_filtered_phase(
    store: TrackStore, workflow: TrackedWorkflow, number: int | None
) -> tuple[str | None, str | None]:
    """Return the id of the requested phase and a warning; an id that matches nothing if it does not exist."""
    if number is None:
        return None, None
    phase = store.find_phase(workflow.id, number)
    return (phase.id, None) if phase else ("", f"There is no phase {number} yet.")


def _build_phase_summary(tx: Transaction, workflow_id: str, number: int | None) -> list[PhaseView]:
    store = TrackStore(tx)
    phases: list[Phase] = store.list_phases(workflow_id, number)
    tallies = store.count_tasks_by_phase([phase.id for phase in phases])
    return [PhaseView.from_phase(phase, tallies.get(phase.id, TaskCounts()), tx.now) for phase in phases]


# Plans


def _count_levels(tallies: Sequence[Any]) -> dict[int, TaskCounts]:
    """Count the tasks of each level by state."""
    levels: dict[int, dict[str, int]] = {}
    for tally in tallies:
        level = levels.setdefault(tally.sequence, {"total": 0, "success": 0, "failed": 0, "in_progress": 0})
        level["total"] += tally.count
        if tally.status.is_done:
            level["success"] += tally.count
        elif tally.status is PlannedStatus.FAILED:
            level["failed"] += tally.count
        elif tally.status in _RUNNING_STATUSES:
            level["in_progress"] += tally.count
    return {number: TaskCounts(**levels[number]) for number in sorted(levels)}


def _build_level_view(number: int, tally: TaskCounts) -> PhaseView:
    is_begun = tally.success + tally.failed + tally.in_progress > 0
    status = "completed" if tally.success == tally.total else "in_progress" if is_begun else "pending"
    return PhaseView(
        phase_number=number,
        phase_name=f"Level {number}",
        status=status,
        is_parallel=tally.total > 1,
        tasks=counts_to_dict(tally),
        duration_seconds=0,
        task_seconds=0,
    )


def _list_planned_tasks(
    tx: Transaction, workflow_id: str, request: ContextRequest
) -> tuple[list[PlannedTask], int]:
    after = request.positions.get("tasks")
    return TaskStore(tx).list_in_plan_order(
        workflow_id,
        sequence=request.filter.phase,
        agent_name=request.filter.agent,
        since=request.filter.since_ms,
        after=after[0] if after else None,
        limit=request.limit + 1,
    )


def _build_planned_task_view(task: PlannedTask, agent_name: str | None) -> TrackedTaskView:
    begun, over = task.started_at, task.finished_at
    return TrackedTaskView(
        id=task.id,
        workflow_id=task.workflow_id,
        name=task.name,
        goal=task.description[:_MAX_OBJECTIVE],
        status=task.status,
        agent_name=agent_name,
        areas=list(task.files),
        started_at=None if begun is None else format_timestamp(begun),
        completed_at=None if over is None else format_timestamp(over),
        duration_seconds=None if begun is None or over is None else round((over - begun) / 1000),
        manual_review_needed=False,
        summary=task.outcome,
    )
