"""Queries for all tasks of a run, with few columns so that 10,000 can be read together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction

MAX_MESSAGE = 200


class TaskRowStore:
    """Reads the tasks of a run in order, and counts their records."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_tracked(
        self, workflow_id: str, silent_since: int, after: Sequence[object] | None, limit: int
    ) -> list[Row]:
        """List tracked tasks by start, each with its last milestone."""
        beyond = "AND (task.started_at, task.created_seq) > (:at, :seq)" if after else ""
        at, seq = after or (None, None)
        sql = f"""
            SELECT task.id, task.name, task.status, phases.number AS phase, task.parent_task_id AS parent_id,
                   task.agent_name, task.started_at, task.completed_at,
                   {_LAST_MILESTONE_SQL.format(ended="completed_at")},
                   task.completed_at IS NULL AND task.last_sign_at < :silent_since AS is_stale,
                   task.created_seq
              FROM tracked_tasks AS task JOIN phases ON phases.id = task.phase_id
             WHERE task.workflow_id = :workflow_id {beyond}
             ORDER BY task.started_at, task.created_seq LIMIT :limit
        """
        return self._tx.fetch_all(
            sql, workflow_id=workflow_id, silent_since=silent_since, at=at, seq=seq, limit=limit
        )

    def count_tracked(self, workflow_id: str) -> int:
        sql = "SELECT count(*) FROM tracked_tasks WHERE workflow_id = :id"
        found: int = self._tx.fetch_value(sql, id=workflow_id)
        return found

    def count_planned(self, workflow_id: str) -> int:
        sql = "SELECT count(*) FROM plan_tasks WHERE workflow_id = :id"
        found: int = self._tx.fetch_value(sql, id=workflow_id)
        return found

    def list_planned(self, workflow_id: str, after: Sequence[object] | None, limit: int) -> list[Row]:
        """List planned tasks in the order of the plan, each with its last holder and last milestone."""
        beyond = "AND (task.sequence, task.position) > (:sequence, :position)" if after else ""
        sequence, position = after or (None, None)
        sql = f"""
            SELECT task.id, task.name, task.status, task.sequence AS phase, NULL AS parent_id,
                   agents.name AS agent_name, task.started_at, task.finished_at AS completed_at,
                   {_LAST_MILESTONE_SQL.format(ended="finished_at")}, task.position,
                   task.workflow_id, task.sequence, task.is_explicit, task.open_dependencies
              FROM plan_tasks AS task
              LEFT JOIN agents ON agents.id = CASE WHEN task.status <> 'pending' THEN (
                   SELECT agent_id FROM plan_claims WHERE task_id = task.id ORDER BY epoch DESC LIMIT 1) END
             WHERE task.workflow_id = :workflow_id {beyond}
             ORDER BY task.sequence, task.position LIMIT :limit
        """
        return self._tx.fetch_all(
            sql, workflow_id=workflow_id, sequence=sequence, position=position, limit=limit
        )

    def list_milestones(self, workflow_id: str) -> list[Row]:
        """List the milestones of a job session, oldest first; its steps have no rows to join."""
        sql = (
            f"SELECT task_id, substr(message, 1, {MAX_MESSAGE}) AS milestone, progress FROM milestones"
            " WHERE workflow_id = :id ORDER BY created_at, created_seq"
        )
        return self._tx.fetch_all(sql, id=workflow_id)

    def find_holders(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Map tasks of a plan that have begun to their last holder, and when they ended or else began."""
        sql = """
            SELECT task.id, agents.name AS agent, coalesce(task.finished_at, task.started_at) AS since
              FROM plan_tasks AS task
              LEFT JOIN agents ON agents.id = (
                   SELECT agent_id FROM plan_claims WHERE task_id = task.id ORDER BY epoch DESC LIMIT 1)
             WHERE task.id IN :ids AND task.status <> 'pending'
        """
        rows = self._tx.fetch_all(sql, ids=list(ids)) if ids else []
        return {row["id"]: {"agent": row["agent"], "since": row["since"]} for row in rows}

    def count_dependents(self, workflow_id: str, ids: Sequence[str]) -> dict[str, int]:
        """Count the tasks that wait for each of these tasks of a plan directly; those without are left out.

        A task that names none waits for all of the next lower level.
        """
        named = (
            "SELECT depends_on_id AS id, count(*) AS found FROM plan_dependencies WHERE depends_on_id IN :ids"
        )
        rows = self._tx.fetch_all(f"{named} GROUP BY depends_on_id", ids=list(ids)) if ids else []
        counts = {row["id"]: row["found"] for row in rows}
        levels = self._tx.fetch_all(
            "SELECT sequence, sum(CASE WHEN is_explicit THEN 0 ELSE 1 END) AS implied FROM plan_tasks"
            " WHERE workflow_id = :id GROUP BY sequence ORDER BY sequence",
            id=workflow_id,
        )
        following = {one["sequence"]: int(two["implied"]) for one, two in pairwise(levels)}
        of = "SELECT id, sequence FROM plan_tasks WHERE id IN :ids"
        for row in self._tx.fetch_all(of, ids=list(ids)) if ids and any(following.values()) else []:
            if implied := following.get(row["sequence"], 0):
                counts[row["id"]] = counts.get(row["id"], 0) + implied
        return counts

    # Records by task

    def count_files(self, workflow_id: str) -> dict[str, int]:
        return self._count_by_task("changed_files", workflow_id)

    def count_decisions(self, workflow_id: str) -> dict[str, int]:
        return self._count_by_task("decisions", workflow_id)

    def count_issues(self, workflow_id: str) -> dict[str, int]:
        return self._count_by_task("issues", workflow_id)

    def find_blocked(self, workflow_id: str) -> set[str]:
        """Return the ids of tasks with an open blocker."""
        sql = (
            "SELECT DISTINCT task_id FROM issues"
            " WHERE workflow_id = :id AND requires_human_review AND resolved_at IS NULL"
        )
        rows = self._tx.fetch_all(sql, id=workflow_id)
        return {row["task_id"] for row in rows}

    def _count_by_task(self, table: str, workflow_id: str) -> dict[str, int]:
        sql = f"SELECT task_id, count(*) AS found FROM {table} WHERE workflow_id = :id GROUP BY task_id"
        rows = self._tx.fetch_all(sql, id=workflow_id)
        return {row["task_id"]: row["found"] for row in rows}


_NEWEST_ROW_SQL = "ORDER BY created_at DESC, created_seq DESC LIMIT 1"
# A milestone without progress keeps the last progress. Tasks that ended show none.
_LAST_MILESTONE_SQL = f"""
    CASE WHEN task.started_at IS NOT NULL THEN (
         SELECT substr(message, 1, {MAX_MESSAGE}) FROM milestones WHERE task_id = task.id {_NEWEST_ROW_SQL}
         ) END AS milestone,
    CASE WHEN task.started_at IS NOT NULL AND task.{{ended}} IS NULL THEN (
         SELECT progress FROM milestones WHERE task_id = task.id AND progress IS NOT NULL {_NEWEST_ROW_SQL}
         ) END AS progress"""
