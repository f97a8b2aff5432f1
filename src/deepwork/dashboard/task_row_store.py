"""All tasks of a run as rows: few columns of many, so that 10,000 are read in one go."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.database.engine import Row
from deepwork.database.transaction import Transaction

MESSAGE = 200


class TaskRowStore:
    """Tasks in the order in which a run has them."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def tracked(
        self, workflow_id: str, silent_since: int, after: Sequence[object] | None, limit: int
    ) -> list[Row]:
        """Tracked tasks as they were started, each with what was last said of it."""
        beyond = "AND (task.started_at, task.created_seq) > (:at, :seq)" if after else ""
        at, seq = after or (None, None)
        return self._tx.all(
            f"""
            SELECT task.id, task.name, task.status, phases.number AS phase, task.parent_task_id AS parent_id,
                   task.agent_name, task.started_at, task.completed_at,
                   {_LAST_SAID.format(ended="completed_at")},
                   task.completed_at IS NULL AND task.last_sign_at < :silent_since AS is_stale,
                   task.created_seq
              FROM tracked_tasks AS task JOIN phases ON phases.id = task.phase_id
             WHERE task.workflow_id = :workflow_id {beyond}
             ORDER BY task.started_at, task.created_seq LIMIT :limit
            """,
            workflow_id=workflow_id, silent_since=silent_since, at=at, seq=seq, limit=limit,
        )  # fmt: skip

    def tracked_count(self, workflow_id: str) -> int:
        found: int = self._tx.value(
            "SELECT count(*) FROM tracked_tasks WHERE workflow_id = :id", id=workflow_id
        )
        return found

    def planned(self, workflow_id: str, after: Sequence[object] | None, limit: int) -> list[Row]:
        """Planned tasks as the plan has them, each with who had it last and what was last said of it."""
        beyond = "AND (task.sequence, task.position) > (:sequence, :position)" if after else ""
        sequence, position = after or (None, None)
        return self._tx.all(
            f"""
            SELECT task.id, task.name, task.status, task.sequence AS phase, NULL AS parent_id,
                   agents.name AS agent_name, task.started_at, task.finished_at AS completed_at,
                   {_LAST_SAID.format(ended="finished_at")}, task.position, task.is_explicit,
                   task.open_dependencies
              FROM plan_tasks AS task
              LEFT JOIN agents ON agents.id = CASE WHEN task.status <> 'pending' THEN (
                   SELECT agent_id FROM plan_claims WHERE task_id = task.id ORDER BY epoch DESC LIMIT 1) END
             WHERE task.workflow_id = :workflow_id {beyond}
             ORDER BY task.sequence, task.position LIMIT :limit
            """,
            workflow_id=workflow_id, sequence=sequence, position=position, limit=limit,
        )  # fmt: skip

    def lapsed(self, workflow_id: str) -> set[str]:
        """Claimed tasks of a plan whose lease no longer runs."""
        rows = self._tx.all(
            """
            SELECT task.id FROM plan_tasks AS task JOIN leases ON leases.what = task.id
             WHERE task.workflow_id = :id AND task.claimed_by IS NOT NULL
               AND task.status IN ('planning', 'in_progress', 'paused') AND leases.until < :now
            """,
            id=workflow_id, now=self._tx.now,
        )  # fmt: skip
        return {row["id"] for row in rows}

    def said(self, workflow_id: str) -> list[Row]:
        """What was said of the tasks of a run that has no rows for its tasks, oldest first."""
        return self._tx.all(
            f"SELECT task_id, substr(message, 1, {MESSAGE}) AS milestone, progress FROM milestones"
            " WHERE workflow_id = :id ORDER BY created_at, created_seq",
            id=workflow_id,
        )

    def last_look(self) -> str | None:
        """What the working tree was like when a task last began, as it is stored."""
        found: str | None = self._tx.value(
            "SELECT began FROM watches ORDER BY began_at DESC, task_id, attempt DESC LIMIT 1"
        )
        return found

    # How much hangs on each task

    def files(self, workflow_id: str) -> dict[str, int]:
        return self._by_task("changed_files", workflow_id)

    def decisions(self, workflow_id: str) -> dict[str, int]:
        return self._by_task("decisions", workflow_id)

    def issues(self, workflow_id: str) -> dict[str, int]:
        return self._by_task("issues", workflow_id)

    def blocked(self, workflow_id: str) -> set[str]:
        """Tasks with an issue that waits for a person."""
        rows = self._tx.all(
            "SELECT DISTINCT task_id FROM issues"
            " WHERE workflow_id = :id AND requires_human_review AND resolved_at IS NULL",
            id=workflow_id,
        )
        return {row["task_id"] for row in rows}

    def _by_task(self, table: str, workflow_id: str) -> dict[str, int]:
        rows = self._tx.all(
            f"SELECT task_id, count(*) AS found FROM {table} WHERE workflow_id = :id GROUP BY task_id",
            id=workflow_id,
        )
        return {row["task_id"]: row["found"] for row in rows}


_NEWEST = "ORDER BY created_at DESC, created_seq DESC LIMIT 1"
# Words without a number leave the last number standing. How far a task is that has ended, nobody asks.
_LAST_SAID = f"""
    CASE WHEN task.started_at IS NOT NULL THEN (
         SELECT substr(message, 1, {MESSAGE}) FROM milestones WHERE task_id = task.id {_NEWEST}
         ) END AS milestone,
    CASE WHEN task.started_at IS NOT NULL AND task.{{ended}} IS NULL THEN (
         SELECT progress FROM milestones WHERE task_id = task.id AND progress IS NOT NULL {_NEWEST}
         ) END AS progress"""
