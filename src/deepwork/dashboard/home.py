"""The first thing to see: what waits for a person, what runs, what was done lately."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from deepwork.dashboard import action_shapes as acts
from deepwork.dashboard.action_shapes import Act
from deepwork.dashboard.endpoints import Endpoint, Nothing, Sight
from deepwork.dashboard.log_store import LogStore
from deepwork.dashboard.moments import told
from deepwork.dashboard.need_store import NeedStore
from deepwork.dashboard.run_details import ACTIVE_SESSIONS, REVIEWS
from deepwork.dashboard.run_store import KINDS, OVER, UNDER_WAY, RunFilter, RunOrder, RunStore
from deepwork.dashboard.runs import RunLine, RunRef, lines, merged, refs
from deepwork.dashboard.sessions import SessionRow, attempts_of, session_row
from deepwork.database.engine import Row
from deepwork.database.transaction import Transaction
from deepwork.events.log import EventStore
from deepwork.plans.responses import one_line
from deepwork.shapes import Answer
from deepwork.tracking.context import STALE_MS

RUNS_SHOWN = 20
NEEDS_SHOWN = 100
REVIEW_MS = 7 * 24 * 3600 * 1000
"""How long a task that is done waits to be looked at before it is history."""
_DETAIL = 500


class TaskRef(Answer):
    id: str
    name: str


class Need(Answer):
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


class Counts(Answer):
    running: int
    blocked: int
    completed: int
    failed: int
    total: int


class Home(Answer):
    needs_you: list[Need]
    needs_you_total: int
    running: list[RunLine]
    recent: list[RunLine]
    counts: Counts
    last_seq: int


def home(sight: Sight, _: Nothing) -> Home:
    """What waits, what runs, what was done."""
    tx, store = sight.tx, RunStore(sight.tx)
    needs, total = needs_you(tx)
    running, recent = (
        merged(store, {kind: RunFilter(words[kind]) for kind in KINDS}, RunOrder(), None, RUNS_SHOWN)[0]
        for words in (UNDER_WAY, OVER)
    )
    shown = {line.id: line for line in lines(tx, [*running, *recent])}
    return Home(
        needs_you=needs, needs_you_total=total,
        running=[shown[row["id"]] for row in running], recent=[shown[row["id"]] for row in recent],
        counts=counts(store), last_seq=EventStore(tx).last(),
    )  # fmt: skip


def counts(store: RunStore) -> Counts:
    """How many runs there are; each is counted once."""
    by_kind = {kind: store.by_status(kind) for kind in KINDS}
    blocked = store.blocked_count()
    under_way = sum(by_kind[kind].get(word, 0) for kind in KINDS for word in UNDER_WAY[kind])
    completed = sum(by_kind[kind].get("completed", 0) for kind in KINDS)
    total = sum(sum(each.values()) for each in by_kind.values())
    return Counts(
        running=under_way - blocked, blocked=blocked, completed=completed,
        failed=total - under_way - completed, total=total,
    )  # fmt: skip


def needs_you(tx: Transaction) -> tuple[list[Need], int]:
    """What waits for a person, the most pressing kind first, in each the newest; and how many in all."""
    store = NeedStore(tx)
    blockers, blockers_total = store.blockers(NEEDS_SHOWN)
    reviews, reviews_total = store.reviews(tx.now - REVIEW_MS, NEEDS_SHOWN)
    failed, failed_total = store.failed_tracked(NEEDS_SHOWN)
    planned, planned_total = store.failed_planned(NEEDS_SHOWN)
    stale, stale_total = store.stale(tx.now - STALE_MS, NEEDS_SHOWN)
    lost, lost_total = store.lost_claims(NEEDS_SHOWN)
    paused, paused_total = store.paused_plans(NEEDS_SHOWN)
    gates = list(_gates(tx))
    # A task that says itself that it wants a look is told once.
    to_review = {row["id"] for row in reviews}
    twice = sum(row["id"] in to_review for row in failed)
    runs = refs(tx, [row["workflow_id"] for row in [*blockers, *reviews, *failed, *planned, *stale, *lost]])
    found = [
        *(_blocker(row, runs) for row in blockers),
        *gates,
        *(_review(row, runs) for row in reviews),
        *(_failed(row, runs) for row in failed if row["id"] not in to_review),
        *(_failed_planned(row, runs) for row in planned),
        *(_lost(row, runs) for row in lost),
        *(_stale(row, runs) for row in stale),
        *(_paused(row) for row in paused),
    ]
    total = (
        blockers_total + len(gates) + reviews_total + failed_total - twice + planned_total + lost_total
        + stale_total + paused_total
    )  # fmt: skip
    return found[:NEEDS_SHOWN], total


def _blocker(row: Row, runs: dict[str, RunRef]) -> Need:
    return Need(
        kind="blocker", title=_line(row["description"]), detail=_line(f"Tried: {row['resolution']}"),
        since=told(row["created_at"]), agent_name=row["agent_name"], actions=[acts.resolve(row["id"])],
        **_about(row, runs, task_id=row["task_id"], task_name=row["task_name"]),
    )  # fmt: skip


def _review(row: Row, runs: dict[str, RunRef]) -> Need:
    outcome = json.loads(row["outcome"])
    said = outcome.get("manual_review_reason") or outcome.get("summary") or ""
    return Need(
        kind="manual_review", title=f"Review {row['name']}", detail=_line(said),
        since=told(row["completed_at"]), agent_name=row["agent_name"], actions=[acts.approve(row["id"])],
        **_about(row, runs),
    )  # fmt: skip


def _failed(row: Row, runs: dict[str, RunRef]) -> Need:
    how = "failed" if row["status"] == "failed" else "was done in part"
    return Need(
        kind="failed_task", title=f"{row['name']} {how}",
        detail=_line(json.loads(row["outcome"]).get("summary") or ""),
        since=told(row["completed_at"]), agent_name=row["agent_name"],
        actions=[acts.acknowledge(row["id"])], **_about(row, runs),
    )  # fmt: skip


def _failed_planned(row: Row, runs: dict[str, RunRef]) -> Need:
    return Need(
        kind="failed_task", title=f"{row['name']} failed", detail=_line(row["error"] or ""),
        since=told(row["updated_at"]), actions=acts.of_planned_task(row["id"], "failed", None),
        **_about(row, runs),
    )  # fmt: skip


def _stale(row: Row, runs: dict[str, RunRef]) -> Need:
    return Need(
        kind="stale_task", title=f"{row['name']} is silent", detail="Nobody has spoken of it since.",
        since=told(row["last_sign_at"]), agent_name=row["agent_name"], actions=[acts.abandon(row["id"])],
        **_about(row, runs),
    )  # fmt: skip


def _lost(row: Row, runs: dict[str, RunRef]) -> Need:
    return Need(
        kind="lost_claim", title=f"{row['agent_name']} left {row['name']}",
        detail="Its claim ran out; whoever asks next may take it.",
        since=told(row["until"] or row["last_heartbeat"]), agent_name=row["agent_name"],
        actions=[acts.release(row["id"], row["who"])], **_about(row, runs),
    )  # fmt: skip


def _paused(row: Row) -> Need:
    return Need(
        kind="waiting_plan", id=row["id"], title=f"{row['name']} is paused",
        detail=_line(row["reason"] or ""),
        run=RunRef(id=row["id"], kind="plan", name=row["name"]), since=told(row["updated_at"]),
        actions=acts.of_plan(row["id"], "paused"),
    )  # fmt: skip


def _gates(tx: Transaction) -> Iterator[Need]:
    """Job sessions whose current step was sent back by its review."""
    active = [session_row(row) for row in RunStore(tx).active_sessions(ACTIVE_SESSIONS)]
    held = [session for session in active if session.status_of(session.step_id) == "needs_work"]
    reviews = LogStore(tx).reviews([session.id for session in held], REVIEWS) if held else []
    for session in held:
        yield _gate(session, [event for event in reviews if event["workflow_id"] == session.id])


def _gate(session: SessionRow, reviews: Sequence[Row]) -> Need:
    attempts = attempts_of(reviews).get(session.step_id, [])
    tried = session.progress(session.step_id).get("quality_attempts") or 0
    said = attempts[-1].feedback if attempts else None
    task_id = f"{session.id}/{session.step_id}"
    return Need(
        kind="gate", id=task_id, title=f"{session.step_id} did not pass its review",
        detail=_line(said or f"Reviewed {tried} time(s)."),
        run=RunRef(id=session.id, kind="job", name=session.name),
        task=TaskRef(id=task_id, name=session.step_id),
        since=attempts[-1].at if attempts else told(session.updated_at), actions=[acts.abort(session.id)],
    )  # fmt: skip


def _about(
    row: Row, runs: dict[str, RunRef], task_id: str | None = None, task_name: str | None = None
) -> dict[str, Any]:
    run_id = row["workflow_id"]
    return {
        "id": row["id"], "run": runs.get(run_id) or RunRef(id=run_id, kind="job", name=run_id),
        "task": TaskRef(id=task_id or row["id"], name=task_name or row["name"]),
    }  # fmt: skip


def _line(text: str) -> str:
    return one_line(text, _DETAIL) or ""


ENDPOINTS = (Endpoint("/api/v1/home", "What waits for you, what runs, what was done.", Nothing, Home, home),)
