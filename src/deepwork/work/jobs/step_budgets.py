"""The minutes that a step may take: counted while its agent works on it, not while it waits for a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from deepwork.gates.budgets.models import Budget, Cost
from deepwork.gates.budgets.rules import find_own_refusal
from deepwork.kernel.call import is_person
from deepwork.kernel.errors import Code, NotAllowed
from deepwork.kernel.timestamps import measure_duration, parse_timestamp
from deepwork.work.jobs.definitions.committed import CommittedJob, list_mappings
from deepwork.work.jobs.definitions.models import Job
from deepwork.work.jobs.sessions.state import Session


def pin_budgets(session: Session, job: Job, at_head: CommittedJob) -> Session:
    """Return the session with the minutes that job.yml allows for its steps, and start to count them.

    What is committed counts; what only the file says can limit another step, but raises nothing.
    """
    current = {step.id: step.budget.minutes for step in job.steps if step.budget and step.budget.minutes}
    committed = dict(_list_committed_minutes(at_head.find("budget") or {}))
    named = {**current, **committed}
    steps = [step for entry in session.entries for step in entry.steps]
    minutes = {step: named[step] for step in steps if step in named}
    return replace(session, minutes=minutes, working_since=session.started_at) if minutes else session


def count_time(session: Session, now: str) -> Session:
    """Count the time since the agent got the current steps, or got them back; the clock runs on."""
    if not session.minutes:
        return session
    spent = {step: _measure(session, step, now) for step in session.current_entry.steps}
    return replace(session, worked_ms={**session.worked_ms, **spent}, working_since=now)


def start_clock(session: Session, now: str) -> Session:
    """Count from now on, if any step has a limit; what passed since the last count is not counted."""
    return replace(session, working_since=now) if session.minutes else session


def stop_clock(session: Session) -> Session:
    """Count nothing until the agent gets its step again: it waits for a person."""
    return replace(session, working_since=None)


def renew_minutes(session: Session) -> Session:
    """Give all steps their minutes again, because a person wants the work to go on."""
    return replace(session, worked_ms={}, working_since=None)


def compute_minutes_left(session: Session, now: str) -> float | None:
    """Return how many minutes the current steps may still take; None if they have no limit."""
    left = [
        session.minutes[step] - _measure(session, step, now) / 60_000
        for step in session.current_entry.steps
        if step in session.minutes
    ]
    return max(0.0, round(min(left), 2)) if left else None


def find_overrun(session: Session, steps: Iterable[str], now: str) -> str | None:
    """Return which of these steps has used up its minutes, as a sentence."""
    for step in steps:
        if step in session.minutes:
            spent = Cost(active_ms=_measure(session, step, now))
            if refusal := find_own_refusal(Budget(minutes=session.minutes[step]), spent, "", "step"):
                return f"Step {step!r}: {refusal.message}"
    return None


def require_minutes_left(session: Session, cleared: Iterable[str], caller: str, now: str) -> None:
    """Raise if an agent wants to begin steps again, and one of them has used up its minutes."""
    if not is_person(caller) and (overrun := find_overrun(session, cleared, now)):
        raise NotAllowed(
            overrun,
            code=Code.BUDGET_USED_UP,
            suggestion="Report the current step with {tool:finished_step}. At its gate, a person can give "
            f"all steps their minutes again: `deepwork sessions send-back {session.session_id} --text TEXT`.",
        )


def _measure(session: Session, step_id: str, now: str) -> int:
    """Return how long the step has been worked on, in milliseconds."""
    before = session.worked_ms.get(step_id, 0)
    if session.working_since is None or step_id not in session.current_entry.steps:
        return before
    return before + measure_duration(_parse(session.working_since), _parse(now))


def _parse(text: str) -> int:
    return parse_timestamp(text, "working_since")


def _list_committed_minutes(data: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """List the limits of a committed job.yml; those that are malformed are left out."""
    for step in list_mappings(data.get("steps")):
        budget = step.get("budget")
        minutes = budget.get("minutes") if isinstance(budget, Mapping) else None
        if isinstance(minutes, int | float) and not isinstance(minutes, bool) and minutes > 0:
            yield str(step.get("id")), float(minutes)
