"""REST endpoint for the home page: what needs a person, running runs, recently ended runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from deepwork.delivery.landing.responses import offer_to_continue
from deepwork.kernel.events.log import EventStore
from deepwork.kernel.offered_actions import Act
from deepwork.views.dashboard import offered_actions
from deepwork.views.dashboard.endpoints import Endpoint, NoParameters, ReadContext, RestAnswer
from deepwork.views.overview.needs import count_runs, list_needs
from deepwork.views.overview.run_lines import list_latest_runs
from deepwork.views.overview.run_store import (
    ACTIVE_STATUSES,
    ENDED_STATUSES,
    PLAN,
    WorkListStore,
    get_run_kind,
)
from deepwork.views.overview.work_operations import RunLine, describe_runs
from deepwork.work.tracking.list_responses import RunRef
from deepwork.work.tracking.operations import offer_resolve

MAX_RUNS = 20


class TaskRef(RestAnswer):
    id: str
    name: str


class Need(RestAnswer):
    """Something that waits for a person, since when, and what to do about it."""

    kind: Literal[
        "blocker",
        "approval",
        "manual_review",
        "failed_task",
        "stale_task",
        "gate",
        "review",
        "lost_claim",
        "waiting_plan",
        "budget",
        "parked_attempt",
        "agent_run",
        "landing",
    ]
    id: str
    title: str
    detail: str
    run: RunRef | None = None
    """None for a review of a `.deepreview` rule, which belongs to no run."""
    task: TaskRef | None = None
    agent_name: str | None = None
    since: str
    next: str | None = None
    """The command that answers it."""
    actions: list[Act]


class WorkCounts(RestAnswer):
    running: int
    blocked: int
    blockers: int
    completed: int
    failed: int
    total: int
    open: int
    """Runs that have not ended."""
    states: dict[str, int]
    """Runs that have not ended, by state; at most 500 of each kind."""
    tasks: dict[str, int]
    """Tasks of these plans, by state."""


class Home(RestAnswer):
    needs_you: list[Need]
    needs_you_total: int
    running: list[RunLine]
    recent: list[RunLine]
    counts: WorkCounts
    last_seq: int


def read_home(context: ReadContext, _: NoParameters) -> Home:
    """Read everything that the home page shows."""
    tx, store = context.tx, WorkListStore(context.tx)
    needs, total = list_needs(context.states)
    running, recent = (
        list_latest_runs(store, words, MAX_RUNS) for words in (ACTIVE_STATUSES, ENDED_STATUSES)
    )
    lines = {line.id: line for line in describe_runs(context.states, [*running, *recent])}
    return Home(
        needs_you=[_build_need(need) for need in needs],
        needs_you_total=total,
        running=[lines[row["id"]] for row in running],
        recent=[lines[row["id"]] for row in recent],
        counts=WorkCounts(**count_runs(context.states)),
        last_seq=EventStore(tx).get_last_seq(),
    )


def _build_need(need: Mapping[str, Any]) -> Need:
    fields = {name: value for name, value in need.items() if name not in ("agent_id", "session")}
    return Need(**fields, actions=_list_actions(need))


def _list_actions(need: Mapping[str, Any]) -> list[Act]:
    """List what a person can do about it."""
    id, kind, run_id = need["id"], need["kind"], need["run"]["id"] if need["run"] else ""
    if kind == "waiting_plan":
        return offered_actions.list_plan_actions(id, "paused")
    if kind == "failed_task" and get_run_kind(run_id) == PLAN:
        return offered_actions.list_planned_task_actions(id, "failed", None)
    if kind == "lost_claim":
        return [offered_actions.offer_release(id, need["agent_id"])]
    if kind in _OFFERED_FOR:
        return _OFFERED_FOR[kind](need)
    if kind in _OFFERED_LISTS:
        return _OFFERED_LISTS[kind](id)
    return [_OFFERS[kind](id)] if kind in _OFFERS else []


_OFFERED_FOR: Mapping[str, Callable[[Mapping[str, Any]], list[Act]]] = {
    "gate": lambda need: offered_actions.list_session_actions(need["session"]),
    "landing": lambda need: offer_to_continue(need["id"], (need["task"] or {}).get("id")),
}
_OFFERED_LISTS = {
    "approval": offered_actions.list_approval_actions,
    "manual_review": offered_actions.list_review_actions,
}
_OFFERS = {
    "blocker": offer_resolve,
    "failed_task": offered_actions.offer_acknowledge,
    "stale_task": offered_actions.offer_abandon,
}


ENDPOINTS = (
    Endpoint(
        "/api/v1/home", "What needs you, what is running, what ended recently.", NoParameters, Home, read_home
    ),
)
