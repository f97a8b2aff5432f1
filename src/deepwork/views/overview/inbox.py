"""The inbox: everything that waits for a person, from one list of sources.

A source says what waits and how many there are, with one or two statements. It is a function of the slice
that owns the rows, or of this module if it needs several slices or the state of a thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deepwork.delivery.landing.models import PROBLEM_WORDS, Landing, LandingStatus
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.models import Attempt, ParkedFor, Run
from deepwork.delivery.runner.store import AttemptStore
from deepwork.delivery.runner.store import RunStore as AgentRunStore
from deepwork.gates.approvals.inbox import list_pending_approvals
from deepwork.gates.budgets.models import SubjectKind
from deepwork.gates.budgets.rules import describe_budget
from deepwork.gates.budgets.service import BudgetService, load_day_budget, name_day
from deepwork.gates.reviews.inbox import WAITING_WORDS, list_waiting_reviews
from deepwork.kernel.attention import Attention, Listed, format_detail
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound
from deepwork.kernel.records import dataclass
from deepwork.kernel.states import Cause, Command, Standing, State
from deepwork.kernel.values import parse_timestamp
from deepwork.views.overview.inbox_causes import find_waiting_agents, merge_same_causes
from deepwork.views.overview.inbox_marks import InboxMark
from deepwork.views.overview.inbox_store import InboxMarkStore
from deepwork.views.overview.run_store import PLAN, WorkListStore, get_run_kind, parse_session_row
from deepwork.views.overview.session_rows import MAX_ACTIVE_SESSIONS, Gate, list_gates
from deepwork.views.overview.states.store import LocalProcesses
from deepwork.views.overview.states.totals import MAX_COUNTED
from deepwork.views.overview.states.view import StateView
from deepwork.work.plans import inbox as plans
from deepwork.work.tracking import inbox as tracking

MAX_ENTRIES = 100
Source = Callable[[StateView, int], Listed]
"""Lists up to so many entries, the oldest first, and says how many there are."""


@dataclass(frozen=True)
class Inbox:
    """What waits for a person, and what people put off."""

    entries: Sequence[Attention]
    total: int
    hidden: Sequence[Attention]
    """What is snoozed or cleared."""
    marks: Mapping[str, InboxMark]
    """What people did with entries, by their keys."""


def list_inbox(view: StateView, *groups: Sequence[Source]) -> Listed:
    """List what waits for a person, and how much there is in all; see `read_inbox`."""
    found = read_inbox(view, *groups)
    return list(found.entries), found.total


def read_inbox(view: StateView, *groups: Sequence[Source]) -> Inbox:
    """Read what waits for a person: what agents wait for first, then what stops agents, then by age.

    What one command answers is one entry, such as an approval and the agent that waits for it, or a dollar
    limit that ten agents met. The first source speaks for all, unless it only follows from another one.
    Tasks of a plan that failed for one reason are one entry, too.
    """
    marks = InboxMarkStore(view.tx).find_all()
    now = view.tx.now
    # Sources list the oldest first: what is hidden must not take the places of what is not.
    found, beyond = _collect(view, groups or SOURCES, MAX_ENTRIES + len(marks))
    shown: list[tuple[int, Attention]] = []
    hidden: list[Attention] = []
    for place, each in found:
        mark = marks.get(each.key)
        if mark is not None and mark.hides(each, now):
            hidden.append(each)
        else:
            shown.append((place, each))
    waiting = find_waiting_agents(view.tx, [each for _, each in shown])
    merged = merge_same_causes([(place, replace(each, agents=waiting[each.key])) for place, each in shown])
    merged.sort(key=lambda one: (-one[1].agents, one[0], one[1].since))
    entries = _name_runs(view.tx, [each for _, each in merged[:MAX_ENTRIES]])
    return Inbox(entries, beyond + len(merged), _name_runs(view.tx, hidden), marks)


def find_entry(found: Inbox, key: str) -> Attention:
    """Return an entry of the inbox, hidden or not, or one that another entry stands for."""
    for entry in (*found.entries, *found.hidden):
        if entry.key == key:
            return entry
        for part in entry.members:
            if part.key == key:
                return part
    raise NotFound("item", key, suggestion="It was decided, or is over. See what waits: `deepwork inbox`.")


def _collect(
    view: StateView, groups: Sequence[Sequence[Source]], limit: int
) -> tuple[list[tuple[int, Attention]], int]:
    """Read the sources; return the entries with the places of their groups, and how many more there are."""
    found: dict[str, tuple[int, Attention]] = {}
    """By the command: the place of its group, and the entry."""
    beyond = 0
    for place, group in enumerate(groups):
        for source in group:
            listed, total = source(view, limit)
            beyond += total - len(listed)
            for each in listed:
                known = found.get(each.next or each.id)
                if known is None or (known[1].follows and not each.follows):
                    found[each.next or each.id] = place, each
    entries = [each for _, each in found.values()]
    causes = {each.run_id for each in entries if not each.follows and each.why is not Cause.FAILED_TASKS}
    return [one for one in found.values() if not one[1].follows or one[1].run_id not in causes], beyond


def list_stopped_work(
    tx: Transaction, processes: LocalProcesses
) -> tuple[list[Attention], dict[str, Standing]]:
    """List what stopped at a budget, and the open runs that nobody drives."""
    view = StateView(tx, processes)
    reached, _ = list_inbox(view, [list_day_budget, _from_rows(plans.list_reached_budgets)])
    return reached, {run.id: standing for run, standing in list_unattended_runs(view)}


def list_unattended_runs(view: StateView) -> list[tuple[Run, Standing]]:
    """List the open runs that nobody drives."""
    runs, _ = AgentRunStore(view.tx).list_page(is_open=True, limit=MAX_COUNTED)
    states = view.judge_runs(runs)
    return [(run, states[run.id]) for run in runs if states[run.id].state is State.UNATTENDED]


def _name_runs(tx: Transaction, entries: Sequence[Attention]) -> list[Attention]:
    names = WorkListStore(tx).find_names([each.run_id for each in entries if each.run_id])
    return [replace(each, run=_name_run(each.run_id, names)) if each.run_id else each for each in entries]


def _name_run(id: str, names: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    kind, name = names.get(id, (get_run_kind(id), id))
    return {"id": id, "kind": kind, "name": name}


def _from_rows(list_rows: Callable[[Transaction, int], Listed]) -> Source:
    """Make a source of a function that needs only the rows of its slice."""
    return lambda view, limit: list_rows(view.tx, limit)


# Job sessions


def list_held_steps(view: StateView, limit: int) -> Listed:
    """List the job sessions whose current step waits for a person or failed its review."""
    rows = WorkListStore(view.tx).list_active_sessions(MAX_ACTIVE_SESSIONS)
    found = [_describe_gate(gate) for gate in list_gates(view.tx, [parse_session_row(row) for row in rows])]
    return found[:limit], len(found)


def _describe_gate(gate: Gate) -> Attention:
    session, has_failed = gate.session, gate.has_failed
    at = gate.reviews[-1]["ts"] if gate.reviews else None
    tried = session.get_progress(session.step_id).get("quality_attempts") or 0
    reason = _join_feedback(event for event in gate.reviews if event["ts"] == at)
    how = "did not pass its review" if has_failed else f"was submitted {tried} times without a review"
    if session.person_reason:
        how = WAITING_WORDS.get(session.person_reason, how)
        reason = session.get_progress(session.step_id).get("gate_feedback") or reason
        has_failed = True
    task_id = f"{session.id}/{session.step_id}"
    return Attention(
        kind="gate",
        id=task_id,
        title=f"{session.step_id} {how}",
        why=Cause.REVIEW,
        next=Command.PASS_STEP.about(session.id),
        since=parse_timestamp(at, "ts") if at else session.updated_at,
        detail=format_detail(reason or f"Reviewed {tried} time(s)." if has_failed else ""),
        run_id=session.id,
        task_id=task_id,
        task_name=session.step_id,
        record=session,
    )


def _join_feedback(events: Iterable[Row]) -> str:
    """Join the feedback of the reviews of one attempt that failed."""
    failed = [event["data"] for event in events if event["type"] == "review:failed"]
    return "; ".join(data.get("feedback") or "" for data in failed)


# The budget of a day


def list_day_budget(view: StateView, _: int) -> Listed:
    """List that today's budget is used up, if it is and a plan waits for it."""
    tx, budget = view.tx, load_day_budget()
    day = name_day(tx.now)
    reached_at = BudgetService(tx).find_total(SubjectKind.DAY, day).reached_at if budget else None
    if budget is None or reached_at is None:
        return [], 0
    plan = WorkListStore(tx).list_ids(PLAN, ("ready", "in_progress"), 1)
    if not plan:
        return [], 0
    found = Attention(
        kind="budget",
        id=day,
        title="Today's budget is used up",
        why=Cause.BUDGET,
        next=Command.SPEND.value,
        since=reached_at,
        detail=f"All work of a day may cost {describe_budget(budget)}. Raise `budget.day` in your settings,"
        " or wait until midnight UTC.",
        run_id=plan[0],
    )
    return [found], 1


# Landings


def list_failed_landings(view: StateView, limit: int) -> Listed:
    """List landings that only a person can help on; those that wait for an approval are listed as that."""
    found, total = LandingStore(view.tx).list_newest(
        statuses=[LandingStatus.NEEDS_PERSON], is_open=True, limit=limit
    )
    states = view.judge_landings(found)
    return [_describe_landing(each, states[each.id]) for each in found], total


def _describe_landing(landing: Landing, standing: Standing) -> Attention:
    words = PROBLEM_WORDS[landing.problem] if landing.problem else "could not land"
    return Attention(
        kind="landing",
        id=landing.id,
        title=f"{landing.title} {words}",
        why=standing.cause or Cause.LANDING,
        next=standing.next,
        since=landing.updated_at,
        detail=format_detail(landing.reason),
        run_id=landing.workflow_id,
        task_id=landing.task_id,
        task_name=landing.title if landing.task_id else None,
    )


# Agents under a run


def list_parked_attempts(view: StateView, limit: int) -> Listed:
    """List the attempts of agents that wait for a person or for a budget, the oldest first."""
    found = """attempts LEFT JOIN plan_tasks AS task ON task.id = attempts.task_id
        WHERE ended_at IS NULL AND stage = 'parked' AND (wish IS NULL OR wish <> 'continue')
          AND parked_for IN ('person', 'trust', 'budget', 'paused', 'taken')"""
    order = "attempts.updated_at, attempts.id"
    rows, total = view.tx.list_first("attempts.id, task.name", found, order, limit)
    attempts = AttemptStore(view.tx).find_by_ids([row["id"] for row in rows]) if rows else {}
    states = view.judge_attempts(list(attempts.values()))
    return [_describe_parked(attempts[row["id"]], row["name"], states[row["id"]]) for row in rows], total


def _describe_parked(attempt: Attempt, task_name: str | None, standing: Standing) -> Attention:
    session_id, _, step = attempt.task_id.partition("/")
    name = task_name or step or attempt.task_id
    waits_for = "a budget" if attempt.parked_for is ParkedFor.BUDGET else "you"
    return Attention(
        kind="parked_attempt",
        id=attempt.id,
        title=f"The agent of {name} waits for {waits_for}",
        why=standing.cause or Cause.PERSON,
        next=standing.next,
        since=attempt.updated_at,
        detail=format_detail(attempt.reason),
        run_id=attempt.workflow_id or session_id,
        task_id=attempt.task_id,
        task_name=name,
        agent_name=attempt.profile,
        agent_id=attempt.agent_id,
        record=attempt,
    )


def list_stopped_runs(view: StateView, limit: int) -> Listed:
    """List the runs of agents that ended because a person is needed, the oldest first.

    Not if the work continues in a later run, or is over.
    """
    found = """runner_runs AS run
        LEFT JOIN plans ON plans.id = run.workflow_id
        LEFT JOIN job_sessions AS session ON session.id = run.session_id
        WHERE run.status = 'needs_person'
          AND (plans.status IN ('ready', 'in_progress', 'paused', 'failed') OR session.status = 'active')
          AND NOT EXISTS (SELECT 1 FROM runner_runs AS later
               WHERE (later.workflow_id = run.workflow_id OR later.session_id = run.session_id)
                 AND (later.ended_at IS NULL OR later.ended_at > run.ended_at))"""
    columns = "run.id, coalesce(plans.name, session.job_name || '/' || session.workflow_name) AS name"
    rows, total = view.tx.list_first(columns, found, "run.ended_at, run.id", limit)
    names = {row["id"]: row["name"] for row in rows}
    runs = {run.id: run for run in AgentRunStore(view.tx).find_by_ids(names)} if names else {}
    states = view.judge_runs(list(runs.values()))
    return [_describe_stopped(runs[id], name, states[id]) for id, name in names.items()], total


def _describe_stopped(run: Run, name: str, standing: Standing) -> Attention:
    return Attention(
        kind="agent_run",
        id=run.id,
        title=f"Agents stopped working on {name}",
        why=standing.cause or Cause.PERSON,
        next=standing.next,
        since=run.ended_at or run.updated_at,
        detail=format_detail(f"It stopped: {run.reason}" if run.reason else ""),
        run_id=run.workflow_id or run.session_id,
        follows=standing.cause is Cause.PERSON,
    )


STOPPING: tuple[Source, ...] = (
    _from_rows(tracking.list_blockers),
    _from_rows(list_pending_approvals),
    list_held_steps,
    _from_rows(list_waiting_reviews),
    list_day_budget,
    _from_rows(plans.list_reached_budgets),
    list_stopped_runs,
    list_parked_attempts,
    _from_rows(plans.list_failed_tasks),
    _from_rows(plans.list_lost_claims),
    _from_rows(plans.list_paused_plans),
)
"""What agents wait for. Where two sources know of one thing, the first of them describes it."""
LEFT: tuple[Source, ...] = (
    list_failed_landings,
    _from_rows(tracking.list_reviews),
    _from_rows(tracking.list_failed_tasks),
    _from_rows(tracking.list_silent_tasks),
)
"""What has ended, and is left to a person."""
SOURCES = (STOPPING, LEFT)
"""To add a source, write its function and name it in one of these."""
