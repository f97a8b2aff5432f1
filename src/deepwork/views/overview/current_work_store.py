"""What agents work on now, and what they did last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from deepwork.kernel.database.engine import Row, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import dataclass
from deepwork.work.agents.lease_conditions import CLOCK_TOLERANCE_MS, IS_VALID


@dataclass(frozen=True)
class ActivityCounts:
    """Current activity in the store, of all processes."""

    open_claims: int
    live_agents: int
    active_sessions: int
    last_event: int
    open_runs: int = 0
    attempts: Mapping[str, int] = field(default_factory=dict)
    """Attempts of agents that have not ended, by stage."""
    landings: Mapping[str, int] = field(default_factory=dict)
    """Landings that have not ended, by status."""
    states: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """What is open, by kind and state."""


class ActivityStore:
    """Counts claims, agents, sessions, runs of agents and events."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def count_activity(self, alive_since: int) -> ActivityCounts:
        """Count everything with three queries that use indexes."""
        sql = f"""
            SELECT (SELECT count(*) FROM leases WHERE who IS NOT NULL AND {IS_VALID}) AS open_claims,
                   (SELECT count(*) FROM agents
                     WHERE silent_since IS NULL AND unregistered_at IS NULL
                       AND last_heartbeat BETWEEN :alive_since AND :now + {CLOCK_TOLERANCE_MS}
                       AND said <> 'offline') AS live_agents,
                   (SELECT count(*) FROM job_sessions WHERE status = 'active') AS active_sessions,
                   (SELECT last_seq FROM event_sequence) AS last_event,
                   (SELECT count(*) FROM runner_runs WHERE ended_at IS NULL) AS open_runs
        """
        row = self._tx.fetch_one(sql, now=self._tx.now, alive_since=alive_since)
        by_stage = "SELECT stage, count(*) AS count FROM attempts WHERE ended_at IS NULL GROUP BY stage"
        attempts = {each["stage"]: each["count"] for each in self._tx.fetch_all(by_stage)}
        by_status = "SELECT status, count(*) AS count FROM landings WHERE ended_at IS NULL GROUP BY status"
        landings = {each["status"]: each["count"] for each in self._tx.fetch_all(by_status)}
        return replace(_parse_counts(row or {}), attempts=attempts, landings=landings)


@row_parser
def _parse_counts(row: Row) -> ActivityCounts:
    counts: dict[str, Any] = {name: int(value) for name, value in row.items()}
    return ActivityCounts(**counts)


MAX_ROWS = 5
MOST_COUNTED = 1000
"""Tasks of a plan are counted up to this number, because hooks must be fast."""


_JOB_COLUMNS = """id, job_name, workflow_name, goal, status, step_id, data, (
    SELECT approvals.id FROM approvals WHERE approvals.subject_kind = 'step' AND approvals.status = 'pending'
       AND approvals.subject_id = job_sessions.id || '/' || job_sessions.step_id) AS approval_id"""


class CurrentWorkStore:
    """Job sessions, claimed tasks, plans, tracked work and unread messages."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_active_jobs(self, limit: int) -> list[Row]:
        """List active job sessions, the last changed first."""
        sql = (
            f"SELECT {_JOB_COLUMNS} FROM job_sessions"
            " WHERE status = 'active' ORDER BY updated_at DESC, created_seq DESC LIMIT :limit"
        )
        return self._tx.fetch_all(sql, limit=limit)

    def find_active_job(self, ids: Sequence[str]) -> Row | None:
        """Find the first of these job sessions that is active."""
        sql = f"SELECT {_JOB_COLUMNS} FROM job_sessions WHERE id IN :ids AND status = 'active'"
        rows = self._tx.fetch_all(sql, ids=list(ids))
        return min(rows, key=lambda row: ids.index(row["id"]), default=None)

    def list_held_tasks(self, agents: Sequence[str]) -> list[Row]:
        """List unfinished tasks held by these agents, their current task first."""
        sql = """
            SELECT task.id, task.name, task.status, task.workflow_id, plans.name AS plan_name,
                   leases.who, leases.until, leases.epoch, tree.path AS workspace_path, tree.branch,
                   task.requirements, plans.requirements AS plan_requirements, task.waits_for,
                   plans.status AS plan_status, (SELECT min(approvals.id) FROM approvals
                     WHERE approvals.subject_id = task.id AND approvals.status = 'pending') AS approval_id
              FROM leases JOIN plan_tasks AS task ON task.id = leases.what
              JOIN plans ON plans.id = task.workflow_id JOIN agents ON agents.id = leases.who
              LEFT JOIN workspaces AS tree ON tree.id = task.workspace_id AND tree.status = 'active'
             WHERE leases.who IN :agents AND task.claimed_by = leases.who
               AND task.status IN ('pending', 'planning', 'in_progress', 'paused')
             ORDER BY CASE WHEN agents.current_task_id = task.id THEN 0 ELSE 1 END, leases.until DESC,
                      plans.created_seq, task.position
             LIMIT :limit
        """
        return self._tx.fetch_all(sql, agents=list(agents), limit=MAX_ROWS)

    def list_tracked_workflows(self, repository: str | None, wanted: str | None) -> list[Row]:
        """List tracked workflows in progress, or only the wanted one, the last changed first."""
        condition = build_where(
            {
                "status = 'in_progress'": True,
                "id = :wanted": wanted,
                "repository_path = :repository": repository,
            }
        )
        sql = (
            "SELECT id, name, objective, current_phase, total_phases, updated_at FROM tracked_workflows"
            f" {condition} ORDER BY updated_at DESC, created_seq DESC LIMIT :limit"
        )
        return self._tx.fetch_all(sql, wanted=wanted, repository=repository, limit=MAX_ROWS)

    def list_open_tracked_tasks(self, workflow_ids: Sequence[str]) -> list[Row]:
        """List tasks of tracked workflows that are in progress."""
        sql = (
            "SELECT id, workflow_id, name, agent_name FROM tracked_tasks"
            " WHERE workflow_id IN :ids AND status = 'in_progress'"
            " ORDER BY started_at, created_seq LIMIT :limit"
        )
        return self._tx.fetch_all(sql, ids=list(workflow_ids), limit=MAX_ROWS)

    def list_open_plans(self, repository: str | None) -> list[Row]:
        """List ready or running plans with their total and done tasks, the last changed first.

        Both counts stop at `MOST_COUNTED` + 1.
        """
        mine = "" if repository is None else " AND repository_path = :repository"
        sql = f"""
            SELECT id, name, updated_at,
                   (SELECT count(*) FROM (SELECT 1 FROM plan_tasks WHERE workflow_id = plans.id
                     LIMIT :most) AS counted) AS total,
                   (SELECT count(*) FROM (SELECT 1 FROM plan_tasks WHERE workflow_id = plans.id
                       AND status IN ('completed', 'skipped') LIMIT :most) AS counted) AS done
              FROM plans WHERE status IN ('ready', 'in_progress'){mine}
             ORDER BY updated_at DESC, created_seq DESC LIMIT :limit
        """
        return self._tx.fetch_all(sql, repository=repository, limit=MAX_ROWS, most=MOST_COUNTED + 1)

    def count_unread(self, agents: Sequence[str]) -> list[Row]:
        """Count unread and urgent messages of each of these agents."""
        sql = """
            SELECT agents.id, agents.name, count(*) AS waiting,
                   sum(CASE WHEN priority = 'urgent' THEN 1 ELSE 0 END) AS urgent
              FROM agents JOIN messages ON recipient_id = agents.id
             WHERE agents.id IN :agents AND messages.status = 'unread'
               AND (expires_at IS NULL OR expires_at > :now)
             GROUP BY agents.id, agents.name ORDER BY agents.id
        """
        return self._tx.fetch_all(sql, agents=list(agents), now=self._tx.now)

    def get_agent_names(self, agents: Sequence[str]) -> dict[str, str]:
        """Return names by id; unregistered agents are left out."""
        sql = "SELECT id, name FROM agents WHERE id IN :agents AND unregistered_at IS NULL"
        rows = self._tx.fetch_all(sql, agents=list(agents))
        return {row["id"]: row["name"] for row in rows}

    def list_setbacks(self, agents: Sequence[str]) -> list[Row]:
        """List those of these agents that are offline, and the claims that others took over meanwhile."""
        sql = """
            SELECT agents.id AS agent_id, agents.silent_since, lost.what AS task_id, lost.lost_at,
                   task.name AS task
              FROM agents LEFT JOIN lost_leases AS lost ON lost.who = agents.id
              LEFT JOIN plan_tasks AS task ON task.id = lost.what
             WHERE agents.id IN :agents AND agents.unregistered_at IS NULL
               AND (agents.silent_since IS NOT NULL OR lost.what IS NOT NULL)
             ORDER BY agents.id, lost.what LIMIT :limit
        """
        return self._tx.fetch_all(sql, agents=list(agents), limit=MAX_ROWS)

    def list_claims(self, limit: int) -> list[Row]:
        """List tasks with an unexpired claim and their holders, the first to expire first."""
        sql = f"""
            SELECT leases.what AS task_id, task.name AS task, task.status, leases.who AS agent_id,
                   agents.name AS agent, leases.until AS until_at
              FROM leases JOIN plan_tasks AS task ON task.id = leases.what
              JOIN plans ON plans.id = task.workflow_id JOIN agents ON agents.id = leases.who
             WHERE {IS_VALID}
             ORDER BY leases.until, plans.created_seq, task.position LIMIT :limit
        """
        return self._tx.fetch_all(sql, now=self._tx.now, limit=limit)

    def list_inboxes(self, limit: int) -> list[Row]:
        """List registered agents with unread messages, the fullest inbox first."""
        sql = """
            SELECT agents.id AS agent_id, agents.name AS agent, count(*) AS unread,
                   sum(CASE WHEN priority = 'urgent' THEN 1 ELSE 0 END) AS urgent
              FROM agents JOIN messages ON recipient_id = agents.id AND messages.status = 'unread'
             WHERE agents.unregistered_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
             GROUP BY agents.id, agents.name ORDER BY count(*) DESC, agents.id LIMIT :limit
        """
        return self._tx.fetch_all(sql, now=self._tx.now, limit=limit)

    def list_ids(self, table: Literal["plans", "tracked_workflows"], beginning: str, limit: int) -> list[str]:
        """List ids of plans or tracked workflows with this prefix, the last changed first."""
        sql = (
            f"SELECT id FROM {table} WHERE substr(id, 1, :length) = :beginning"
            " ORDER BY updated_at DESC, created_seq DESC LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, length=len(beginning), beginning=beginning, limit=limit)
        return [row["id"] for row in rows]
