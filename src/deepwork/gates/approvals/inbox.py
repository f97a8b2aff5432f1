"""What waits for the approval of a person, for the inbox."""

from __future__ import annotations

import json

from deepwork.gates.approvals.models import find_name
from deepwork.kernel.attention import Attention, Listed, format_detail
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.states import Cause, Command


def list_pending_approvals(tx: Transaction, limit: int) -> Listed:
    """List what waits for an approval, the first asked first."""
    columns = "id, subject_kind, subject_id, workflow_id, shown, asked_at"
    order = "asked_at, created_seq"
    rows, total = tx.list_first(columns, "approvals WHERE status = 'pending'", order, limit)
    return [_describe(row) for row in rows], total


def _describe(row: Row) -> Attention:
    shown = json.loads(row["shown"])
    name = find_name(shown) or row["subject_id"]
    is_task = row["subject_kind"] != "plan"
    return Attention(
        kind="approval",
        id=row["id"],
        title=f"Approve {_TITLE_WORDS.get(row['subject_kind'], '')}{name}",
        why=Cause.APPROVAL,
        next=Command.APPROVE.about(row["id"]),
        since=row["asked_at"],
        detail=format_detail(
            str(shown.get("outcome") or shown.get("description") or shown.get("summary") or "")
        ),
        run_id=row["workflow_id"] or row["subject_id"],
        task_id=row["subject_id"] if is_task else None,
        task_name=name if is_task else None,
    )


_TITLE_WORDS = {
    "plan": "the plan ",
    "task_before": "before it begins: ",
    "task": "the work on ",
    "step": "step ",
    "guarded": "changes to guarded files: ",
    "budget": "the budget of ",
    "landing": "the landing of ",
    "act": "what you want to do: ",
}
