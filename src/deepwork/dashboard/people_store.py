"""What agents hold, did and have yet to read, as rows."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.database.engine import Row
from deepwork.database.transaction import Transaction


class PeopleStore:
    """Facts on many agents at once."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def held(self, agent_ids: Sequence[str]) -> list[Row]:
        """The tasks that these agents hold by a lease that still runs, and since when."""
        return self._tx.all(
            """
            SELECT leases.who, task.id, task.name, task.workflow_id, task.context, plans.name AS run_name,
                   claim.claimed_at
              FROM leases JOIN plan_tasks AS task ON task.id = leases.what
              JOIN plans ON plans.id = task.workflow_id
              LEFT JOIN plan_claims AS claim ON claim.task_id = task.id AND claim.epoch = leases.epoch
             WHERE leases.who IN :ids AND leases.until >= :now
             ORDER BY claim.claimed_at, plans.created_seq, task.position
            """,
            ids=list(agent_ids), now=self._tx.now,
        )  # fmt: skip

    def unread(self, agent_ids: Sequence[str]) -> dict[str, int]:
        """How many messages wait for each."""
        rows = self._tx.all(
            """
            SELECT recipient_id, count(*) AS waiting FROM messages
             WHERE recipient_id IN :ids AND status = 'unread' AND (expires_at IS NULL OR expires_at > :now)
             GROUP BY recipient_id
            """,
            ids=list(agent_ids), now=self._tx.now,
        )  # fmt: skip
        return {row["recipient_id"]: row["waiting"] for row in rows}

    def finished(self, agent_ids: Sequence[str]) -> list[Row]:
        """How many of the tasks that each was the last to claim were completed, and how many failed."""
        return self._tx.all(
            """
            SELECT claim.agent_id, task.status, count(*) AS tasks FROM plan_claims AS claim
              JOIN plan_tasks AS task ON task.id = claim.task_id
             WHERE claim.agent_id IN :ids AND task.status IN ('completed', 'failed')
               AND claim.epoch = (SELECT max(epoch) FROM plan_claims WHERE task_id = claim.task_id)
             GROUP BY claim.agent_id, task.status
            """,
            ids=list(agent_ids),
        )

    def tracked(self, limit: int) -> list[Row]:
        """Who works in tracked workflows under way: agents that are known by name alone."""
        return self._tx.all(
            """
            SELECT task.agent_name, sum(CASE WHEN task.status = 'in_progress' THEN 1 ELSE 0 END) AS running,
                   sum(CASE WHEN task.status = 'failed' THEN 1 ELSE 0 END) AS failed, count(*) AS tasks,
                   sum(task.tokens) AS tokens, max(task.last_sign_at) AS last_sign_at
              FROM tracked_workflows AS run JOIN tracked_tasks AS task ON task.workflow_id = run.id
             WHERE run.status = 'in_progress' AND task.agent_name IS NOT NULL
             GROUP BY task.agent_name ORDER BY max(task.last_sign_at) DESC, task.agent_name LIMIT :limit
            """,
            limit=limit,
        )

    def at_work(self, names: Sequence[str], limit: int) -> list[Row]:
        """The tracked tasks under way of these agents, the newest first."""
        return self._tx.all(
            """
            SELECT task.agent_name, task.id, task.name, task.workflow_id, task.started_at, task.areas,
                   run.name AS run_name
              FROM tracked_workflows AS run JOIN tracked_tasks AS task ON task.workflow_id = run.id
             WHERE run.status = 'in_progress' AND task.status = 'in_progress' AND task.agent_name IN :names
             ORDER BY task.started_at DESC, task.created_seq DESC LIMIT :limit
            """,
            names=list(names), limit=limit,
        )  # fmt: skip

    def received(self, agent_id: str) -> int:
        """How many messages an agent ever got: the place of the newest in its inbox."""
        found: int = self._tx.value(
            "SELECT coalesce((SELECT received FROM inboxes WHERE agent_id = :id), 0)", id=agent_id
        )
        return found

    def registered_by(self, caller: str) -> str | None:
        """The agent that this caller registered last and that is still there."""
        found: str | None = self._tx.value(
            "SELECT id FROM agents WHERE registered_by = :caller AND unregistered_at IS NULL"
            " ORDER BY created_at DESC, created_seq DESC LIMIT 1",
            caller=caller,
        )
        return found
