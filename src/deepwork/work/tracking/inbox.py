"""What agents that track their work leave to a person, for the inbox."""

from __future__ import annotations

import json
from typing import Any

from deepwork.kernel.attention import Attention, Listed, format_detail
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.states import Cause, Command
from deepwork.work.tracking.staleness import STALE_MS

REVIEW_PERIOD_MS = 7 * 24 * 3600 * 1000
"""Tasks that ended longer ago no longer ask for a review."""


def list_blockers(tx: Transaction, limit: int) -> Listed:
    """List open issues that need a person, the oldest first."""
    is_open = "issues WHERE requires_human_review AND resolved_at IS NULL"
    rows, total = tx.list_first("*", is_open, "created_at, created_seq", limit)
    return [_describe_blocker(row) for row in rows], total


def _describe_blocker(row: Row) -> Attention:
    return Attention(
        kind="blocker",
        id=row["id"],
        title=format_detail(row["description"]),
        why=Cause.BLOCKER,
        next=Command.ANSWER.about(row["id"]),
        since=row["created_at"],
        detail=format_detail(f"Tried: {row['resolution']}"),
        run_id=row["workflow_id"],
        task_id=row["task_id"],
        task_name=row["task_name"],
        agent_name=row["agent_name"],
    )


def list_reviews(tx: Transaction, limit: int, *, since: int | None = None) -> Listed:
    """List the tasks with `manual_review_needed` that ended lately and nobody reviewed, the oldest first."""
    found = f"tracked_tasks AS task WHERE manual_review_needed AND completed_at >= :since AND {_NOT_REVIEWED}"
    if since is None:
        since = tx.now - REVIEW_PERIOD_MS
    rows, total = tx.list_first(_COLUMNS, found, "completed_at, created_seq", limit, since=since)
    return [_describe_review(row) for row in rows], total


def _describe_review(row: Row) -> Attention:
    outcome = json.loads(row["outcome"])
    return Attention(
        kind="manual_review",
        title=f"Review {row['name']}",
        why=Cause.REVIEW,
        next=Command.ANSWER.about(row["id"]),
        since=row["completed_at"],
        detail=format_detail(outcome.get("manual_review_reason") or outcome.get("summary")),
        **_describe_task(row),
    )


def list_failed_tasks(tx: Transaction, limit: int) -> Listed:
    """List tasks of active workflows that failed and were neither retried nor reviewed."""
    found = f"""{_ACTIVE_TASKS} AND task.status IN ('failed', 'partial_success') AND NOT EXISTS (
        SELECT 1 FROM tracked_tasks AS again WHERE again.workflow_id = task.workflow_id
           AND again.name = task.name AND again.started_at >= task.completed_at AND again.id <> task.id
        ) AND {_NOT_REVIEWED}"""
    rows, total = tx.list_first(_COLUMNS, found, "task.completed_at, task.created_seq", limit)
    return [_describe_failure(row) for row in rows], total


def _describe_failure(row: Row) -> Attention:
    how = "failed" if row["status"] == "failed" else "was only partly done"
    return Attention(
        kind="failed_task",
        title=f"{row['name']} {how}",
        why=Cause.FAILED_TASKS,
        next=Command.ANSWER.about(row["id"]),
        since=row["completed_at"],
        detail=format_detail(json.loads(row["outcome"]).get("summary")),
        **_describe_task(row),
    )


def list_silent_tasks(tx: Transaction, limit: int) -> Listed:
    """List running tasks without a sign of life for half an hour, the longest silent first."""
    found = f"{_ACTIVE_TASKS} AND task.status = 'in_progress' AND task.last_sign_at < :silent_since"
    rows, total = tx.list_first(
        _COLUMNS, found, "task.last_sign_at, task.created_seq", limit, silent_since=tx.now - STALE_MS
    )
    return [_describe_silence(row) for row in rows], total


def _describe_silence(row: Row) -> Attention:
    return Attention(
        kind="stale_task",
        title=f"{row['name']} is silent",
        why=Cause.AGENT_GONE,
        next=Command.ABANDON.about(row["id"]),
        since=row["last_sign_at"],
        detail="No sign of life since then.",
        **_describe_task(row),
    )


def _describe_task(row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "run_id": row["workflow_id"],
        "task_id": row["id"],
        "task_name": row["name"],
        "agent_name": row["agent_name"],
    }


# A person decided about a task, or wrote about it, after it ended.
_NOT_REVIEWED = """NOT EXISTS (
    SELECT 1 FROM approvals WHERE approvals.subject_kind = 'tracked_task' AND approvals.subject_id = task.id
       AND approvals.decided_at >= task.completed_at AND approvals.status IN ('given', 'refused'))"""
_COLUMNS = (
    "task.id, task.name, task.workflow_id, task.agent_name, task.completed_at, task.status,"
    " task.last_sign_at, task.outcome"
)
_ACTIVE_TASKS = """tracked_workflows AS run JOIN tracked_tasks AS task ON task.workflow_id = run.id
    WHERE run.status = 'in_progress'"""
