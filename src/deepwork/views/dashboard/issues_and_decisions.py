"""REST endpoints for issues, blockers and decisions, of one run or of all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.offered_actions import Act
from deepwork.kernel.timestamps import format_optional_timestamp, format_timestamp
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
from deepwork.views.overview.issue_decision_store import IssueDecisionStore
from deepwork.work.tracking.models import Category, IssueType
from deepwork.work.tracking.responses import DecisionView, IssueView

_HIDDEN_COLUMNS = ("phase_id", "created_seq")


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
    return _list_decisions(tx, {"task_id": task_id}, (), PageQuery(limit=limit))[0]


def read_run_decisions(context: ReadContext, query: PageQuery) -> Decisions:
    """Read the decisions of a run."""
    get_run_row(context.tx, context.id)
    found, total, cursor = _list_decisions(context.tx, {"workflow_id": context.id}, (), query)
    return Decisions(decisions=found, total=total, cursor=cursor)


def read_decisions(context: ReadContext, query: DecisionsQuery) -> Decisions:
    """Read the decisions of all runs."""
    words = (query.q or "").split()
    filters = {"workflow_id": query.run, "category": query.category}
    found, total, cursor = _list_decisions(context.tx, filters, words, query)
    return Decisions(decisions=found, total=total, cursor=cursor)


def _list_issues(
    tx: Transaction, filters: Mapping[str, Any], query: PageQuery, *, oldest_first: bool = False
) -> tuple[list[IssueLine], int, str | None]:
    rows, total = IssueDecisionStore(tx).list_issues(
        filters, _parse_cursor(query), query.limit + 1, oldest_first=oldest_first
    )
    page = rows[: query.limit]
    runs = find_run_refs(tx, [row["workflow_id"] for row in page])
    return [_build_issue_line(row, runs) for row in page], total, _encode_next_cursor(rows, query)


def _list_decisions(
    tx: Transaction, filters: Mapping[str, Any], words: Sequence[str], query: PageQuery
) -> tuple[list[DecisionLine], int, str | None]:
    rows, total = IssueDecisionStore(tx).list_decisions(filters, words, _parse_cursor(query), query.limit + 1)
    page = rows[: query.limit]
    runs = find_run_refs(tx, [row["workflow_id"] for row in page])
    return (
        [_build_decision_line(row | {"run": _get_run_ref(row, runs)}) for row in page],
        total,
        _encode_next_cursor(rows, query),
    )


@row_parser
def _build_decision_line(row: Row) -> DecisionLine:
    read = {
        "options_considered": json.loads(row["options_considered"]),
        "created_at": format_timestamp(row["created_at"]),
    }
    return DecisionLine(**_drop_hidden_columns(row) | read)


def _build_issue_line(row: Row, runs: Mapping[str, RunRef]) -> IssueLine:
    """Build an issue with its run and the actions on it."""
    is_open = row["resolved_at"] is None
    return IssueLine(
        **_drop_hidden_columns(row)
        | {
            "requires_human_review": bool(row["requires_human_review"]),
            "created_at": format_timestamp(row["created_at"]),
            "resolved_at": format_optional_timestamp(row["resolved_at"]),
            "run": _get_run_ref(row, runs),
            "actions": [offered_actions.offer_resolve(row["id"])] if is_open else [],
        }
    )


def _get_run_ref(row: Row, runs: Mapping[str, RunRef]) -> RunRef:
    id = row["workflow_id"]
    return runs.get(id) or RunRef(id=id, kind="job", name=id)


def _drop_hidden_columns(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in _HIDDEN_COLUMNS}


def _parse_cursor(query: PageQuery) -> Sequence[Any] | None:
    return decode_cursor(query.cursor, int, int) if query.cursor else None


def _encode_next_cursor(rows: Sequence[Row], query: PageQuery) -> str | None:
    if len(rows) <= query.limit:
        return None
    last = rows[query.limit - 1]
    return encode_cursor([last["created_at"], last["created_seq"]])


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
