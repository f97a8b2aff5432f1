"""The facts that states are computed from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from deepwork.delivery.runner.attempt_files import is_driven
from deepwork.kernel.config import STATE_FOLDER, Settings
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.files.private import read_state_file
from deepwork.kernel.records import dataclass
from deepwork.views.overview.states.work_rules import MAX_NAMED
from deepwork.work.agents.lease_conditions import IS_VALID
from deepwork.work.jobs.sessions.files import has_exited
from deepwork.work.workspaces.models import LOCAL_HOST


@dataclass(frozen=True)
class LocalProcesses:
    """Looks at the locks and session files of this machine."""

    host: str = LOCAL_HOST
    state_folder: Path | None = None
    lease_ms: int = 90_000
    """For how long a sign of life of another machine counts."""

    def is_driven(self, id: str, repository_path: str = "") -> bool | None:
        """Return whether a process here looks after a run or an attempt; None if that is not known.

        Runs of other projects in the same store keep their locks in the repository of their plan.
        """
        folders = [self.state_folder, Path(repository_path, STATE_FOLDER) if repository_path else None]
        known = [is_driven(folder, id) for folder in folders if folder is not None]
        return next((found for found in known if found is not None), None)

    def has_session_ended(self, session_id: str) -> bool | None:
        """Return whether the process that works on a job session is gone; None if that is not known."""
        if self.state_folder is None:
            return None
        try:
            content = read_state_file(self.state_folder / "tmp" / f"session_{session_id}.json")
            owner = json.loads(content).get("owner")
        except (OSError, ValueError, AttributeError):  # of another project, or damaged
            return None
        return has_exited(owner) if isinstance(owner, str) else None


UNKNOWN_PROCESSES = LocalProcesses()
"""Knows of no process: only signs of life in the store count."""


def build_local_processes(settings: Settings) -> LocalProcesses:
    """Build it for a project."""
    return LocalProcesses(settings.machine, settings.state_folder, settings.lease_seconds * 1000)


OF_PLANS, OF_TASKS = "task.workflow_id IN :ids", "task.id IN :ids"
"""Which tasks are read: all of some plans, or some tasks."""
IS_SPECIAL = """(task.status IN ('planning', 'in_progress', 'paused', 'failed') OR task.claimed_by IS NOT NULL
    OR task.id IN (
        SELECT subject_id FROM landings WHERE workflow_id IN :ids AND ended_at IS NULL
         UNION ALL
        SELECT subject_id FROM approvals WHERE workflow_id IN :ids AND status IN ('pending', 'refused')
         UNION ALL
        SELECT task_id FROM attempts WHERE workflow_id IN :ids AND ended_at IS NULL
         UNION ALL
        SELECT subject_id FROM spending_totals WHERE subject_kind = 'task' AND reached_at IS NOT NULL))"""
"""Tasks of plans that are judged one by one; the others are counted by the database."""
HAS_WORK = """(task.workspace_id IS NOT NULL
    OR task.id IN (SELECT task_id FROM landings WHERE workflow_id IN :ids AND status = 'landed'))"""
"""Tasks that may land, or have landed; a count needs only their number."""


class StateStore:
    """Reads facts about plans, tasks, runs, landings, jobs and tracked work."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    # Plans and their tasks

    def list_tasks(self, scope: str, ids: Sequence[str]) -> list[Row]:
        """List tasks in the order of their plans, whether their claims are valid, and where their work is."""
        sql = f"""
            SELECT task.id, task.workflow_id, task.status, task.sequence, task.is_explicit,
                   task.open_dependencies, task.claimed_by, task.waits_for, task.updated_at,
                   task.failures >= task.max_attempts AS is_used_up, task.finished_at,
                   CASE WHEN task.claimed_by IS NOT NULL AND EXISTS (SELECT 1 FROM leases
                        WHERE leases.what = task.id AND leases.who = task.claimed_by AND {IS_VALID})
                        THEN 1 ELSE 0 END AS is_alive,
                   tree.status AS tree_status, tree.host AS tree_host
              FROM plan_tasks AS task LEFT JOIN workspaces AS tree ON tree.id = task.workspace_id
             WHERE {scope} ORDER BY task.workflow_id, task.sequence, task.position
        """
        return self._tx.fetch_all(sql, ids=list(ids), now=self._tx.now)

    def list_plain_rows(self, plan_id: str) -> list[Row]:
        """List all tasks of a plan, with no more than says what they wait for."""
        sql = """
            SELECT id, workflow_id, status, sequence, is_explicit, open_dependencies FROM plan_tasks
             WHERE workflow_id = :id
        """
        return self._tx.fetch_all(sql, id=plan_id)

    def count_tasks(self, plan_ids: Sequence[str]) -> list[Row]:
        """Count the tasks of plans by level and status; `plain` ones are not judged one by one."""
        sql = f"""
            SELECT workflow_id, sequence, status, count(*) AS tasks, sum(plain) AS plain,
                   sum(CASE WHEN is_explicit AND open_dependencies > 0 THEN plain ELSE 0 END) AS waiting,
                   sum(CASE WHEN is_explicit THEN 0 ELSE plain END) AS implied
              FROM (SELECT task.workflow_id, task.sequence, task.status, task.is_explicit,
                           task.open_dependencies, CASE WHEN {IS_SPECIAL} THEN 0 ELSE 1 END AS plain
                      FROM plan_tasks AS task WHERE task.workflow_id IN :ids) AS found
             GROUP BY workflow_id, sequence, status ORDER BY workflow_id, sequence
        """
        return self._tx.fetch_all(sql, ids=list(plan_ids))

    def list_open_dependencies(self, scope: str, ids: Sequence[str]) -> list[Row]:
        """List the first open tasks that tasks with `depends_on` wait for, and how many there are."""
        sql = f"""
            SELECT id, name, total FROM (
                SELECT task.id, other.name, count(*) OVER (PARTITION BY task.id) AS total, row_number() OVER (
                           PARTITION BY task.id ORDER BY other.sequence, other.position) AS place
                  FROM plan_tasks AS task JOIN plan_dependencies AS need ON need.task_id = task.id
                  JOIN plan_tasks AS other ON other.id = need.depends_on_id
                 WHERE {scope} AND task.is_explicit AND task.open_dependencies > 0
                   AND task.status = 'pending' AND other.status NOT IN ('completed', 'skipped')) AS found
             WHERE place <= :most ORDER BY id, place
        """
        return self._tx.fetch_all(sql, ids=list(ids), most=MAX_NAMED)

    def list_levels(self, plan_ids: Sequence[str]) -> list[Row]:
        """List the levels of plans, and how many tasks of each are open."""
        sql = """
            SELECT workflow_id, sequence,
                   sum(CASE WHEN status IN ('completed', 'skipped') THEN 0 ELSE 1 END) AS open
              FROM plan_tasks WHERE workflow_id IN :ids GROUP BY workflow_id, sequence
             ORDER BY workflow_id, sequence
        """
        return self._tx.fetch_all(sql, ids=list(plan_ids))

    def list_open_of_levels(self, plan_ids: Sequence[str]) -> list[Row]:
        """List the first open tasks of each level of plans."""
        sql = """
            SELECT workflow_id, sequence, name FROM (
                SELECT workflow_id, sequence, name, position,
                       row_number() OVER (PARTITION BY workflow_id, sequence ORDER BY position) AS place
                  FROM plan_tasks
                 WHERE workflow_id IN :ids AND status NOT IN ('completed', 'skipped')) AS found
             WHERE place <= :most ORDER BY workflow_id, sequence, place
        """
        return self._tx.fetch_all(sql, ids=list(plan_ids), most=MAX_NAMED)

    def list_plans(self, ids: Sequence[str]) -> list[Row]:
        """List the ids and statuses of plans."""
        return self._tx.fetch_all("SELECT id, status FROM plans WHERE id IN :ids", ids=list(ids))

    def list_plans_of(self, task_ids: Sequence[str]) -> list[str]:
        """List the plans that these tasks belong to."""
        sql = "SELECT DISTINCT workflow_id FROM plan_tasks WHERE id IN :ids ORDER BY workflow_id"
        return [row["workflow_id"] for row in self._tx.fetch_all(sql, ids=list(task_ids))]

    def find_asked(self, plan_ids: Sequence[str]) -> dict[tuple[str, str], tuple[str, bool]]:
        """Map (kind, subject) to the approval that it waits for, and whether a person refused it.

        A refusal holds up only what has not begun: the newest request of a plan, or of a task before it.
        """
        sql = """
            SELECT subject_kind, subject_id, id, status FROM approvals
             WHERE workflow_id IN :ids AND status <> 'stale'
               AND (status = 'pending' OR subject_kind IN ('plan', 'task_before')) ORDER BY created_seq
        """
        newest = {
            (row["subject_kind"], row["subject_id"]): row
            for row in self._tx.fetch_all(sql, ids=list(plan_ids))
        }
        return {
            about: (row["id"], row["status"] == "refused")
            for about, row in newest.items()
            if row["status"] in ("pending", "refused")
        }

    def find_pending_approvals(self, subject_ids: Sequence[str]) -> dict[str, str]:
        """Map subjects of any kind to the approval that they wait for."""
        sql = "SELECT subject_id, id FROM approvals WHERE status = 'pending' AND subject_id IN :ids"
        return {row["subject_id"]: row["id"] for row in self._tx.fetch_all(sql, ids=list(subject_ids))}

    def find_used_up_budgets(self, plan_ids: Sequence[str]) -> set[str]:
        """Return the ids of plans, and of tasks of these, whose budget is used up."""
        sql = """
            SELECT total.subject_id AS id FROM spending_totals AS total
              LEFT JOIN plan_tasks AS task ON total.subject_kind = 'task' AND task.id = total.subject_id
             WHERE total.reached_at IS NOT NULL AND total.subject_kind IN ('plan', 'task')
               AND coalesce(task.workflow_id, total.subject_id) IN :ids
        """
        return {row["id"] for row in self._tx.fetch_all(sql, ids=list(plan_ids))}

    def find_landed_tasks(self, plan_ids: Sequence[str]) -> dict[str, int]:
        """Map tasks of plans that have landed to when; a task may have been completed again since."""
        sql = """
            SELECT task_id, max(ended_at) AS at FROM landings
             WHERE workflow_id IN :ids AND kind = 'task' AND status = 'landed' GROUP BY task_id
        """
        return {row["task_id"]: row["at"] for row in self._tx.fetch_all(sql, ids=list(plan_ids))}

    def count_landed(self, plan_ids: Sequence[str]) -> dict[str, int]:
        """Count the completed tasks of plans whose work has landed or was merged."""
        sql = f"""
            SELECT workflow_id, count(*) AS landed FROM (
                SELECT task.workflow_id, task.id FROM landings AS landing
                  JOIN plan_tasks AS task ON task.id = landing.task_id
                 WHERE landing.workflow_id IN :ids AND task.status = 'completed' AND {_HAS_LANDED}
                 UNION
                SELECT task.workflow_id, task.id FROM workspaces AS tree
                  JOIN plan_tasks AS task ON task.workspace_id = tree.id
                 WHERE tree.workflow_id IN :ids AND tree.status = 'merged' AND task.status = 'completed'
            ) AS found GROUP BY workflow_id
        """
        return {row["workflow_id"]: row["landed"] for row in self._tx.fetch_all(sql, ids=list(plan_ids))}

    def count_landable(self, plan_ids: Sequence[str], host: str) -> dict[str, int]:
        """Count the completed tasks of plans whose work is in a tree of this machine and has not landed."""
        sql = f"""
            SELECT task.workflow_id, count(*) AS tasks FROM workspaces AS tree
              JOIN plan_tasks AS task ON task.workspace_id = tree.id
             WHERE tree.workflow_id IN :ids AND tree.status = 'active' AND tree.host = :host
               AND task.status = 'completed' AND NOT EXISTS (
                   SELECT 1 FROM landings AS landing WHERE landing.subject_id = task.id
                      AND (landing.ended_at IS NULL OR {_HAS_LANDED}))
             GROUP BY task.workflow_id
        """
        rows = self._tx.fetch_all(sql, ids=list(plan_ids), host=host)
        return {row["workflow_id"]: row["tasks"] for row in rows}

    # Runs

    def list_open_run_ids(self, column: str, ids: Sequence[str]) -> list[str]:
        """List the runs that have not ended of plans (`workflow_id`) or job sessions (`session_id`)."""
        sql = (
            f"SELECT id FROM runner_runs WHERE {column} IN :ids AND ended_at IS NULL ORDER BY created_at, id"
        )
        return [row["id"] for row in self._tx.fetch_all(sql, ids=list(ids))]

    def find_plans_of_runs(self, ids: Sequence[str]) -> dict[str, Row]:
        """Find what became of the plans of these runs: `is_done`, and `is_continued` by a later run."""
        sql = """
            SELECT run.id, CASE WHEN plans.status = 'completed' THEN 1 ELSE 0 END AS is_done,
                   (SELECT count(*) FROM runner_runs AS later
                     WHERE later.workflow_id = run.workflow_id AND later.created_at > run.created_at)
                   AS is_continued
              FROM runner_runs AS run JOIN plans ON plans.id = run.workflow_id WHERE run.id IN :ids
        """
        return {row["id"]: row for row in self._tx.fetch_all(sql, ids=list(ids))}

    def list_left_sessions(self, ids: Sequence[str]) -> list[Row]:
        """List those of these sessions that nobody changed since their last run ended.

        With that run, and the stage of the last attempt at the current step.
        """
        sql = """
            SELECT session.id, run.id AS run_id,
                   (SELECT stage FROM attempts WHERE attempts.run_id = run.id
                       AND attempts.task_id = session.id || '/' || session.step_id
                     ORDER BY attempts.created_at DESC, attempts.number DESC LIMIT 1) AS stage
              FROM job_sessions AS session JOIN runner_runs AS run ON run.session_id = session.id
             WHERE session.id IN :ids AND run.ended_at >= session.updated_at
               AND NOT EXISTS (SELECT 1 FROM runner_runs AS later WHERE later.session_id = session.id
                                  AND (later.created_at, later.id) > (run.created_at, run.id))
        """
        return self._tx.fetch_all(sql, ids=list(ids))

    def list_hosts(self, run_ids: Sequence[str]) -> list[Row]:
        """List the machines of runs, and how many agents each may start."""
        sql = "SELECT run_id, host, agents FROM runner_hosts WHERE run_id IN :ids ORDER BY host"
        return self._tx.fetch_all(sql, ids=list(run_ids))

    def find_heartbeats(self, agent_ids: Iterable[str]) -> dict[str, int]:
        """Map agents to their last sign of life."""
        sql = "SELECT id, last_heartbeat FROM agents WHERE id IN :ids"
        return {row["id"]: row["last_heartbeat"] for row in self._tx.fetch_all(sql, ids=sorted(agent_ids))}

    # Landings

    def find_held_branches(self) -> set[str]:
        """Return the branches that a process may move now."""
        sql = "SELECT branch FROM branch_leases WHERE holder IS NOT NULL AND until >= :now"
        return {row["branch"] for row in self._tx.fetch_all(sql, now=self._tx.now)}

    # Tracked work

    def find_blockers(self, workflow_ids: Sequence[str]) -> list[Row]:
        """List the open blockers of tracked workflows and job sessions, the oldest first."""
        sql = """
            SELECT id, workflow_id, task_id FROM issues WHERE workflow_id IN :ids
               AND requires_human_review AND resolved_at IS NULL ORDER BY created_at, created_seq
        """
        return self._tx.fetch_all(sql, ids=list(workflow_ids))

    def list_tracks(self, ids: Sequence[str]) -> list[Row]:
        """List tracked workflows, each with the last sign of life of a running task and a silent one."""
        sql = """
            SELECT run.id, run.status, run.updated_at, max(task.last_sign_at) AS last_sign_at,
                   min(task.id) AS task_id
              FROM tracked_workflows AS run LEFT JOIN tracked_tasks AS task
                ON task.workflow_id = run.id AND task.status = 'in_progress'
             WHERE run.id IN :ids GROUP BY run.id, run.status, run.updated_at
        """
        return self._tx.fetch_all(sql, ids=list(ids))

    def list_tracked_tasks(self, condition: str, ids: Sequence[str]) -> list[Row]:
        """List tracked tasks (`id` or `workflow_id`), and whether a person said what they think of them."""
        sql = f"""
            SELECT task.id, task.workflow_id, task.status, task.last_sign_at, task.manual_review_needed,
                   run.status AS workflow_status,
                   CASE WHEN task.completed_at IS NOT NULL AND EXISTS (
                        SELECT 1 FROM approvals WHERE approvals.subject_kind = 'tracked_task'
                           AND approvals.subject_id = task.id AND approvals.decided_at >= task.completed_at
                           AND approvals.status IN ('given', 'refused')) THEN 1 ELSE 0 END AS was_reviewed
              FROM tracked_tasks AS task JOIN tracked_workflows AS run ON run.id = task.workflow_id
             WHERE task.{condition} IN :ids
        """
        return self._tx.fetch_all(sql, ids=list(ids))


_HAS_LANDED = """landing.kind = 'task' AND landing.status = 'landed'
    AND landing.ended_at >= coalesce(task.finished_at, 0)"""
