"""Queries for what needs a person's attention; each has a limit and an index."""

from __future__ import annotations

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.agents.lease_conditions import HAS_RUN_OUT


class AttentionStore:
    """Reads what waits for a person: blockers, failed tasks, lost claims, used-up budgets, stopped runs, …

    Each method returns up to `limit` rows and the total.
    """

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_blockers(self, limit: int) -> tuple[list[Row], int]:
        """List open issues that need a person, newest first."""
        sql = (
            f"SELECT * FROM issues WHERE {_OPEN_BLOCKER}"
            " ORDER BY created_at DESC, created_seq DESC LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, limit=limit)
        return rows, self._count_all(rows, limit, f"issues WHERE {_OPEN_BLOCKER}")

    def list_approvals(self, limit: int) -> tuple[list[Row], int]:
        """List what waits for the approval of a person, the last asked first."""
        sql = (
            "SELECT id, subject_kind, subject_id, workflow_id, shown, asked_by, asked_at FROM approvals"
            " WHERE status = 'pending' ORDER BY asked_at DESC, created_seq DESC LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, limit=limit)
        return rows, self._count_all(rows, limit, "approvals WHERE status = 'pending'")

    def list_reviews(self, since: int, limit: int) -> tuple[list[Row], int]:
        """List ended tracked tasks with `manual_review_needed` that nobody reviewed, newest first."""
        source = (
            "tracked_tasks AS task"
            f" WHERE task.manual_review_needed AND completed_at >= :since AND {_NOT_REVIEWED}"
        )
        sql = (
            f"SELECT {_TRACKED_COLUMNS}, task.outcome FROM {source}"
            " ORDER BY completed_at DESC, created_seq DESC LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, since=since, limit=limit)
        return rows, self._count_all(rows, limit, source, since=since)

    def list_failed_rounds(self, since: int, limit: int) -> list[Row]:
        """List the last entries of `.deepreview` rules that did not pass, newest first."""
        return self._tx.fetch_all(
            """SELECT last.findings, last.created_at FROM review_rounds AS last
                WHERE last.subject_kind = 'rule' AND NOT last.passed AND last.created_at >= :since
                  AND NOT EXISTS (
                    SELECT 1 FROM review_rounds AS later WHERE later.subject_kind = last.subject_kind
                       AND later.subject_id = last.subject_id AND later.rule = last.rule
                       AND later.number > last.number)
                ORDER BY last.created_at DESC, last.rule LIMIT :limit""",
            since=since,
            limit=limit,
        )

    def list_failed_tracked(self, limit: int) -> tuple[list[Row], int]:
        """List tracked tasks of active workflows that failed and were neither retried nor reviewed."""
        source = f"""{_ACTIVE_TRACKED_TASKS} AND task.status IN ('failed', 'partial_success') AND NOT EXISTS (
            SELECT 1 FROM tracked_tasks AS again WHERE again.workflow_id = task.workflow_id
               AND again.name = task.name AND again.started_at >= task.completed_at AND again.id <> task.id
            ) AND {_NOT_REVIEWED}"""
        sql = (
            f"SELECT {_TRACKED_COLUMNS}, task.outcome FROM {source}"
            " ORDER BY task.completed_at DESC, task.created_seq DESC LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, limit=limit)
        return rows, self._count_all(rows, limit, source)

    def list_stale(self, silent_since: int, limit: int) -> tuple[list[Row], int]:
        """List running tracked tasks without a sign of life since `silent_since`, longest silent first."""
        source = (
            f"{_ACTIVE_TRACKED_TASKS} AND task.status = 'in_progress' AND task.last_sign_at < :silent_since"
        )
        sql = (
            f"SELECT {_TRACKED_COLUMNS} FROM {source}"
            " ORDER BY task.last_sign_at, task.created_seq LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, silent_since=silent_since, limit=limit)
        return rows, self._count_all(rows, limit, source, silent_since=silent_since)

    def list_failed_planned(self, limit: int) -> tuple[list[Row], int]:
        """List the failed tasks of active plans, those without attempts left first."""
        source = """plans JOIN plan_tasks AS task ON task.workflow_id = plans.id
            WHERE plans.status IN ('ready', 'in_progress', 'paused', 'failed') AND task.status = 'failed'"""
        sql = (
            "SELECT task.id, task.name, task.workflow_id, task.error, task.updated_at, task.failures,"
            " task.failures >= task.max_attempts AS waits_for_person"
            f" FROM {source} ORDER BY CASE WHEN task.failures >= task.max_attempts THEN 0 ELSE 1 END,"
            " task.updated_at DESC, plans.created_seq DESC, task.position DESC"
            " LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, limit=limit)
        return rows, self._count_all(rows, limit, source)

    def list_lost_claims(self, limit: int) -> tuple[list[Row], int]:
        """List started tasks of active plans whose claim has expired."""
        source = f"""leases JOIN plan_tasks AS task ON task.id = leases.what
            JOIN plans ON plans.id = task.workflow_id JOIN agents ON agents.id = leases.who
            WHERE leases.who IS NOT NULL AND {HAS_RUN_OUT} AND task.claimed_by = leases.who
              AND task.status IN ('planning', 'in_progress', 'paused')
              AND plans.status IN ('ready', 'in_progress')"""
        sql = (
            "SELECT task.id, task.name, task.workflow_id, leases.who,"
            " CASE WHEN leases.until < :now THEN leases.until ELSE :now END AS until,"
            f" agents.name AS agent_name, agents.last_heartbeat FROM {source}"
            " ORDER BY leases.until DESC, plans.created_seq, task.position LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, now=self._tx.now, limit=limit)
        return rows, self._count_all(rows, limit, source, now=self._tx.now)

    def list_paused_plans(self, limit: int) -> tuple[list[Row], int]:
        """List paused plans with the reason given."""
        sql = """
            SELECT id, name, updated_at, (
                   SELECT reason FROM plan_history WHERE workflow_id = plans.id AND after = 'paused'
                    ORDER BY number DESC LIMIT 1) AS reason
              FROM plans WHERE status = 'paused' ORDER BY updated_at DESC, created_seq DESC LIMIT :limit
        """
        rows = self._tx.fetch_all(sql, limit=limit)
        return rows, self._count_all(rows, limit, "plans WHERE status = 'paused'")

    def list_reached_budgets(self, limit: int) -> tuple[list[Row], int]:
        """List the plans and tasks whose budget is used up, newest first."""
        source = """spending_totals AS total
            LEFT JOIN plan_tasks AS task ON total.subject_kind = 'task' AND task.id = total.subject_id
            JOIN plans ON plans.id = coalesce(task.workflow_id, total.subject_id)
            WHERE total.reached_at IS NOT NULL AND total.subject_kind IN ('plan', 'task')
              AND plans.status IN ('ready', 'in_progress', 'paused', 'failed')
              AND (task.id IS NULL OR task.status NOT IN ('completed', 'skipped'))"""
        sql = (
            "SELECT total.subject_id AS id, coalesce(task.name, plans.name) AS name, task.id AS task_id,"
            " plans.id AS workflow_id, plans.name AS workflow_name, total.reached_at, plans.requirements,"
            f" task.requirements AS task_requirements FROM {source}"
            " ORDER BY total.reached_at DESC, total.subject_id LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, limit=limit)
        return rows, self._count_all(rows, limit, source)

    def list_waiting_runs(self, limit: int) -> tuple[list[Row], int]:
        """List the runs of agents that ended because a person is needed, newest first.

        Not if the work goes on in a later run, or is over.
        """
        source = """runner_runs AS run
            LEFT JOIN plans ON plans.id = run.workflow_id
            LEFT JOIN job_sessions AS session ON session.id = run.session_id
            WHERE run.status = 'needs_person'
              AND (plans.status IN ('ready', 'in_progress', 'paused', 'failed') OR session.status = 'active')
              AND NOT EXISTS (SELECT 1 FROM runner_runs AS later
                   WHERE (later.workflow_id = run.workflow_id OR later.session_id = run.session_id)
                     AND (later.ended_at IS NULL OR later.ended_at > run.ended_at))"""
        sql = (
            "SELECT run.id, coalesce(run.workflow_id, run.session_id) AS workflow_id, run.reason,"
            f" run.ended_at FROM {source} ORDER BY run.ended_at DESC, run.id LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, limit=limit)
        return rows, self._count_all(rows, limit, source)

    def list_parked_attempts(self, limit: int) -> tuple[list[Row], int]:
        """List the attempts of agents that wait for a person or for a budget, newest first."""
        source = "attempts WHERE ended_at IS NULL AND stage = 'parked' AND parked_for IN ('person', 'budget')"
        sql = (
            "SELECT id, task_id, workflow_id, profile, parked_for, reason, updated_at"
            f" FROM {source} ORDER BY updated_at DESC, id LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, limit=limit)
        return rows, self._count_all(rows, limit, source)

    def find_active_plan(self) -> Row | None:
        """Find the plan with tasks to hand out that changed last."""
        return self._tx.fetch_one(
            "SELECT id, name FROM plans WHERE status IN ('ready', 'in_progress')"
            " ORDER BY updated_at DESC, created_seq DESC LIMIT 1"
        )

    def _count_all(self, rows: list[Row], limit: int, source: str, **values: object) -> int:
        """Return the total; counts in the database only if `rows` reached the limit."""
        if len(rows) < limit:
            return len(rows)
        found: int = self._tx.fetch_value(f"SELECT count(*) FROM {source}", **values)
        return found


_OPEN_BLOCKER = "requires_human_review AND resolved_at IS NULL"
# A person decided about a task, or wrote about it, after it ended.
_NOT_REVIEWED = """NOT EXISTS (
    SELECT 1 FROM approvals WHERE approvals.subject_kind = 'tracked_task' AND approvals.subject_id = task.id
       AND approvals.decided_at >= task.completed_at AND approvals.status IN ('given', 'refused'))"""
_TRACKED_COLUMNS = (
    "task.id, task.name, task.workflow_id, task.agent_name, task.started_at, task.completed_at, task.status,"
    " task.last_sign_at"
)
_ACTIVE_TRACKED_TASKS = """tracked_workflows AS run JOIN tracked_tasks AS task ON task.workflow_id = run.id
    WHERE run.status = 'in_progress'"""
