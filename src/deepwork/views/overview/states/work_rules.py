"""Which state plans, tasks, job sessions and tracked work have, why, and what moves them on: pure functions.

They get how the run and the landing of a thing stand, and do not need the rules for that (`run_rules`): so
hooks, which import as little as possible, use the same rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from deepwork.kernel.records import dataclass
from deepwork.kernel.states import (
    DONE,
    FAILED,
    LANDED,
    RUNNING,
    STOPPED,
    Cause,
    Command,
    Standing,
    State,
    format_until,
)
from deepwork.work.plans.models import PlanStatus, TaskStatus

if TYPE_CHECKING:
    from deepwork.views.overview.session_rows import SessionRow

MAX_NAMED = 2
"""How many of the open tasks that a task waits for are named."""


# Tasks


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """A plan, apart from its tasks."""

    id: str
    status: PlanStatus
    approval_id: str | None = None
    was_refused: bool = False
    is_budget_used_up: bool = False
    day_ends_at: int | None = None
    """When the next day begins, if the budget of this day is used up."""
    run: Standing | None = None
    """Its open run."""


class TaskFacts(NamedTuple):
    """A task of a plan; a tuple, because thousands are judged at once."""

    id: str
    status: TaskStatus
    plan: PlanFacts
    open_names: Sequence[str] = ()
    """The first open tasks that it waits for."""
    open_total: int = 0
    is_claimed: bool = False
    is_alive: bool = True
    """Whether its claim is valid; of one in progress that nobody claimed: whether it changed lately."""
    waits_for: str | None = None
    approval_id: str | None = None
    was_refused: bool = False
    """Whether a person refused what they may still approve: that it begins."""
    is_used_up: bool = False
    """Whether it failed as often as it may."""
    is_budget_used_up: bool = False
    attempt: Standing | None = None
    """Of the attempt that has not ended."""
    continues_at: int | None = None
    """When that continues, if it is parked."""
    landing: Standing | None = None
    """Of the landing that has not ended."""
    is_landed: bool = False
    can_land: bool = False
    elsewhere: str | None = None
    """The machine that has its work, if that is another one."""


def judge_task(task: TaskFacts) -> Standing:
    """Judge a task of a plan."""
    if task.status.is_done:
        return _judge_finished_task(task)
    if task.plan.status is PlanStatus.ABANDONED:
        return Standing(State.STOPPED, Cause.PLAN, task.plan.status.value)
    if task.approval_id:
        return _ask_for_approval(task.approval_id, was_refused=task.was_refused)
    if task.attempt is not None:
        return task.attempt
    if task.is_claimed or task.status.is_running:
        return _judge_held_task(task)
    return _judge_free_task(task)


def _judge_finished_task(task: TaskFacts) -> Standing:
    if task.status is TaskStatus.SKIPPED:
        return Standing(State.DONE, Cause.SKIPPED)
    if task.is_landed:
        return LANDED
    if task.landing is not None:
        return task.landing
    if task.elsewhere:
        return Standing(State.DONE, Cause.WORK_ELSEWHERE, task.elsewhere)
    return Standing(State.DONE, next=Command.LAND.about(task.id)) if task.can_land else DONE


def _judge_held_task(task: TaskFacts) -> Standing:
    if task.waits_for is not None:  # the request to approve it was withdrawn
        return Standing(State.NEEDS_YOU, Cause.APPROVAL, "", Command.RETRY.about(task.id))
    if not task.is_alive:
        return Standing(State.UNATTENDED, Cause.AGENT_GONE, "", _choose_driver(task.plan))
    if task.status is TaskStatus.PAUSED:
        return Standing(State.NEEDS_YOU, Cause.PAUSED, "", Command.RESUME_TASK.about(task.id))
    return RUNNING


def _judge_free_task(task: TaskFacts) -> Standing:
    if task.status is TaskStatus.FAILED:
        cause = Cause.ATTEMPTS_USED_UP if task.is_used_up else None
        return Standing(State.FAILED, cause, "", Command.RETRY.about(task.id))
    if task.open_total:
        return Standing(State.WAITING, Cause.TASKS, name_tasks(task.open_names, task.open_total))
    if task.is_budget_used_up:
        return Standing(State.NEEDS_YOU, Cause.BUDGET, "", Command.SET_BUDGET.about(task.id))
    closed = _find_closed_gate(task.plan)
    if closed is not None:
        return Standing(State.WAITING, Cause.PLAN, closed.cause.value if closed.cause else "", closed.next)
    return Standing(State.READY, next=_choose_driver(task.plan))


def _ask_for_approval(id: str, *, was_refused: bool) -> Standing:
    """Ask a person; they may still approve what they refused."""
    cause = Cause.REFUSED if was_refused else Cause.APPROVAL
    return Standing(State.NEEDS_YOU, cause, "", Command.APPROVE.about(id))


def name_tasks(names: Sequence[str], total: int) -> str:
    """Name the first open tasks, and say how many more there are."""
    more = total - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _choose_driver(plan: PlanFacts) -> str | None:
    """Return the command by which agents go on with a plan; None if a process does that already."""
    if plan.run is None:
        return Command.RUN.about(plan.id)
    return plan.run.next


# Plans


@dataclass(frozen=True, slots=True)
class PlanTotals:
    """The tasks of a plan."""

    states: Counter[State] = field(default_factory=Counter)
    needs: tuple[Standing, ...] = ()
    """Of tasks that need a person, in the order of the plan."""
    retries: int = 0
    """How many failed tasks agents may try again."""
    parked_until: int | None = None
    """When the first parked task continues."""
    landable: int = 0


def judge_plan(plan: PlanFacts, work: PlanTotals) -> Standing:
    """Judge a plan by its tasks."""
    if plan.status is PlanStatus.ABANDONED:
        return STOPPED
    if plan.status is PlanStatus.COMPLETED:
        return _judge_completed_plan(plan, work)
    closed = _find_closed_gate(plan)
    if closed is not None:
        return _with_need(closed, work) if plan.status is PlanStatus.FAILED else closed
    return _judge_open_plan(plan, work)


def _judge_completed_plan(plan: PlanFacts, work: PlanTotals) -> Standing:
    if work.needs:
        return work.needs[0]
    if work.landable:
        return Standing(State.DONE, next=Command.LAND.about(plan.id))
    return LANDED if work.states[State.LANDED] else DONE


def _find_closed_gate(plan: PlanFacts) -> Standing | None:
    """Return why the plan lets no task start, if it does not."""
    if plan.status in _CLOSED_PLANS:
        state, cause, command = _CLOSED_PLANS[plan.status]
        return Standing(state, cause, "", command.about(plan.id))
    if plan.approval_id:
        return _ask_for_approval(plan.approval_id, was_refused=plan.was_refused)
    if plan.is_budget_used_up:
        return Standing(State.NEEDS_YOU, Cause.BUDGET, "", Command.SET_BUDGET.about(plan.id))
    if plan.day_ends_at is not None:
        return Standing(State.PARKED, Cause.BUDGET, format_until(plan.day_ends_at))
    return None


_CLOSED_PLANS: Mapping[PlanStatus, tuple[State, Cause, Command]] = {
    PlanStatus.PLANNING: (State.WAITING, Cause.NO_TASKS, Command.SET_PLAN),
    PlanStatus.PAUSED: (State.NEEDS_YOU, Cause.PAUSED, Command.RESUME_PLAN),
    PlanStatus.FAILED: (State.FAILED, Cause.FAILED_TASKS, Command.RESUME_PLAN),
}


def _judge_open_plan(plan: PlanFacts, work: PlanTotals) -> Standing:
    states, run = work.states, plan.run
    if states[State.RUNNING]:
        return Standing(State.RUNNING, Cause.PERSON, _count(len(work.needs))) if work.needs else RUNNING
    if run is not None and run.state in (State.UNATTENDED, State.PARKED):
        return run
    if states[State.PARKED]:
        return Standing(State.PARKED, Cause.LIMIT, format_until(work.parked_until))
    if states[State.UNATTENDED]:
        return Standing(State.UNATTENDED, Cause.AGENT_GONE, "", _choose_driver(plan))
    if states[State.READY] or work.retries:
        is_driven = run is not None and run.state is State.RUNNING
        return RUNNING if is_driven else Standing(State.READY, next=_choose_driver(plan))
    return _with_need(Standing(State.NEEDS_YOU), work) if work.needs else Standing(State.WAITING)


def _with_need(found: Standing, work: PlanTotals) -> Standing:
    """Return the state with what the first task that needs a person says."""
    if not work.needs:
        return found
    first = work.needs[0]
    return Standing(found.state, first.cause, _count(len(work.needs)), first.next)


def _count(tasks: int) -> str:
    return "1 task" if tasks == 1 else f"{tasks} tasks"


# Jobs


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """A session of a job."""

    session: SessionRow
    approval_id: str | None = None
    has_exited: bool = False
    """Whether the process that works on it is gone."""
    waits_for_person: bool = False
    """Whether its step did not pass its review, or only a person can decide about it."""
    run: Standing | None = None
    """Its open run."""
    ended_run: Standing | None = None
    """The run that ended and left it at this step; None if there was none, or work went on since then."""
    has_failed: bool = False
    """Whether the last attempt of that run at the step failed."""


def judge_session(facts: SessionFacts) -> Standing:
    """Judge a session of a job by its current step."""
    session = facts.session
    if session.status != "active":
        return DONE if session.status == "completed" else STOPPED
    if facts.approval_id:
        next = Command.APPROVE.about(facts.approval_id)
        return Standing(State.NEEDS_YOU, Cause.APPROVAL, session.step_id, next)
    if facts.waits_for_person:
        return Standing(State.NEEDS_YOU, Cause.REVIEW, session.step_id, Command.PASS_STEP.about(session.id))
    return _judge_working_session(facts)


def _judge_working_session(facts: SessionFacts) -> Standing:
    if facts.run is not None:
        return facts.run
    if facts.ended_run is not None:
        return _judge_left_session(facts, facts.ended_run)
    if facts.has_exited:
        next = Command.RESUME_SESSION.about(facts.session.id)
        return Standing(State.UNATTENDED, Cause.AGENT_GONE, "", next)
    return RUNNING


def _judge_left_session(facts: SessionFacts, run: Standing) -> Standing:
    """Judge a session that its run left: a person starts the run again, or finishes the step."""
    if run.state is not State.NEEDS_YOU:
        return Standing(State.UNATTENDED, Cause.RUNNER_GONE, "", run.next)
    if facts.has_failed:
        return Standing(State.FAILED, Cause.ATTEMPTS_USED_UP, facts.session.step_id, run.next)
    return run


def judge_step(facts: SessionFacts, step: str) -> Standing:
    """Judge a step of a job: the current one has the state of the session."""
    status = facts.session.get_step_status(step)
    if status == "completed":
        return DONE
    if facts.session.status != "active":
        return STOPPED
    if status == "pending":
        return Standing(State.WAITING, Cause.TASKS, facts.session.step_id)
    return judge_session(facts) if step == facts.session.step_id else RUNNING


# Tracked work


@dataclass(frozen=True, slots=True)
class TrackFacts:
    """A tracked workflow or task."""

    id: str
    status: str
    is_alive: bool = True
    """Whether it was heard of within half an hour."""
    blocker_id: str | None = None
    needs_review: bool = False
    """Whether it ended, and a person has to say what they think of it."""
    silent_task_id: str | None = None
    """Of a workflow: a running task that is silent."""


def judge_tracked_task(facts: TrackFacts) -> Standing:
    """Judge a task that an agent tracks."""
    if facts.blocker_id:
        return Standing(State.NEEDS_YOU, Cause.BLOCKER, "", Command.ANSWER.about(facts.blocker_id))
    if facts.status == "in_progress":
        gone = Standing(State.UNATTENDED, Cause.AGENT_GONE, "", Command.ABANDON.about(facts.id))
        return RUNNING if facts.is_alive else gone
    answer = Command.ANSWER.about(facts.id) if facts.needs_review else None
    if facts.status == "failed":
        return Standing(State.FAILED, next=answer)
    return Standing(State.NEEDS_YOU, Cause.REVIEW, "", answer) if answer else DONE


def judge_track(facts: TrackFacts) -> Standing:
    """Judge a tracked workflow."""
    if facts.status in ("completed", "failed"):
        return DONE if facts.status == "completed" else FAILED
    if facts.blocker_id:
        return Standing(State.NEEDS_YOU, Cause.BLOCKER, "", Command.ANSWER.about(facts.blocker_id))
    if facts.is_alive:
        return RUNNING
    if facts.silent_task_id:
        return Standing(State.UNATTENDED, Cause.AGENT_GONE, "", Command.ABANDON.about(facts.silent_task_id))
    return Standing(State.UNATTENDED, Cause.AGENT_GONE, "", Command.COMPLETE_TRACK.about(facts.id))


# Wishes


@dataclass(frozen=True)
class WishFacts:
    """A wish, and how its planning and its plan stand."""

    id: str
    plan: Standing
    plan_status: PlanStatus
    planning: Standing | None = None
    """None: its plan was finished already."""
    is_started: bool = False
    findings: int = 0
    """What the last review found."""


def judge_wish(wish: WishFacts) -> Standing:
    """Judge a wish: by its planning, then by whether a person let it begin, then by its plan."""
    next = Command.DO.about(wish.id)
    if wish.plan_status is PlanStatus.ABANDONED:
        return STOPPED
    if wish.plan_status is PlanStatus.PLANNING:
        return _judge_planning(wish.planning, next)
    if not wish.is_started:
        return Standing(State.NEEDS_YOU, Cause.NOT_STARTED, "", next)
    if wish.plan.state in (State.READY, State.UNATTENDED, State.WAITING):
        return wish.plan._replace(next=next)
    if wish.plan_status is PlanStatus.COMPLETED and wish.findings:
        found = "1 finding" if wish.findings == 1 else f"{wish.findings} findings"
        return Standing(State.NEEDS_YOU, Cause.FINDINGS, found, Command.REPORT.about(wish.id))
    return wish.plan


def _judge_planning(planning: Standing | None, next: str) -> Standing:
    if planning is None or planning.state in (State.READY, State.UNATTENDED, State.DONE, State.LANDED):
        return Standing(State.READY if planning is None else planning.state, Cause.NO_TASKS, "", next)
    return planning
