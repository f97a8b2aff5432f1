"""Reviews of `.deepreview` rules that wait for a person, for the inbox."""

from __future__ import annotations

import json
from collections.abc import Iterator

from deepwork.kernel.attention import Attention, Listed
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.foreign_text import truncate_to_line
from deepwork.kernel.states import Cause, Command

RECENT_MS = 7 * 24 * 3600 * 1000
"""What ended longer ago no longer asks for a review."""
WAITING_WORDS = {
    "rounds_used_up": "used up its rounds of review",
    "stalled": "makes no progress in review",
    "reviewer_error": "got no verdict from its reviewer",
    "budget": "used up its minutes",
}
"""Why a review waits for a person."""
_MAX_DETAIL = 500


def list_waiting_reviews(tx: Transaction, limit: int) -> Listed:
    """List the reviews whose rounds ended without a pass, the oldest first; they belong to no run."""
    rows = tx.fetch_all(
        """SELECT last.findings, last.created_at FROM review_rounds AS last
            WHERE last.subject_kind = 'rule' AND NOT last.passed AND last.created_at >= :since
              AND NOT EXISTS (
                SELECT 1 FROM review_rounds AS later WHERE later.subject_kind = last.subject_kind
                   AND later.subject_id = last.subject_id AND later.rule = last.rule
                   AND later.number > last.number)
            ORDER BY last.created_at, last.rule LIMIT :limit""",
        since=tx.now - RECENT_MS,
        limit=limit,
    )
    found = [each for row in rows for each in _describe(row)]
    return found, len(found)


def _describe(row: Row) -> Iterator[Attention]:
    waiting = json.loads(row["findings"]).get("waiting")
    if not waiting:  # another round follows
        return
    decide = f"Decide with `deepwork review pass {waiting['review_id']}`, `send-back` or `grant-round`."
    yield Attention(
        kind="review",
        id=waiting["review_id"],
        title=f"{waiting['review']} {WAITING_WORDS[waiting['reason']]}",
        why=Cause.REVIEW,
        next=Command.PASS_REVIEW.about(waiting["review_id"]),
        since=row["created_at"],
        detail=f"{truncate_to_line(waiting['findings'], _MAX_DETAIL - len(decide) - 1)} {decide}",
        record=waiting,
    )
