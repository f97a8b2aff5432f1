"""REST endpoints for issues, blockers and decisions, of one run or of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.offered_actions import Act
from deepwork.views.dashboard import offered_actions
from deepwork.views.dashboard.endpoints import (
    Endpoint,
    PagedAnswer,
    PageQuery,
    ReadContext,
    decode_cursor,
    encode_cursor,
)
from deepwork.views.dashboard.run_details import get_run_row
from deepwork.views.dashboard.runs import RunRef, find_run_refs
from deepwork.work.tracking.models import Category, Decision, Issue, IssueType
from deepwork.work.tracking.note_store import NoteStore
from deepwork.work.tracking.responses import DecisionView, IssueView

MAX_SEARCH_WORDS = 10


class IssueLine(IssueView):
    run: RunRef
    actions: list[Act]


class DecisionLine(DecisionView):
    run: RunRef


class Issues(PagedAnswer):
    issues: list[IssueLine]


class Blockers(PagedAnswer):
    blockers: list[IssueLine]


class Decisions(PagedAnswer):
    decisions: list[DecisionLine]


class BlockersQuery(PageQuery):
    run: str | None = Field(default=None, description="The id of a run")
    state: Literal["open", "resolved", "all"] = "open"
    type: IssueType | None = None
    agent: str | None = None
    order: Literal["asc", "desc"] = "desc"


class DecisionsQuery(PageQuery):
    run: str | None = Field(default=None, description="The id of a run")
    q: str | None = Field(default=None, max_length=200, description="Search words; all must occur")
    category: Category | None = None


def read_run_issues(context: ReadContext, query: PageQuery) -> Issues:
    """Read the issues of a run, including resolved ones."""
    get_run_row(context.tx, context.id)
    found, total, cursor = _list_issues(context.tx, {"workflow_id": context.id}, query)
    return Issues(issues=found, total=total, cursor=cursor)


def read_blockers(context: ReadContext, query: BlockersQuery) -> Blockers:
    """Read the issues of all runs that need, or needed, a person."""
    filters = {
        "workflow_id": query.run,
        "blockers": True,
        "type": query.type,
        "agent": query.agent,
        "open": True if query.state == "open" else None,
        "resolved": True if query.state == "resolved" else None,
    }
    found, total, cursor = _list_issues(context.tx, filters, query, oldest_first=query.order == "asc")
    return Blockers(blockers=found, total=total, cursor=cursor)


def list_task_issues(tx: Transaction, task_id: str, limit: int) -> list[IssueLine]:
    """List the newest issues of a task."""
    return _list_issues(tx, {"task_id": task_id}, PageQuery(limit=limit))[0]


def list_task_decisions(tx: Transaction, task_id: str, limit: int) -> list[DecisionLine]:
    """List the newest decisions of a task."""
    return _list_decisions(tx, {"task_id": task_id}, PageQuery(limit=limit))[0]


def read_run_decisions(context: ReadContext, query: PageQuery) -> Decisions:
    """Read the decisions of a run."""
    get_run_row(context.tx, context.id)
    found, total, cursor = _list_decisions(context.tx, {"workflow_id": context.id}, query)
    return Decisions(decisions=found, total=total, cursor=cursor)


def read_decisions(context: ReadContext, query: DecisionsQuery) -> Decisions:
    """Read the decisions of all runs."""
    words = (query.q or "").split()[:MAX_SEARCH_WORDS]
    filters = {"workflow_id": query.run, "category": query.category, "words": words}
    found, total, cursor = _list_decisions(context.tx, filters, query)
    return Decisions(decisions=found, total=total, cursor=cursor)


def _list_issues(
    tx: Transaction, filters: Mapping[str, Any], query: PageQuery, *, oldest_first: bool = False
) -> tuple[list[IssueLine], int, str | None]:
    store = NoteStore(tx)
    matching = {**filters, "beyond": _parse_cursor(query)}
    found, total = store.list_issues(matching, query.limit + 1, oldest_first=oldest_first)
    page, runs = found[: query.limit], _find_runs(tx, found)
    lines = [
        IssueLine(
            **vars(IssueView.from_issue(each)),
            run=runs[each.subject.workflow_id],
            actions=[] if each.resolved_at else [offered_actions.offer_resolve(each.id)],
        )
        for each in page
    ]
    return lines, total, _encode_next_cursor(store, "issues", found, query)


def _list_decisions(
    tx: Transaction, filters: Mapping[str, Any], query: PageQuery
) -> tuple[list[DecisionLine], int, str | None]:
    store = NoteStore(tx)
    found, total = store.list_decisions({**filters, "beyond": _parse_cursor(query)}, query.limit + 1)
    page, runs = found[: query.limit], _find_runs(tx, found)
    lines = [
        DecisionLine(**vars(DecisionView.from_decision(each)), run=runs[each.subject.workflow_id])
        for each in page
    ]
    return lines, total, _encode_next_cursor(store, "decisions", found, query)


def _find_runs(tx: Transaction, notes: Sequence[Decision | Issue]) -> dict[str, RunRef]:
    ids = [each.subject.workflow_id for each in notes]
    return {id: RunRef(id=id, kind="job", name=id) for id in ids} | find_run_refs(tx, ids)


def _parse_cursor(query: PageQuery) -> Sequence[Any] | None:
    return decode_cursor(query.cursor, int, int) if query.cursor else None


def _encode_next_cursor(
    store: NoteStore, table: str, found: Sequence[Decision | Issue], query: PageQuery
) -> str | None:
    if len(found) <= query.limit:
        return None
    last = found[query.limit - 1]
    return encode_cursor([last.created_at, store.get_created_seq(table, last.id)])


ENDPOINTS = (
    Endpoint(
        "/api/v1/runs/{id}/decisions",
        "Decisions of a run, newest first.",
        PageQuery,
        Decisions,
        read_run_decisions,
        follows_events=True,
    ),
    Endpoint(
        "/api/v1/runs/{id}/issues",
        "Issues of a run, newest first.",
        PageQuery,
        Issues,
        read_run_issues,
        follows_events=True,
    ),
    Endpoint(
        "/api/v1/blockers",
        "Issues of all runs that need a person.",
        BlockersQuery,
        Blockers,
        read_blockers,
        follows_events=True,
    ),
    Endpoint(
        "/api/v1/decisions",
        "Decisions of all runs, newest first.",
        DecisionsQuery,
        Decisions,
        read_decisions,
        follows_events=True,
    ),
)
