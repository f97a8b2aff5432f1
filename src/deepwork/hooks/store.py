"""What is under way, as rows: a few questions, each with a limit and an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from deepwork.database.engine import Row
from deepwork.database.statements import where
from deepwork.database.transaction import Transaction

MOST = 5
MOST_COUNTED = 1000
"""Of a plan with more tasks than this nobody counts them all beside an agent's work."""


class UnderWayStore:
    """Job sessions, claimed tasks, plans, tracked work and unread messages."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def jobs(self, limit: int) -> list[Row]:
        """Job sessions under way, the last changed first."""
        return self._tx.all(
            "SELECT id, job_name, workflow_name, status, step_id, data FROM job_sessions"
            " WHERE status = 'active' ORDER BY updated_at DESC, created_seq DESC LIMIT :limit",
            limit=limit,
        )

    def job(self, ids: Sequence[str]) -> Row | None:
        """The first of these job sessions that is under way."""
        rows = self._tx.all(
            "SELECT id, job_name, workflow_name, status, step_id, data FROM job_sessions"
            " WHERE id IN :ids AND status = 'active'",
            ids=list(ids),
        )  # fmt: skip
        return min(rows, key=lambda row: ids.index(row["id"]), default=None)

    def held(self, agents: Sequence[str]) -> list[Row]:
        """Tasks that these agents hold and have not ended; what they work on comes first."""
        return self._tx.all(
            """
            SELECT task.id, task.name, task.status, task.workflow_id, plans.name AS plan_name,
                   leases.who, leases.until
              FROM leases JOIN plan_tasks AS task ON task.id = leases.what
              JOIN plans ON plans.id = task.workflow_id JOIN agents ON agents.id = leases.who
             WHERE leases.who IN :agents AND task.claimed_by = leases.who
               AND task.status IN ('pending', 'planning', 'in_progress', 'paused')
             ORDER BY CASE WHEN agents.current_task_id = task.id THEN 0 ELSE 1 END, leases.until DESC,
                      plans.created_seq, task.position
             LIMIT :limit
            """,
            agents=list(agents), limit=MOST,
        )  # fmt: skip

    def tracked(self, repository: str | None, wanted: str | None) -> list[Row]:
        """Tracked workflows under way, or of these the wanted one, the last changed first."""
        condition = where({
            "status = 'in_progress'": True, "id = :wanted": wanted,
            "repository_path = :repository": repository,
        })  # fmt: skip
        return self._tx.all(
            "SELECT id, name, objective, current_phase, total_phases FROM tracked_workflows"
            f" {condition} ORDER BY updated_at DESC, created_seq DESC LIMIT :limit",
            wanted=wanted, repository=repository, limit=MOST,
        )  # fmt: skip

    def open_tracked_tasks(self, workflow_ids: Sequence[str]) -> list[Row]:
        """Tasks of tracked workflows that somebody began and did not end."""
        return self._tx.all(
            "SELECT id, workflow_id, name, agent_name FROM tracked_tasks"
            " WHERE workflow_id IN :ids AND status = 'in_progress'"
            " ORDER BY started_at, created_seq LIMIT :limit",
            ids=list(workflow_ids), limit=MOST,
        )  # fmt: skip

    def plans(self, repository: str | None) -> list[Row]:
        """Plans that give out tasks, the last changed first: how many they have, and how many are done.

        Neither is counted beyond one more than `MOST_COUNTED`.
        """
        mine = "" if repository is None else " AND repository_path = :repository"
        return self._tx.all(
            f"""
            SELECT id, name,
                   (SELECT count(*) FROM (SELECT 1 FROM plan_tasks WHERE workflow_id = plans.id
                     LIMIT :most) AS counted) AS total,
                   (SELECT count(*) FROM (SELECT 1 FROM plan_tasks WHERE workflow_id = plans.id
                       AND status IN ('completed', 'skipped') LIMIT :most) AS counted) AS done
              FROM plans WHERE status IN ('ready', 'in_progress'){mine}
             ORDER BY updated_at DESC, created_seq DESC LIMIT :limit
            """,
            repository=repository, limit=MOST, most=MOST_COUNTED + 1,
        )  # fmt: skip

    def unread(self, agents: Sequence[str]) -> list[Row]:
        """How many messages wait for each of these agents, and how many of them are urgent."""
        return self._tx.all(
            """
            SELECT agents.id, agents.name, count(*) AS waiting,
                   sum(CASE WHEN priority = 'urgent' THEN 1 ELSE 0 END) AS urgent
              FROM agents JOIN messages ON recipient_id = agents.id
             WHERE agents.id IN :agents AND messages.status = 'unread'
               AND (expires_at IS NULL OR expires_at > :now)
             GROUP BY agents.id, agents.name ORDER BY agents.id
            """,
            agents=list(agents), now=self._tx.now,
        )  # fmt: skip

    def names(self, agents: Sequence[str]) -> dict[str, str]:
        """What those of these agents are called that have not left."""
        rows = self._tx.all(
            "SELECT id, name FROM agents WHERE id IN :agents AND unregistered_at IS NULL", agents=list(agents)
        )
        return {row["id"]: row["name"] for row in rows}

    def lost(self, agents: Sequence[str]) -> list[Row]:
        """Claims that others took over while these agents were silent, and that nobody told them of yet."""
        return self._tx.all(
            "SELECT lost.who, lost.what, task.name FROM lost_leases AS lost"
            " LEFT JOIN plan_tasks AS task ON task.id = lost.what"
            " WHERE lost.who IN :agents ORDER BY lost.who, lost.what LIMIT :limit",
            agents=list(agents), limit=MOST,
        )  # fmt: skip

    def holders(self, limit: int) -> list[Row]:
        """Who holds which task of a plan by a claim that still runs, the longest first."""
        return self._tx.all(
            """
            SELECT leases.what AS task_id, task.name AS task, task.status, leases.who AS agent_id,
                   agents.name AS agent, leases.until AS until_at
              FROM leases JOIN plan_tasks AS task ON task.id = leases.what
              JOIN plans ON plans.id = task.workflow_id JOIN agents ON agents.id = leases.who
             WHERE leases.until >= :now
             ORDER BY leases.until, plans.created_seq, task.position LIMIT :limit
            """,
            now=self._tx.now, limit=limit,
        )  # fmt: skip

    def inboxes(self, limit: int) -> list[Row]:
        """For whom of those that have not left messages wait, the most first."""
        return self._tx.all(
            """
            SELECT agents.id AS agent_id, agents.name AS agent, count(*) AS unread,
                   sum(CASE WHEN priority = 'urgent' THEN 1 ELSE 0 END) AS urgent
              FROM agents JOIN messages ON recipient_id = agents.id AND messages.status = 'unread'
             WHERE agents.unregistered_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
             GROUP BY agents.id, agents.name ORDER BY count(*) DESC, agents.id LIMIT :limit
            """,
            now=self._tx.now, limit=limit,
        )  # fmt: skip

    def ids(self, table: Literal["plans", "tracked_workflows"], beginning: str, limit: int) -> list[str]:
        """Ids of plans or tracked workflows that begin like this, the last changed first."""
        rows = self._tx.all(
            f"SELECT id FROM {table} WHERE substr(id, 1, :length) = :beginning"
            " ORDER BY updated_at DESC, created_seq DESC LIMIT :limit",
            length=len(beginning), beginning=beginning, limit=limit,
        )  # fmt: skip
        return [row["id"] for row in rows]
