"""What waits for a person, and how many runs there are, as plain values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from deepwork.gates.approvals.rules import find_name
from deepwork.gates.budgets.models import SubjectKind
from deepwork.gates.budgets.rules import describe_budget
from deepwork.gates.budgets.service import BudgetService, load_day_budget, name_day
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.text_budget.lines import truncate_to_line
from deepwork.kernel.timestamps import format_timestamp
from deepwork.views.overview.agent_needs import list_agent_needs
from deepwork.views.overview.attention_store import AttentionStore
from deepwork.views.overview.gates import list_gates
from deepwork.views.overview.landing_needs import list_landing_needs
from deepwork.views.overview.run_store import ACTIVE_STATUSES, KINDS, WorkListStore, parse_session_row
from deepwork.views.overview.session_rows import MAX_ACTIVE_SESSIONS, SessionRow
from deepwork.views.overview.states.models import Command, State
from deepwork.views.overview.states.totals import count_by_kind
from deepwork.views.overview.states.view import StateView
from deepwork.work.plans.models import parse_plan_requirements, parse_task_requirements
from deepwork.work.tracking.staleness import STALE_MS

MAX_NEEDS = 100
REVIEW_PERIOD_MS = 7 * 24 * 3600 * 1000
"""Tasks that ended longer ago no longer ask for a review."""
_MAX_DETAIL = 500

Need = dict[str, Any]
"""Something that waits for a person: kind, id, title, detail, run, task, agent_name, since, next.

A lost claim also has the `agent_id` of its former holder, and a gate its `session`. A review of a
`.deepreview` rule has no run.
"""
Runs = Mapping[str, Mapping[str, str]]
"""Id, kind and name of runs, by id."""


def count_runs(view: StateView) -> dict[str, Any]:
    """Count runs by stored status, open ones and their tasks by state, and open blockers."""
    store = WorkListStore(view.tx)
    by_kind = {kind: store.count_by_status(kind) for kind in KINDS}
    blocked = store.count_blocked()
    active = sum(by_kind[kind].get(word, 0) for kind in KINDS for word in ACTIVE_STATUSES[kind])
    completed = sum(by_kind[kind].get("completed", 0) for kind in KINDS)
    total = sum(sum(each.values()) for each in by_kind.values())
    kinds = count_by_kind(view)
    states = sum((Counter(kinds[kind]) for kind in KINDS), Counter[str]())
    return {
        "running": states["running"],
        "blocked": blocked,
        "blockers": store.count_open_blockers(),
        "completed": completed,
        "failed": total - active - completed,
        "total": total,
        "open": active,
        "states": {state.value: states[state] for state in State},
        "tasks": kinds["task"],
    }


def list_stopped_work(tx: Transaction) -> list[Need]:
    """List what stopped at a budget."""
    found, _ = _list_budget_needs(tx)
    return found


def list_needs(view: StateView) -> tuple[list[Need], int]:
    """List what needs a person, most urgent kind first and newest first within a kind; and the total."""
    tx = view.tx
    store = AttentionStore(tx)
    blockers, blockers_total = store.list_blockers(MAX_NEEDS)
    approvals, approvals_total = store.list_approvals(MAX_NEEDS)
    since = tx.now - REVIEW_PERIOD_MS
    reviews, reviews_total = store.list_reviews(since, MAX_NEEDS)
    failed, failed_total = store.list_failed_tracked(MAX_NEEDS)
    planned, planned_total = store.list_failed_planned(MAX_NEEDS)
    stale, stale_total = store.list_stale(tx.now - STALE_MS, MAX_NEEDS)
    lost, lost_total = store.list_lost_claims(MAX_NEEDS)
    paused, paused_total = store.list_paused_plans(MAX_NEEDS)
    reached, reached_total = _list_budget_needs(tx)
    of_agents, of_agents_total = list_agent_needs(view, MAX_NEEDS)
    landings, landings_total = list_landing_needs(view, MAX_NEEDS)
    gates = [*_list_gate_needs(tx), *_list_rule_needs(store.list_failed_rounds(since, MAX_NEEDS))]
    # A failed task that also asks for a review is listed once.
    to_review = {row["id"] for row in reviews}
    twice = sum(row["id"] in to_review for row in failed)
    rows = [*blockers, *approvals, *reviews, *failed, *planned, *stale, *lost]
    about = [row["workflow_id"] for row in rows if row["workflow_id"]]  # an approval may belong to no run
    runs = {id: _build_run(id, *found) for id, found in WorkListStore(tx).find_names(about).items()}
    found = [
        *(_build_blocker_need(row, runs) for row in blockers),
        *(_build_approval_need(row, runs) for row in approvals),
        *gates,
        *reached,
        *landings,
        *of_agents,
        *(_build_review_need(row, runs) for row in reviews),
        *(_build_failed_tracked_need(row, runs) for row in failed if row["id"] not in to_review),
        *(_build_failed_planned_need(row, runs) for row in planned),
        *(_build_lost_claim_need(row, runs) for row in lost),
        *(_build_stale_need(row, runs) for row in stale),
        *(_build_paused_plan_need(row) for row in paused),
    ]
    total = (
        blockers_total
        + approvals_total
        + len(gates)
        + reviews_total
        + failed_total
        - twice
        + planned_total
        + lost_total
        + stale_total
        + paused_total
        + reached_total
        + of_agents_total
        + landings_total
    )
    return found[:MAX_NEEDS], total


def _build_blocker_need(row: Row, runs: Runs) -> Need:
    return _build_need(
        kind="blocker",
        next=Command.ANSWER.about(row["id"]),
        title=_format_detail(row["description"]),
        detail=_format_detail(f"Tried: {row['resolution']}"),
        since=format_timestamp(row["created_at"]),
        agent_name=row["agent_name"],
        **_build_common_fields(row, runs, task_id=row["task_id"], task_name=row["task_name"]),
    )


def _build_approval_need(row: Row, runs: Runs) -> Need:
    shown = json.loads(row["shown"])
    name = find_name(shown) or row["subject_id"]
    run_id = row["workflow_id"] or row["subject_id"]
    is_task = row["subject_kind"] != "plan"
    return _build_need(
        kind="approval",
        next=Command.APPROVE.about(row["id"]),
        id=row["id"],
        title=f"Approve {_APPROVAL_WORDS.get(row['subject_kind'], '')}{name}",
        detail=_format_detail(
            str(shown.get("outcome") or shown.get("description") or shown.get("summary") or "")
        ),
        since=format_timestamp(row["asked_at"]),
        run=runs.get(run_id) or _build_run(run_id, "job", run_id),
        task={"id": row["subject_id"], "name": name} if is_task else None,
    )


_APPROVAL_WORDS = {
    "plan": "the plan ",
    "task_before": "before it begins: ",
    "task": "the work on ",
    "step": "step ",
    "guarded": "changes to guarded files: ",
    "budget": "the budget of ",
    "landing": "the landing of ",
    "act": "what you want to do: ",
}


def _build_review_need(row: Row, runs: Runs) -> Need:
    outcome = json.loads(row["outcome"])
    reason = outcome.get("manual_review_reason") or outcome.get("summary") or ""
    return _build_need(
        kind="manual_review",
        next=Command.ANSWER.about(row["id"]),
        title=f"Review {row['name']}",
        detail=_format_detail(reason),
        since=format_timestamp(row["completed_at"]),
        agent_name=row["agent_name"],
        **_build_common_fields(row, runs),
    )


def _build_failed_tracked_need(row: Row, runs: Runs) -> Need:
    how = "failed" if row["status"] == "failed" else "was only partly done"
    return _build_need(
        kind="failed_task",
        next=Command.ANSWER.about(row["id"]),
        title=f"{row['name']} {how}",
        detail=_format_detail(json.loads(row["outcome"]).get("summary") or ""),
        since=format_timestamp(row["completed_at"]),
        agent_name=row["agent_name"],
        **_build_common_fields(row, runs),
    )


def _build_failed_planned_need(row: Row, runs: Runs) -> Need:
    return _build_need(
        kind="failed_task",
        next=Command.RETRY.about(row["id"]),
        title=f"{row['name']} {_describe_failures(row)}",
        detail=_format_detail(row["error"] or ""),
        since=format_timestamp(row["updated_at"]),
        **_build_common_fields(row, runs),
    )


def _describe_failures(row: Row) -> str:
    """Describe a failed task: whether agents try it again by themselves, or it waits for a person."""
    if not row["waits_for_person"]:
        return "failed"
    times = "once" if row["failures"] == 1 else f"{row['failures']} times"
    return f"failed {times} and waits for you"


def _build_stale_need(row: Row, runs: Runs) -> Need:
    return _build_need(
        kind="stale_task",
        next=Command.ABANDON.about(row["id"]),
        title=f"{row['name']} is silent",
        detail="No sign of life since then.",
        since=format_timestamp(row["last_sign_at"]),
        agent_name=row["agent_name"],
        **_build_common_fields(row, runs),
    )


def _build_lost_claim_need(row: Row, runs: Runs) -> Need:
    return _build_need(
        kind="lost_claim",
        next=Command.RUN.about(row["workflow_id"]),
        title=f"{row['agent_name']} left {row['name']}",
        detail="The claim expired; any agent can claim the task now.",
        since=format_timestamp(row["until"] or row["last_heartbeat"]),
        agent_name=row["agent_name"],
        agent_id=row["who"],
        **_build_common_fields(row, runs),
    )


def _build_paused_plan_need(row: Row) -> Need:
    return _build_need(
        kind="waiting_plan",
        next=Command.RESUME_PLAN.about(row["id"]),
        id=row["id"],
        title=f"{row['name']} is paused",
        detail=_format_detail(row["reason"] or ""),
        run=_build_run(row["id"], "plan", row["name"]),
        since=format_timestamp(row["updated_at"]),
    )


def _list_budget_needs(tx: Transaction) -> tuple[list[Need], int]:
    """List the budgets that are used up, that of today first, and how many there are."""
    rows, total = AttentionStore(tx).list_reached_budgets(MAX_NEEDS)
    of_day = _find_day_need(tx)
    return [*of_day, *(_build_budget_need(row) for row in rows)], total + len(of_day)


def _find_day_need(tx: Transaction) -> list[Need]:
    """Return that today's budget is used up, if it is and a plan waits for it."""
    budget = load_day_budget()
    day = name_day(tx.now)
    reached_at = BudgetService(tx).find_total(SubjectKind.DAY, day).reached_at if budget else None
    plan = AttentionStore(tx).find_active_plan() if reached_at is not None else None
    if budget is None or reached_at is None or plan is None:
        return []
    found = _build_need(
        kind="budget",
        next=Command.SPEND.value,
        id=day,
        title="Today's budget is used up",
        detail=f"All work of a day may cost {describe_budget(budget)}. Raise `budget.day` in your settings,"
        " or wait until midnight UTC.",
        run=_build_run(plan["id"], "plan", plan["name"]),
        since=format_timestamp(reached_at),
    )
    return [found]


def _build_budget_need(row: Row) -> Need:
    task = {"id": row["task_id"], "name": row["name"]} if row["task_id"] else None
    allowed = (
        parse_task_requirements(row["task_requirements"])
        if task
        else parse_plan_requirements(row["requirements"])
    )
    limit = describe_budget(allowed.budget) if allowed and allowed.budget else ""
    return _build_need(
        kind="budget",
        next=Command.SET_BUDGET.about(row["id"]),
        id=row["id"],
        title=f"{row['name']} used up its budget",
        detail=f"It may cost {limit}. Raise that, or end it." if limit else "",
        run=_build_run(row["workflow_id"], "plan", row["workflow_name"]),
        task=task,
        since=format_timestamp(row["reached_at"]),
    )


def _list_gate_needs(tx: Transaction) -> Iterator[Need]:
    """List the job sessions whose current step waits for a person or failed its review."""
    active = [parse_session_row(row) for row in WorkListStore(tx).list_active_sessions(MAX_ACTIVE_SESSIONS)]
    return (
        _build_gate_need(gate.session, gate.reviews, has_failed=gate.has_failed)
        for gate in list_gates(tx, active)
    )


def _build_gate_need(session: SessionRow, reviews: Sequence[Row], *, has_failed: bool) -> Need:
    at = reviews[-1]["ts"] if reviews else None
    tried = session.get_progress(session.step_id).get("quality_attempts") or 0
    reason = _join_feedback(event for event in reviews if event["ts"] == at)
    how = "did not pass its review" if has_failed else f"was submitted {tried} times without a review"
    if session.person_reason:
        how = _WAITING_WORDS.get(session.person_reason, how)
        reason = session.get_progress(session.step_id).get("gate_feedback") or reason
        has_failed = True
    task_id = f"{session.id}/{session.step_id}"
    return _build_need(
        kind="gate",
        next=Command.PASS_STEP.about(session.id),
        id=task_id,
        title=f"{session.step_id} {how}",
        detail=_format_detail(reason or f"Reviewed {tried} time(s)." if has_failed else ""),
        run=_build_run(session.id, "job", session.name),
        session=session,
        task={"id": task_id, "name": session.step_id},
        since=at or format_timestamp(session.updated_at),
    )


def _list_rule_needs(rows: Iterable[Row]) -> Iterator[Need]:
    """List the reviews of `.deepreview` rules whose rounds ended without a pass; they belong to no run."""
    for row in rows:
        waiting = json.loads(row["findings"]).get("waiting")
        if not waiting:  # another round follows
            continue
        decide = f"Decide with `deepwork review pass {waiting['review_id']}`, `send-back` or `grant-round`."
        yield _build_need(
            kind="review",
            next=Command.PASS_REVIEW.about(waiting["review_id"]),
            id=waiting["review_id"],
            title=f"{waiting['review']} {_WAITING_WORDS[waiting['reason']]}",
            detail=f"{truncate_to_line(waiting['findings'], _MAX_DETAIL - len(decide) - 1)} {decide}",
            run=None,
            since=format_timestamp(row["created_at"]),
        )


_WAITING_WORDS = {
    "rounds_used_up": "used up its rounds of review",
    "stalled": "makes no progress in review",
    "reviewer_error": "got no verdict from its reviewer",
    "budget": "used up its minutes",
}
"""Why a step or a review waits for a person."""


def _join_feedback(events: Iterable[Row]) -> str:
    """Join the feedback of the reviews of one attempt that failed."""
    failed = [event["data"] for event in events if event["type"] == "review:failed"]
    return "; ".join(data.get("feedback") or "" for data in failed)


def _build_need(**fields: Any) -> Need:
    return {"task": None, "agent_name": None, **fields}


def _build_run(id: str, kind: str, name: str) -> dict[str, str]:
    return {"id": id, "kind": kind, "name": name}


def _build_common_fields(
    row: Row, runs: Runs, task_id: str | None = None, task_name: str | None = None
) -> dict[str, Any]:
    run_id = row["workflow_id"]
    return {
        "id": row["id"],
        "run": runs.get(run_id) or _build_run(run_id, "job", run_id),
        "task": {"id": task_id or row["id"], "name": task_name or row["name"]},
    }


def _format_detail(text: str) -> str:
    return truncate_to_line(text, _MAX_DETAIL) or ""
