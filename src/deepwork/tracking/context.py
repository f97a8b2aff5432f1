"""The state of a workflow, put together: what was asked for, within its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from deepwork.agents.store import AgentStore
from deepwork.database.transaction import Transaction
from deepwork.errors import InvalidInput
from deepwork.events.log import iso
from deepwork.plans.models import Task as PlannedTask
from deepwork.plans.models import TaskStatus as PlannedStatus
from deepwork.plans.store import PlanStore
from deepwork.plans.task_store import TaskStore
from deepwork.shapes import check_input
from deepwork.tracking import rules
from deepwork.tracking.inputs import Filter, Part, iso_ms
from deepwork.tracking.models import Phase, SeenSession, Tally, Workflow
from deepwork.tracking.notes import NoteStore
from deepwork.tracking.responses import (
    Context,
    DecisionView,
    IssueView,
    MilestoneView,
    PhaseView,
    TaskView,
    WorkflowView,
    counts,
)
from deepwork.tracking.store import TrackStore

STALE_MS = 30 * 60 * 1000
"""A running task that nobody mentions for this long is told as stale."""

Position = tuple[int, int]
"""A time and the order of creation, or a place in a plan and 0."""
Record = TypeVar("Record")


@dataclass(frozen=True)
class Wanted:
    """What a caller asked for."""

    include: tuple[Part, ...]
    filter: Filter
    limit: int
    cursor: str | None

    def has(self, part: Part) -> bool:
        """Whether this section is wanted; with a cursor, only what it goes on with."""
        return part in self.include and (self.cursor is None or part in self.positions)

    @property
    def positions(self) -> dict[str, Position]:
        """Where each section that was cut goes on."""
        if self.cursor is None:
            return {}
        try:
            parts = [place.split(":") for place in self.cursor.split(",")]
            positions = {part: (int(at), int(seq)) for part, at, seq in parts}
            check_input({"cursor": [list(position) for position in positions.values()]})
        except (ValueError, InvalidInput):
            raise InvalidInput(
                "`cursor` is not one that get_context answered.", suggestion="Leave it out to begin anew."
            ) from None
        return positions


class _Answer:
    """An answer that grows section by section."""

    def __init__(self, wanted: Wanted) -> None:
        self.parts: dict[str, Any] = {}
        self._wanted = wanted
        self._cut: list[str] = []
        self._next: list[str] = []

    def add(
        self,
        part: Part,
        found: Sequence[Record],
        total: int,
        show: Callable[[Record], Any],
        position: Callable[[Record], Position],
    ) -> None:
        """Add a section; one more than its limit was asked for, to know whether it goes on."""
        limit = self._wanted.limit
        shown = found[:limit]
        self.parts |= {part: [show(each) for each in shown], f"{part}_count": total}
        if len(found) > limit:
            at, seq = position(shown[-1])
            self._cut.append(part)
            self._next.append(f"{part}:{at}:{seq}")

    def context(self, **header: Any) -> Context:
        filters = self._wanted.filter
        given = {"phase": filters.phase, "agent": filters.agent, "since": _since(filters)}
        return Context(
            **header,
            **self.parts,
            truncated=self._cut or None,
            cursor=",".join(self._next) or None,
            filters_applied=given if any(value is not None for value in given.values()) else None,
        )


def of_tracked(tx: Transaction, workflow_id: str, wanted: Wanted) -> Context:
    """The state of a tracked workflow."""
    store, notes, answer = TrackStore(tx), NoteStore(tx), _Answer(wanted)
    workflow = store.workflow(workflow_id)
    phase, warning = _filtered_phase(store, workflow, wanted.filter.phase)
    if wanted.has("phase_summary"):
        answer.parts["phase_summary"] = _phase_summary(tx, workflow_id, wanted.filter.phase)
    if wanted.has("tasks"):
        tasks, total = store.tasks(
            workflow_id, phase_id=phase, agent=wanted.filter.agent, since=wanted.filter.since_ms,
            after=wanted.positions.get("tasks"), limit=wanted.limit + 1,
        )  # fmt: skip
        stale = tx.now - STALE_MS
        answer.add(
            "tasks", tasks, total, lambda task: TaskView.of(task, stale),
            lambda task: (task.started_at, store.created_seq(task.id)),
        )  # fmt: skip
    _add_notes(answer, notes, wanted, {"workflow_id": workflow_id, "phase_id": phase})
    shown = WorkflowView.of(workflow)
    return answer.context(
        workflow_id=workflow.id, workflow_name=workflow.name,
        workflow_status=rules.shown_status(workflow, notes.open_blockers(workflow_id)),
        current_phase=workflow.current_phase, total_phases=shown.total_phases,
        objective=workflow.objective, scope=workflow.scope, constraints=workflow.constraints,
        profile=workflow.profile, outcome=workflow.outcome, summary=workflow.summary,
        achievements=shown.achievements, limitations=shown.limitations, warning=warning,
    )  # fmt: skip


def of_plan(tx: Transaction, workflow_id: str, wanted: Wanted) -> Context:
    """The state of a planned workflow: its levels stand for phases."""
    workflow, store, answer = PlanStore(tx).get(workflow_id), TaskStore(tx), _Answer(wanted)
    tallies = _levels(store.tallies(workflow_id))
    if wanted.has("phase_summary"):
        answer.parts["phase_summary"] = [
            _level(number, tally) for number, tally in tallies.items()
            if wanted.filter.phase in (None, number)
        ]  # fmt: skip
    if wanted.has("tasks"):
        found, total = _planned_tasks(tx, workflow_id, wanted)
        names = AgentStore(tx).names([task.claimed_by for task in found if task.claimed_by])
        answer.add(
            "tasks", found, total, lambda task: _planned(task, names.get(task.claimed_by or "")),
            lambda task: (task.position, 0),
        )  # fmt: skip
    level = wanted.filter.phase
    _add_notes(answer, NoteStore(tx), wanted, {"workflow_id": workflow_id, "level": level})
    under_way = [number for number, tally in tallies.items() if tally.in_progress]
    return answer.context(
        workflow_id=workflow.id, workflow_name=workflow.name, workflow_status=workflow.status,
        current_phase=max(under_way, default=0), total_phases=len(tallies), summary=workflow.plan_summary,
        objective=workflow.source_content[:_OBJECTIVE],
        warning=None if level is None or level in tallies else f"There is no level {level}.",
    )  # fmt: skip


def of_session(tx: Transaction, session: SeenSession, wanted: Wanted) -> Context:
    """The state of a job session: its steps stand for tasks."""
    answer = _Answer(wanted)
    if wanted.has("tasks"):
        first = wanted.positions.get("tasks", (-1, 0))[0] + 1
        steps = list(enumerate(_steps(session, wanted.filter)))
        answer.add(
            "tasks", steps[first : first + wanted.limit + 1], len(steps),
            lambda step: _step(session, *step[1]), lambda step: (step[0], 0),
        )  # fmt: skip
    _add_notes(answer, NoteStore(tx), wanted, {"workflow_id": session.id})
    done = sum(ended is not None for _, ended in session.steps.values())
    if wanted.has("phase_summary"):
        answer.parts["phase_summary"] = []
    return answer.context(
        workflow_id=session.id, workflow_name=session.name, workflow_status=session.status,
        current_phase=done, total_phases=len(session.steps), objective=session.goal[:_OBJECTIVE],
        warning=None if wanted.filter.phase is None else "A job has no phases: all of its steps are told.",
    )  # fmt: skip


_Step = tuple[str, tuple[str | None, str | None]]


def _steps(session: SeenSession, filters: Filter) -> list[_Step]:
    """The steps that are wanted; nobody is known to do them."""
    since = filters.since_ms
    return [
        (id, times) for id, times in session.steps.items()
        if filters.agent is None
        and (since is None or any(time is not None and iso_ms(time) >= since for time in times))
    ]  # fmt: skip


def _step(session: SeenSession, id: str, times: tuple[str | None, str | None]) -> TaskView:
    begun, ended = times
    status = "completed" if ended else "in_progress" if begun or id == session.current_step else "pending"
    return TaskView(
        id=f"{session.id}/{id}", workflow_id=session.id, name=id, goal=session.goal[:_OBJECTIVE],
        status=status, areas=[], started_at=begun, completed_at=ended, manual_review_needed=False,
    )  # fmt: skip


_OBJECTIVE = 2000
_RUNNING = frozenset({PlannedStatus.IN_PROGRESS, PlannedStatus.PLANNING, PlannedStatus.PAUSED})


def _add_notes(answer: _Answer, notes: NoteStore, wanted: Wanted, where: Mapping[str, Any]) -> None:
    filters = wanted.filter
    matching = {**where, "agent": filters.agent, "since": filters.since_ms}

    def asked(part: Part) -> tuple[dict[str, Any], int]:
        return {**matching, "before": wanted.positions.get(part)}, wanted.limit + 1

    def position_in(table: str) -> Callable[[Any], Position]:
        return lambda note: (note.created_at, notes.created_seq(table, note.id))

    if wanted.has("decisions"):
        found = notes.decisions(*asked("decisions"))
        answer.add("decisions", *found, DecisionView.of, position_in("decisions"))
    if wanted.has("milestones"):
        milestones = notes.milestones(*asked("milestones"))
        answer.add("milestones", *milestones, MilestoneView.of, position_in("milestones"))
    if wanted.has("blockers"):
        blockers = notes.blockers(*asked("blockers"))
        answer.add("blockers", *blockers, IssueView.of, position_in("issues"))
        answer.parts["has_blockers"] = answer.parts["blockers_count"] > 0


def _since(filters: Filter) -> str | None:
    return None if filters.since_ms is None else iso(filters.since_ms)


def _filtered_phase(
    store: TrackStore, workflow: Workflow, number: int | None
) -> tuple[str | None, str | None]:
    """The phase that is asked for; one that is not there has nothing in it."""
    if number is None:
        return None, None
    phase = store.phase_with_number(workflow.id, number)
    return (phase.id, None) if phase else ("", f"There is no phase {number} yet.")


def _phase_summary(tx: Transaction, workflow_id: str, number: int | None) -> list[PhaseView]:
    store = TrackStore(tx)
    phases: list[Phase] = store.phases(workflow_id, number)
    tallies = store.tallies([phase.id for phase in phases])
    return [PhaseView.of(phase, tallies.get(phase.id, Tally()), tx.now) for phase in phases]


# Plans


def _levels(tallies: Sequence[Any]) -> dict[int, Tally]:
    """How many tasks of each level are how far."""
    levels: dict[int, dict[str, int]] = {}
    for tally in tallies:
        level = levels.setdefault(tally.sequence, {"total": 0, "success": 0, "failed": 0, "in_progress": 0})
        level["total"] += tally.count
        if tally.status.is_done:
            level["success"] += tally.count
        elif tally.status is PlannedStatus.FAILED:
            level["failed"] += tally.count
        elif tally.status in _RUNNING:
            level["in_progress"] += tally.count
    return {number: Tally(**levels[number]) for number in sorted(levels)}


def _level(number: int, tally: Tally) -> PhaseView:
    is_begun = tally.success + tally.failed + tally.in_progress > 0
    status = "completed" if tally.success == tally.total else "in_progress" if is_begun else "pending"
    return PhaseView(
        phase_number=number, phase_name=f"Level {number}", status=status, is_parallel=tally.total > 1,
        tasks=counts(tally), duration_seconds=0, task_seconds=0,
    )  # fmt: skip


def _planned_tasks(tx: Transaction, workflow_id: str, wanted: Wanted) -> tuple[list[PlannedTask], int]:
    after = wanted.positions.get("tasks")
    return TaskStore(tx).in_order(
        workflow_id, sequence=wanted.filter.phase, agent_name=wanted.filter.agent,
        since=wanted.filter.since_ms, after=after[0] if after else None, limit=wanted.limit + 1,
    )  # fmt: skip


def _planned(task: PlannedTask, agent_name: str | None) -> TaskView:
    begun, over = task.started_at, task.finished_at
    return TaskView(
        id=task.id, workflow_id=task.workflow_id, name=task.name, goal=task.description[:_OBJECTIVE],
        status=task.status, agent_name=agent_name, areas=list(task.files),
        started_at=None if begun is None else iso(begun), completed_at=None if over is None else iso(over),
        duration_seconds=None if begun is None or over is None else round((over - begun) / 1000),
        manual_review_needed=False, summary=task.outcome,
    )  # fmt: skip
