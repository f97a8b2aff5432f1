"""What waits for a person, as rows; each question has a limit and an index."""

from __future__ import annotations

from deepwork.database.engine import Row
from deepwork.database.transaction import Transaction


class NeedStore:
    """Blockers, reviews, failures, silence: whatever a person should look at."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def blockers(self, limit: int) -> tuple[list[Row], int]:
        """Issues that need a person, newest first."""
        rows = self._tx.all(
            f"SELECT * FROM issues WHERE {_OPEN} ORDER BY created_at DESC, created_seq DESC LIMIT :limit",
            limit=limit,
        )
        return rows, self._total(rows, limit, f"issues WHERE {_OPEN}")

    def reviews(self, since: int, limit: int) -> tuple[list[Row], int]:
        """Tracked tasks that ended with the word that a person should look, which none did; newest first."""
        source = f"tracked_tasks AS task WHERE {_TO_REVIEW} AND completed_at >= :since AND {_UNSEEN}"
        rows = self._tx.all(
            f"SELECT {_TRACKED}, task.outcome FROM {source}"
            " ORDER BY completed_at DESC, created_seq DESC LIMIT :limit",
            since=since, limit=limit,
        )  # fmt: skip
        return rows, self._total(rows, limit, source, since=since)

    def failed_tracked(self, limit: int) -> tuple[list[Row], int]:
        """Tracked tasks of workflows under way that failed, wholly or in part, and were left at that."""
        source = f"""{_UNDER_WAY} AND task.status IN ('failed', 'partial_success') AND NOT EXISTS (
            SELECT 1 FROM tracked_tasks AS again WHERE again.workflow_id = task.workflow_id
               AND again.name = task.name AND again.started_at >= task.completed_at AND again.id <> task.id
            ) AND {_UNSEEN}"""
        rows = self._tx.all(
            f"SELECT {_TRACKED}, task.outcome FROM {source}"
            " ORDER BY task.completed_at DESC, task.created_seq DESC LIMIT :limit",
            limit=limit,
        )  # fmt: skip
        return rows, self._total(rows, limit, source)

    def stale(self, silent_since: int, limit: int) -> tuple[list[Row], int]:
        """Tracked tasks under way of which nobody has spoken for long, the longest silent first."""
        source = f"{_UNDER_WAY} AND task.status = 'in_progress' AND task.last_sign_at < :silent_since"
        rows = self._tx.all(
            f"SELECT {_TRACKED} FROM {source} ORDER BY task.last_sign_at, task.created_seq LIMIT :limit",
            silent_since=silent_since, limit=limit,
        )  # fmt: skip
        return rows, self._total(rows, limit, source, silent_since=silent_since)

    def failed_planned(self, limit: int) -> tuple[list[Row], int]:
        """Tasks of plans under way that failed."""
        source = """plans JOIN plan_tasks AS task ON task.workflow_id = plans.id
            WHERE plans.status IN ('ready', 'in_progress', 'paused', 'failed') AND task.status = 'failed'"""
        rows = self._tx.all(
            "SELECT task.id, task.name, task.workflow_id, task.error, task.updated_at"
            f" FROM {source} ORDER BY task.updated_at DESC, plans.created_seq DESC, task.position DESC"
            " LIMIT :limit",
            limit=limit,
        )
        return rows, self._total(rows, limit, source)

    def lost_claims(self, limit: int) -> tuple[list[Row], int]:
        """Tasks of plans that somebody began and went silent over."""
        source = """leases JOIN plan_tasks AS task ON task.id = leases.what
            JOIN plans ON plans.id = task.workflow_id JOIN agents ON agents.id = leases.who
            WHERE leases.who IS NOT NULL AND leases.until < :now AND task.claimed_by = leases.who
              AND task.status IN ('planning', 'in_progress', 'paused')
              AND plans.status IN ('ready', 'in_progress')"""
        rows = self._tx.all(
            "SELECT task.id, task.name, task.workflow_id, leases.who, leases.until,"
            f" agents.name AS agent_name, agents.last_heartbeat FROM {source}"
            " ORDER BY leases.until DESC, plans.created_seq, task.position LIMIT :limit",
            now=self._tx.now, limit=limit,
        )  # fmt: skip
        return rows, self._total(rows, limit, source, now=self._tx.now)

    def paused_plans(self, limit: int) -> tuple[list[Row], int]:
        """Plans that somebody paused, with the reason that was given."""
        rows = self._tx.all(
            """
            SELECT id, name, updated_at, (
                   SELECT reason FROM plan_history WHERE workflow_id = plans.id AND after = 'paused'
                    ORDER BY number DESC LIMIT 1) AS reason
              FROM plans WHERE status = 'paused' ORDER BY updated_at DESC, created_seq DESC LIMIT :limit
            """,
            limit=limit,
        )
        return rows, self._total(rows, limit, "plans WHERE status = 'paused'")

    def _total(self, rows: list[Row], limit: int, source: str, **values: object) -> int:
        """How many there are; nobody counts them where all were found."""
        if len(rows) < limit:
            return len(rows)
        found: int = self._tx.value(f"SELECT count(*) FROM {source}", **values)
        return found


_OPEN = "requires_human_review AND resolved_at IS NULL"
# Word for word the condition of its index: the mark as JSON writes it, which no text can hold unescaped.
_TO_REVIEW = """task.outcome LIKE '%"manual_review_needed": true%'"""
# Whoever looked at it said something of it since, in a person's name; by its mark as JSON writes it, too.
_UNSEEN = """NOT EXISTS (
    SELECT 1 FROM milestones WHERE milestones.task_id = task.id
       AND milestones.created_at >= task.completed_at AND milestones.metadata LIKE '%"by": "human:%')"""
_TRACKED = (
    "task.id, task.name, task.workflow_id, task.agent_name, task.started_at, task.completed_at, task.status,"
    " task.last_sign_at"
)
_UNDER_WAY = """tracked_workflows AS run JOIN tracked_tasks AS task ON task.workflow_id = run.id
    WHERE run.status = 'in_progress'"""
