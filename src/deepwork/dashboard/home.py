"""REST endpoint for the home page: what needs a person, running runs, recently ended runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from deepwork.dashboard import offered_actions
from deepwork.dashboard.endpoints import Endpoint, NoParameters, ReadContext, RestAnswer
from deepwork.dashboard.offered_actions import Act
from deepwork.dashboard.run_details import MAX_ACTIVE_SESSIONS, MAX_REVIEWS
from deepwork.dashboard.runs import RunLine, RunRef, build_run_lines, find_run_refs, list_merged_page
from deepwork.dashboard.sessions import SessionRow, group_attempts, parse_session_row
from deepwork.database.engine import Row
from deepwork.database.transaction import Transaction
from deepwork.events.log import EventStore
from deepwork.overview.attention_store import AttentionStore
from deepwork.overview.run_event_store import RunEventStore
from deepwork.overview.run_store import ACTIVE_STATUSES, ENDED_STATUSES, KINDS, RunFilter, RunOrder, RunStore
from deepwork.plans.responses import truncate_to_line
from deepwork.timestamps import format_timestamp
from deepwork.tracking.context import STALE_MS

MAX_RUNS = 20
MAX_NEEDS = 100
REVIEW_PERIOD_MS = 7 * 24 * 3600 * 1000
"""Tasks that ended longer ago no longer ask for a review."""
_MAX_DETAIL = 500


class TaskRef(RestAnswer):
    id: str
    name: str


class Need(RestAnswer):
    """Something that waits for a person, since when, and what to do about it."""

    kind: Literal[
        "blocker", "manual_review", "failed_task", "stale_task", "gate", "lost_claim", "waiting_plan"
    ]
    id: str
    title: str
    detail: str
    run: RunRef
    task: TaskRef | None = None
    agent_name: str | None = None
    since: str
    actions: list[Act]


class Counts(RestAnswer):
    running: int
    blocked: int
    completed: int
    failed: int
    total: int


class Home(RestAnswer):
    needs_you: list[Need]
    needs_you_total: int
    running: list[RunLine]
    recent: list[RunLine]
    counts: Counts
    last_seq: int


def read_home(context: ReadContext, _: NoParameters) -> Home:
    """Read everything that the home page shows."""
    tx, store = context.tx, RunStore(context.tx)
    needs, total = list_needs(tx)
    running, recent = (
        list_merged_page(store, {kind: RunFilter(words[kind]) for kind in KINDS}, RunOrder(), None, MAX_RUNS)[
            0
        ]
        for words in (ACTIVE_STATUSES, ENDED_STATUSES)
    )
    lines = {line.id: line for line in build_run_lines(tx, [*running, *recent])}
    return Home(
        needs_you=needs,
        needs_you_total=total,
        running=[lines[row["id"]] for row in running],
        recent=[lines[row["id"]] for row in recent],
        counts=count_runs(store),
        last_seq=EventStore(tx).get_last_seq(),
    )


def count_runs(store: RunStore) -> Counts:
    """Count runs by state; each run counts once."""
    by_kind = {kind: store.count_by_status(kind) for kind in KINDS}
    blocked = store.count_blocked()
    active = sum(by_kind[kind].get(word, 0) for kind in KINDS for word in ACTIVE_STATUSES[kind])
    completed = sum(by_kind[kind].get("completed", 0) for kind in KINDS)
    total = sum(sum(each.values()) for each in by_kind.values())
    return Counts(
        running=active - blocked,
        blocked=blocked,
        completed=completed,
        failed=total - active - completed,
        total=total,
    )


def list_needs(tx: Transaction) -> tuple[list[Need], int]:
    """List what needs a person, most urgent kind first and newest first within a kind; and the total."""
    store = AttentionStore(tx)
    blockers, blockers_total = store.list_blockers(MAX_NEEDS)
    reviews, reviews_total = store.list_reviews(tx.now - REVIEW_PERIOD_MS, MAX_NEEDS)
    failed, failed_total = store.list_failed_tracked(MAX_NEEDS)
    planned, planned_total = store.list_failed_planned(MAX_NEEDS)
    stale, stale_total = store.list_stale(tx.now - STALE_MS, MAX_NEEDS)
    lost, lost_total = store.list_lost_claims(MAX_NEEDS)
    paused, paused_total = store.list_paused_plans(MAX_NEEDS)
    gates = list(_list_gate_needs(tx))
    # A failed task that also asks for a review is listed once.
    to_review = {row["id"] for row in reviews}
    twice = sum(row["id"] in to_review for row in failed)
    runs = find_run_refs(
        tx, [row["workflow_id"] for row in [*blockers, *reviews, *failed, *planned, *stale, *lost]]
    )
    found = [
        *(_build_blocker_need(row, runs) for row in blockers),
        *gates,
        *(_build_review_need(row, runs) for row in reviews),
        *(_build_failed_tracked_need(row, runs) for row in failed if row["id"] not in to_review),
        *(_build_failed_planned_need(row, runs) for row in planned),
        *(_build_lost_claim_need(row, runs) for row in lost),
        *(_build_stale_need(row, runs) for row in stale),
        *(_build_paused_plan_need(row) for row in paused),
    ]
    total = (
        blockers_total
        + len(gates)
        + reviews_total
        + failed_total
        - twice
        + planned_total
        + lost_total
        + stale_total
        + paused_total
    )
    return found[:MAX_NEEDS], total


def _build_blocker_need(row: Row, runs: dict[str, RunRef]) -> Need:
    return Need(
        kind="blocker",
        title=_format_detail(row["description"]),
        detail=_format_detail(f"Tried: {row['resolution']}"),
        since=format_timestamp(row["created_at"]),
        agent_name=row["agent_name"],
        actions=[offered_actions.offer_resolve(row["id"])],
        **_build_common_fields(row, runs, task_id=row["task_id"], task_name=row["task_name"]),
    )


def _build_review_need(row: Row, runs: dict[str, RunRef]) -> Need:
    outcome = json.loads(row["outcome"])
    reason = outcome.get("manual_review_reason") or outcome.get("summary") or ""
    return Need(
        kind="manual_review",
        title=f"Review {row['name']}",
        detail=_format_detail(reason),
        since=format_timestamp(row["completed_at"]),
        agent_name=row["agent_name"],
        actions=[offered_actions.offer_approve(row["id"])],
        **_build_common_fields(row, runs),
    )


def _build_failed_tracked_need(row: Row, runs: dict[str, RunRef]) -> Need:
    how = "failed" if row["status"] == "failed" else "was only partly done"
    return Need(
        kind="failed_task",
        title=f"{row['name']} {how}",
        detail=_format_detail(json.loads(row["outcome"]).get("summary") or ""),
        since=format_timestamp(row["completed_at"]),
        agent_name=row["agent_name"],
        actions=[offered_actions.offer_acknowledge(row["id"])],
        **_build_common_fields(row, runs),
    )


def _build_failed_planned_need(row: Row, runs: dict[str, RunRef]) -> Need:
    return Need(
        kind="failed_task",
        title=f"{row['name']} failed",
        detail=_format_detail(row["error"] or ""),
        since=format_timestamp(row["updated_at"]),
        actions=offered_actions.list_planned_task_actions(row["id"], "failed", None),
        **_build_common_fields(row, runs),
    )


def _build_stale_need(row: Row, runs: dict[str, RunRef]) -> Need:
    return Need(
        kind="stale_task",
        title=f"{row['name']} is silent",
        detail="No sign of life since then.",
        since=format_timestamp(row["last_sign_at"]),
        agent_name=row["agent_name"],
        actions=[offered_actions.offer_abandon(row["id"])],
        **_build_common_fields(row, runs),
    )


def _build_lost_claim_need(row: Row, runs: dict[str, RunRef]) -> Need:
    return Need(
        kind="lost_claim",
        title=f"{row['agent_name']} left {row['name']}",
        detail="The claim expired; any agent can claim the task now.",
        since=format_timestamp(row["until"] or row["last_heartbeat"]),
        agent_name=row["agent_name"],
        actions=[offered_actions.offer_release(row["id"], row["who"])],
        **_build_common_fields(row, runs),
    )


def _build_paused_plan_need(row: Row) -> Need:
    return Need(
        kind="waiting_plan",
        id=row["id"],
        title=f"{row['name']} is paused",
        detail=_format_detail(row["reason"] or ""),
        run=RunRef(id=row["id"], kind="plan", name=row["name"]),
        since=format_timestamp(row["updated_at"]),
        actions=offered_actions.list_plan_actions(row["id"], "paused"),
    )


def _list_gate_needs(tx: Transaction) -> Iterator[Need]:
    """List the job sessions whose current step failed its review."""
    active = [parse_session_row(row) for row in RunStore(tx).list_active_sessions(MAX_ACTIVE_SESSIONS)]
    held = [session for session in active if session.get_step_status(session.step_id) == "needs_work"]
    reviews = RunEventStore(tx).list_reviews([session.id for session in held], MAX_REVIEWS) if held else []
    for session in held:
        yield _build_gate_need(session, [event for event in reviews if event["workflow_id"] == session.id])


def _build_gate_need(session: SessionRow, reviews: Sequence[Row]) -> Need:
    attempts = group_attempts(reviews).get(session.step_id, [])
    tried = session.get_progress(session.step_id).get("quality_attempts") or 0
    reason = attempts[-1].feedback if attempts else None
    task_id = f"{session.id}/{session.step_id}"
    return Need(
        kind="gate",
        id=task_id,
        title=f"{session.step_id} did not pass its review",
        detail=_format_detail(reason or f"Reviewed {tried} time(s)."),
        run=RunRef(id=session.id, kind="job", name=session.name),
        task=TaskRef(id=task_id, name=session.step_id),
        since=attempts[-1].at if attempts else format_timestamp(session.updated_at),
        actions=[offered_actions.offer_abort(session.id)],
    )


def _build_common_fields(
    row: Row, runs: dict[str, RunRef], task_id: str | None = None, task_name: str | None = None
) -> dict[str, Any]:
    run_id = row["workflow_id"]
    return {
        "id": row["id"],
        "run": runs.get(run_id) or RunRef(id=run_id, kind="job", name=run_id),
        "task": TaskRef(id=task_id or row["id"], name=task_name or row["name"]),
    }


def _format_detail(text: str) -> str:
    return truncate_to_line(text, _MAX_DETAIL) or ""


ENDPOINTS = (
    Endpoint(
        "/api/v1/home", "What needs you, what is running, what ended recently.", NoParameters, Home, read_home
    ),
)
