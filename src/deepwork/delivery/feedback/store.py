"""The rows of comments."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.delivery.feedback.models import Comment, CommentSide, CommentState, Delivery
from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound

_COLUMNS = tuple(Comment.__dataclass_fields__)
# A notice is deleted after some time; then an attempt that began later had it in its prompt.
_DELIVERY_SQL = """
    SELECT it.id,
           coalesce(notices.carried_at, CASE WHEN notices.id IS NULL THEN (
               SELECT max(started_at) FROM attempts
                WHERE attempts.task_id = it.task_id AND attempts.started_at >= it.sent_at) END) AS at,
           notices.attempt_id, notices.start,
           (SELECT max(decided_at) FROM approvals
             WHERE approvals.subject_kind IN ('task', 'review') AND approvals.subject_id = it.task_id
               AND approvals.status <> 'refused') AS approved_at
      FROM review_comments AS it LEFT JOIN notices ON notices.id = it.notice_id
     WHERE it.id IN :ids AND it.sent_at IS NOT NULL
"""


class CommentStore:
    """Reads and writes comments."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, comment: Comment) -> None:
        """Insert a new comment."""
        self._tx.insert("review_comments", _to_row(comment))

    def save(self, comment: Comment) -> None:
        """Store a changed comment."""
        row = _to_row(comment)
        self._tx.update("review_comments", row.pop("id"), row)

    def get_for_update(self, id: str) -> Comment:
        """Return the comment, locked until the transaction ends; raises NotFound."""
        sql = f"SELECT {', '.join(_COLUMNS)} FROM review_comments WHERE id = :id{self._tx.row_lock}"
        row = self._tx.fetch_one(sql, id=id)
        if row is None:
            raise NotFound("comment", id, suggestion="List those of a task with `deepwork comment TASK`.")
        return _from_row(row)

    def list_of_task(self, task_id: str, limit: int) -> tuple[list[Comment], int]:
        """List the comments on the work of a task, the oldest first, and how many there are in all."""
        rows, total = self._tx.list_first(
            ", ".join(_COLUMNS), "review_comments WHERE task_id = :id", "created_seq", limit, id=task_id
        )
        return [_from_row(row) for row in rows], total

    def list_unsent(self, task_id: str) -> list[Comment]:
        """List the comments on a task that wait until its work is sent back."""
        sql = (
            f"SELECT {', '.join(_COLUMNS)} FROM review_comments"
            " WHERE task_id = :id AND sent_at IS NULL AND closed_as IS NULL ORDER BY created_seq"
        )
        return [_from_row(row) for row in self._tx.fetch_all(sql, id=task_id)]

    def list_of_tasks(self, task_ids: Sequence[str]) -> list[Comment]:
        """List the comments on these tasks, the oldest first."""
        if not task_ids:
            return []
        sql = f"SELECT {', '.join(_COLUMNS)} FROM review_comments WHERE task_id IN :ids ORDER BY created_seq"
        return [_from_row(row) for row in self._tx.fetch_all(sql, ids=list(task_ids))]

    def map_deliveries(self, ids: Sequence[str]) -> dict[str, Delivery]:
        """Map comments that were sent to what became of them."""
        if not ids:
            return {}
        rows = self._tx.fetch_all(_DELIVERY_SQL, ids=list(ids))
        return {row.pop("id"): Delivery(**row) for row in map(dict, rows)}


def _to_row(comment: Comment) -> Row:
    closed = comment.closed_as.value if comment.closed_as else None
    return vars(comment) | {"side": comment.side.value, "closed_as": closed}


@row_parser
def _from_row(row: Row) -> Comment:
    closed = CommentState(row["closed_as"]) if row["closed_as"] else None
    return Comment(**(row | {"side": CommentSide(row["side"]), "closed_as": closed}))
