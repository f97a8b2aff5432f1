"""What the rules need to know about each thing, as plain values; times are Unix milliseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from deepwork.delivery.landing.models import Landing
from deepwork.delivery.runner.models import Attempt, Run
from deepwork.kernel.states import Standing, State
from deepwork.views.overview.session_rows import SessionRow
from deepwork.work.plans.models import PlanStatus, TaskStatus


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """An attempt of an agent at a task."""

    attempt: Attempt
    is_driven: bool = True
    """Whether a process looks after it: its lock is held here, or its machine was heard of."""
    approval_id: str | None = None
    """What a person has to approve about its task."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run of agents."""

    run: Run
    is_driven: bool | None = True
    """None if only another machine could know."""
    hosts: tuple[str, ...] = ()
    starts_tasks: bool = True
    """Whether a machine starts its tasks; else workers do, each of which is started for one task."""
    attempts: tuple[AttemptFacts, ...] = ()
    """Those that have not ended."""
    usd_micros: int = 0
    landed: int = 0
    unlanded: int = 0
    """How many completed tasks of its plan could land."""


@dataclass(frozen=True, slots=True)
class LandingFacts:
    """A landing."""

    landing: Landing
    is_held: bool = False
    """Whether a process has the right to move its branch now."""
    approval_id: str | None = None
    run: RunFacts | None = None
    """The open run of its plan."""


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
    run: RunFacts | None = None
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
    attempt: AttemptFacts | None = None
    """The one that has not ended."""
    landing: LandingFacts | None = None
    """The one that has not ended."""
    is_landed: bool = False
    can_land: bool = False
    elsewhere: str | None = None
    """The machine that has its work, if that is another one."""


@dataclass(frozen=True, slots=True)
class PlanWork:
    """The tasks of a plan."""

    states: Counter[State] = field(default_factory=Counter)
    needs: tuple[Standing, ...] = ()
    """Of tasks that need a person, in the order of the plan."""
    retries: int = 0
    """How many failed tasks agents may try again."""
    parked_until: int | None = None
    """When the first parked task continues."""
    landable: int = 0


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """A session of a job."""

    session: SessionRow
    approval_id: str | None = None
    has_exited: bool = False
    """Whether the process that works on it is gone."""
    waits_for_person: bool = False
    """Whether its step did not pass its review, or only a person can decide about it."""
    run: RunFacts | None = None
    """Its open run."""


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
