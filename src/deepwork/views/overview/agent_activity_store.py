"""Queries for what agents hold, finished and have not read yet."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.agents.lease_conditions import IS_VALID


class AgentActivityStore:
    """Reads the activity of many agents with one statement each."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_held_tasks(self, agent_ids: Sequence[str]) -> list[Row]:
        """List the tasks that these agents hold by a valid lease."""
        sql = f"""
            SELECT leases.who, task.id, task.name, task.workflow_id, task.context, plans.name AS run_name,
                   claim.claimed_at
              FROM leases JOIN plan_tasks AS task ON task.id = leases.what
              JOIN plans ON plans.id = task.workflow_id
              LEFT JOIN plan_claims AS claim ON claim.task_id = task.id AND claim.epoch = leases.epoch
             WHERE leases.who IN :ids AND {IS_VALID}
             ORDER BY claim.claimed_at, plans.created_seq, task.position
        """
        return self._tx.fetch_all(sql, ids=list(agent_ids), now=self._tx.now)

    def count_unread(self, agent_ids: Sequence[str]) -> dict[str, int]:
        """Count the unread messages of each agent."""
        sql = """
            SELECT recipient_id, count(*) AS waiting FROM messages
             WHERE recipient_id IN :ids AND status = 'unread' AND (expires_at IS NULL OR expires_at > :now)
             GROUP BY recipient_id
        """
        rows = self._tx.fetch_all(sql, ids=list(agent_ids), now=self._tx.now)
        return {row["recipient_id"]: row["waiting"] for row in rows}

    def count_finished_tasks(self, agent_ids: Sequence[str]) -> list[Row]:
        """Count completed and failed tasks by the agent that claimed each last."""
        sql = """
            SELECT claim.agent_id, task.status, count(*) AS tasks FROM plan_claims AS claim
              JOIN plan_tasks AS task ON task.id = claim.task_id
             WHERE claim.agent_id IN :ids AND task.status IN ('completed', 'failed')
               AND claim.epoch = (SELECT max(epoch) FROM plan_claims WHERE task_id = claim.task_id)
             GROUP BY claim.agent_id, task.status
        """
        return self._tx.fetch_all(sql, ids=list(agent_ids))

    def list_tracked_agents(self, limit: int) -> list[Row]:
        """List the agents named by tasks of active tracked workflows; these are known only by name."""
        sql = """
            SELECT task.agent_name, sum(CASE WHEN task.status = 'in_progress' THEN 1 ELSE 0 END) AS running,
                   sum(CASE WHEN task.status = 'failed' THEN 1 ELSE 0 END) AS failed, count(*) AS tasks,
                   sum(task.tokens) AS tokens, max(task.last_sign_at) AS last_sign_at
              FROM tracked_workflows AS run JOIN tracked_tasks AS task ON task.workflow_id = run.id
             WHERE run.status = 'in_progress' AND task.agent_name IS NOT NULL
             GROUP BY task.agent_name ORDER BY max(task.last_sign_at) DESC, task.agent_name LIMIT :limit
        """
        return self._tx.fetch_all(sql, limit=limit)

    def list_running_tasks(self, names: Sequence[str], limit: int) -> list[Row]:
        """List the running tracked tasks of these agents, newest first."""
        sql = """
            SELECT task.agent_name, task.id, task.name, task.workflow_id, task.started_at, task.areas,
                   run.name AS run_name
              FROM tracked_workflows AS run JOIN tracked_tasks AS task ON task.workflow_id = run.id
             WHERE run.status = 'in_progress' AND task.status = 'in_progress' AND task.agent_name IN :names
             ORDER BY task.started_at DESC, task.created_seq DESC LIMIT :limit
        """
        return self._tx.fetch_all(sql, names=list(names), limit=limit)

    def count_received(self, agent_id: str) -> int:
        """Count all messages an agent ever received, which is the position of the newest."""
        sql = "SELECT coalesce((SELECT received FROM inboxes WHERE agent_id = :id), 0)"
        found: int = self._tx.fetch_value(sql, id=agent_id)
        return found

    def find_registered_by(self, caller: str) -> str | None:
        """Find the agent that this caller registered last, if it is still registered."""
        sql = (
            "SELECT id FROM agents WHERE registered_by = :caller AND unregistered_at IS NULL"
            " ORDER BY created_at DESC, created_seq DESC LIMIT 1"
        )
        found: str | None = self._tx.fetch_value(sql, caller=caller)
        return found
