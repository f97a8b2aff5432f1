"""Queries for runs of all three kinds: tracked workflows, plans, job sessions."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from deepwork.kernel.database.engine import Row, build_like_pattern, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import dataclass
from deepwork.views.overview.session_rows import SessionRow

TRACK, PLAN, JOB = "track", "plan", "job"
KINDS = (TRACK, PLAN, JOB)

ACTIVE_STATUSES: Mapping[str, tuple[str, ...]] = {
    TRACK: ("in_progress", "blocked"),
    PLAN: ("planning", "ready", "in_progress", "paused"),
    JOB: ("active",),
}
ENDED_STATUSES: Mapping[str, tuple[str, ...]] = {
    TRACK: ("completed", "failed"),
    PLAN: ("completed", "failed", "abandoned"),
    JOB: ("completed", "aborted"),
}
PLAN_OPEN = ("pending", "failed", "planning", "in_progress", "paused")


@dataclass(frozen=True)
class RunFilter:
    """Conditions on the runs of one kind; None means no condition."""

    statuses: tuple[str, ...] | None = None
    words: str | None = None
    agent: str | None = None
    since: Any = None
    until: Any = None
    profile: str | None = None


@dataclass(frozen=True)
class RunOrder:
    """The order of a list of runs; each kind has its own column for `by`."""

    by: str = "updated"
    descending: bool = True


class WorkListStore:
    """Reads runs; the rows of all kinds have the same main columns."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_page(
        self, kind: str, run_filter: RunFilter, order: RunOrder, after: Sequence[Any] | None, limit: int
    ) -> list[Row]:
        """List the next runs of a kind; `sort_key` and `created_seq` are each row's position."""
        query = _KIND_QUERIES[kind]
        key, direction = query.keys[order.by], "DESC" if order.descending else "ASC"
        is_beyond = f"({key}, created_seq) {'<' if order.descending else '>'} (:after_key, :after_seq)"
        conditions = build_where({**query.build_conditions(run_filter), is_beyond: after})
        after_key, after_seq = after or (None, None)
        sql = (
            f"SELECT {query.columns}, created_seq, {key} AS sort_key FROM {query.table} {conditions}"
            f" ORDER BY {key} {direction}, created_seq {direction} LIMIT :limit"
        )
        return self._tx.fetch_all(
            sql, limit=limit, after_key=after_key, after_seq=after_seq, **_build_parameters(run_filter)
        )

    def count(self, kind: str, run_filter: RunFilter) -> int:
        """Count the runs of a kind that match."""
        query = _KIND_QUERIES[kind]
        conditions = build_where(query.build_conditions(run_filter))
        sql = f"SELECT count(*) FROM {query.table} {conditions}"
        found: int = self._tx.fetch_value(sql, **_build_parameters(run_filter))
        return found

    def find(self, kind: str, id: str) -> Row | None:
        """Find a run by id."""
        query = _KIND_QUERIES[kind]
        return self._tx.fetch_one(f"SELECT {query.columns} FROM {query.table} WHERE id = :id", id=id)

    def list_ids(self, kind: str, statuses: Sequence[str], limit: int) -> list[str]:
        """List the ids of the runs of a kind with these stored statuses, the last changed first."""
        sql = (
            f"SELECT id FROM {_KIND_QUERIES[kind].table} WHERE status IN :statuses"
            " ORDER BY updated_at DESC, created_seq DESC LIMIT :limit"
        )
        return [row["id"] for row in self._tx.fetch_all(sql, statuses=list(statuses), limit=limit)]

    def count_by_status(self, kind: str) -> dict[str, int]:
        """Count the runs of a kind by stored status."""
        sql = f"SELECT status, count(*) AS runs FROM {_KIND_QUERIES[kind].table} GROUP BY status"
        rows = self._tx.fetch_all(sql)
        return {row["status"]: row["runs"] for row in rows}

    def count_blocked(self) -> int:
        """Count the active tracked workflows with an open blocker."""
        sql = """
            SELECT count(DISTINCT issues.workflow_id) FROM issues
              JOIN tracked_workflows ON tracked_workflows.id = issues.workflow_id
             WHERE requires_human_review AND resolved_at IS NULL AND status = 'in_progress'
        """
        found: int = self._tx.fetch_value(sql)
        return found

    def count_blockers(self, ids: Sequence[str]) -> dict[str, int]:
        """Count the open blockers of these runs; runs without any are left out."""
        sql = """
            SELECT workflow_id, count(*) AS blockers FROM issues
             WHERE workflow_id IN :ids AND requires_human_review AND resolved_at IS NULL GROUP BY workflow_id
        """
        rows = self._tx.fetch_all(sql, ids=list(ids))
        return {row["workflow_id"]: row["blockers"] for row in rows}

    def count_open_blockers(self) -> int:
        """Count the open blockers of all runs."""
        sql = "SELECT count(*) FROM issues WHERE requires_human_review AND resolved_at IS NULL"
        found: int = self._tx.fetch_value(sql)
        return found

    def count_issues(self, id: str) -> int:
        """Count the issues of a run, open and resolved."""
        found: int = self._tx.fetch_value("SELECT count(*) FROM issues WHERE workflow_id = :id", id=id)
        return found

    def find_names(self, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return kind and name by run id, with one statement for each kind."""
        found: dict[str, tuple[str, str]] = {}
        for kind, its in group_by_kind(ids).items():
            query = _KIND_QUERIES[kind]
            sql = f"SELECT id, {query.name} AS name FROM {query.table} WHERE id IN :ids"
            rows = self._tx.fetch_all(sql, ids=its)
            found |= {row["id"]: (kind, row["name"]) for row in rows}
        return found

    # Totals over the tasks of many runs

    def count_tracked_tasks(self, ids: Sequence[str]) -> list[Row]:
        """Count the tasks of each workflow by status and agent."""
        sql = """
            SELECT workflow_id, status, agent_name, count(*) AS tasks
              FROM tracked_tasks WHERE workflow_id IN :ids GROUP BY workflow_id, status, agent_name
             ORDER BY agent_name, status
        """
        return self._tx.fetch_all(sql, ids=list(ids))

    def sum_spending(self, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return the tokens and millionths of a dollar that the ledger has for each of these, by id."""
        sql = """
            SELECT workflow_id AS id, sum(tokens) AS tokens, sum(usd_micros) AS usd_micros FROM spending
             WHERE workflow_id IN :ids GROUP BY workflow_id
            UNION ALL
            SELECT run.session_id AS id, sum(tokens) AS tokens, sum(usd_micros) AS usd_micros
              FROM runner_runs AS run JOIN spending ON spending.run_id = run.id
             WHERE run.session_id IN :ids GROUP BY run.session_id
        """
        rows = self._tx.fetch_all(sql, ids=list(ids))
        return {row["id"]: (int(row["tokens"]), int(row["usd_micros"])) for row in rows}

    def sum_task_spending(self, task_ids: Sequence[str]) -> dict[str, int]:
        """Return the millionths of a dollar that the ledger has for each of these tasks, by id."""
        sql = """
            SELECT subject_id, usd_micros FROM spending_totals
             WHERE subject_kind = 'task' AND subject_id IN :ids
        """
        rows = self._tx.fetch_all(sql, ids=list(task_ids))
        return {row["subject_id"]: int(row["usd_micros"]) for row in rows}

    def count_planned_tasks(self, ids: Sequence[str]) -> list[Row]:
        """Count the tasks of each plan by status."""
        sql = (
            "SELECT workflow_id, status, count(*) AS tasks FROM plan_tasks"
            " WHERE workflow_id IN :ids GROUP BY workflow_id, status"
        )
        return self._tx.fetch_all(sql, ids=list(ids))

    def find_plan_levels(self, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return the current level and the number of levels of each plan."""
        sql = """
            SELECT task.workflow_id, count(DISTINCT task.sequence) AS levels,
                   count(DISTINCT CASE WHEN task.sequence <= coalesce(at.lowest, task.sequence)
                                       THEN task.sequence END) AS level
              FROM plan_tasks AS task
              LEFT JOIN (SELECT workflow_id, min(sequence) AS lowest FROM plan_tasks
                          WHERE workflow_id IN :ids AND status IN :open GROUP BY workflow_id) AS at
                ON at.workflow_id = task.workflow_id
             WHERE task.workflow_id IN :ids GROUP BY task.workflow_id
        """
        rows = self._tx.fetch_all(sql, ids=list(ids), open=PLAN_OPEN)
        return {row["workflow_id"]: (row["level"], row["levels"]) for row in rows}

    def count_tasks_by_level(self, ids: Sequence[str]) -> list[Row]:
        """Count the tasks of each plan by level and status, in the order of the levels."""
        sql = """
            SELECT workflow_id, sequence, status, count(*) AS tasks FROM plan_tasks
             WHERE workflow_id IN :ids GROUP BY workflow_id, sequence, status ORDER BY sequence
        """
        return self._tx.fetch_all(sql, ids=list(ids))

    def list_phase_statuses(self, ids: Sequence[str]) -> list[Row]:
        """List the phases of these tracked workflows that have started."""
        sql = "SELECT workflow_id, number, status FROM phases WHERE workflow_id IN :ids"
        return self._tx.fetch_all(sql, ids=list(ids))

    def list_plan_holders(self, ids: Sequence[str]) -> list[Row]:
        """List the agents that hold tasks of these plans."""
        sql = """
            SELECT DISTINCT task.workflow_id, agents.name FROM plan_tasks AS task
              JOIN agents ON agents.id = task.claimed_by
             WHERE task.workflow_id IN :ids AND task.claimed_by IS NOT NULL ORDER BY agents.name
        """
        return self._tx.fetch_all(sql, ids=list(ids))

    def count_files(self, ids: Sequence[str]) -> dict[str, int]:
        """Count the files that each run changed."""
        sql = (
            "SELECT workflow_id, count(*) AS files FROM (SELECT DISTINCT workflow_id, path FROM changed_files"
            " WHERE workflow_id IN :ids) AS found GROUP BY workflow_id"
        )
        rows = self._tx.fetch_all(sql, ids=list(ids))
        return {row["workflow_id"]: row["files"] for row in rows}

    def find_last_milestones(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the newest milestone message of each run that has one."""
        rows = self._tx.fetch_all(
            " UNION ALL ".join(
                f"""
                SELECT id, (SELECT message FROM milestones WHERE workflow_id = {query.table}.id
                             ORDER BY created_at DESC, created_seq DESC LIMIT 1) AS message
                  FROM {query.table} WHERE id IN :ids
                """
                for query in _KIND_QUERIES.values()
            ),
            ids=list(ids),
        )
        return {row["id"]: row["message"] for row in rows if row["message"]}

    def list_plan_changes(self, id: str, limit: int) -> list[Row]:
        """List the history of a plan, newest first, without routine claims, releases and updates."""
        sql = (
            "SELECT at, what, task_id, before, after, reason, by_whom FROM plan_history"
            " WHERE workflow_id = :id AND what NOT IN ('claimed', 'released', 'updated')"
            " ORDER BY number DESC LIMIT :limit"
        )
        return self._tx.fetch_all(sql, id=id, limit=limit)

    def find_sessions(self, ids: Sequence[str]) -> list[Row]:
        """Return the job sessions with these ids."""
        sql = f"SELECT {_KIND_QUERIES[JOB].columns}, created_seq FROM job_sessions WHERE id IN :ids"
        return self._tx.fetch_all(sql, ids=list(ids))

    def list_active_sessions(self, limit: int) -> list[Row]:
        """List the active job sessions, last changed first."""
        sql = (
            f"SELECT {_KIND_QUERIES[JOB].columns}, created_seq FROM job_sessions WHERE status = 'active'"
            " ORDER BY updated_at DESC, created_seq DESC LIMIT :limit"
        )
        return self._tx.fetch_all(sql, limit=limit)


def name_work(tx: Transaction, ids: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return kind and name of plans, tracked workflows and job sessions, by their ids."""
    return WorkListStore(tx).find_names(list(ids))


def get_run_kind(id: str) -> str:
    """Return the kind of a run by the prefix of its id."""
    return TRACK if id.startswith("tw_") else PLAN if id.startswith("wf_") else JOB


def group_by_kind(ids: Sequence[str]) -> dict[str, list[str]]:
    """Group these ids by kind of run."""
    found: dict[str, list[str]] = {}
    for id in dict.fromkeys(ids):
        found.setdefault(get_run_kind(id), []).append(id)
    return found


@dataclass(frozen=True)
class _KindQuery:
    """SQL fragments to read one kind of run."""

    table: str
    columns: str
    name: str
    keys: Mapping[str, str]
    status: str
    words: str
    agent: str
    started: str

    def build_conditions(self, run_filter: RunFilter) -> dict[str, Any]:
        needs_blockers = _depends_on_blockers(run_filter.statuses)
        return {
            "status IN :stored": run_filter.statuses,
            f"{self.status} IN :statuses": run_filter.statuses if needs_blockers else None,
            self.words: run_filter.words,
            self.agent: run_filter.agent,
            "profile = :profile": run_filter.profile,
            f"{self.started} >= :since": run_filter.since,
            f"{self.started} < :until": run_filter.until,
        }


def _depends_on_blockers(statuses: Sequence[str] | None) -> bool:
    """Return whether the filter distinguishes blocked runs from running ones.

    "blocked" is derived, not stored: a blocked run is stored as `in_progress`. If both or neither are
    requested, the stored status is enough and the subquery for open blockers is not needed.
    """
    return bool(statuses) and ("blocked" in (statuses or ())) != ("in_progress" in (statuses or ()))


def _to_stored_statuses(statuses: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Convert statuses to stored ones: a blocked run is stored as `in_progress`."""
    return statuses and tuple({"blocked": "in_progress"}.get(word, word) for word in statuses)


def _build_parameters(run_filter: RunFilter) -> dict[str, Any]:
    found = {
        "words": build_like_pattern((run_filter.words or "").lower()),
        "stored": _to_stored_statuses(run_filter.statuses),
    }
    return {**vars(run_filter), **found}


_MAX_OBJECTIVE = 300

_KIND_QUERIES: Mapping[str, _KindQuery] = {
    TRACK: _KindQuery(
        table="tracked_workflows",
        columns=f"""id, 'track' AS kind, name, substr(objective, 1, {_MAX_OBJECTIVE + 1}) AS objective,
            status, profile, current_phase, total_phases, created_at AS started_at, completed_at AS ended_at,
            updated_at""",
        name="name",
        keys={"started": "created_at", "updated": "updated_at", "name": "lower(name)"},
        status="""CASE WHEN status = 'in_progress' AND EXISTS (
            SELECT 1 FROM issues WHERE issues.workflow_id = tracked_workflows.id
               AND requires_human_review AND resolved_at IS NULL) THEN 'blocked' ELSE status END""",
        words="(lower(name) LIKE :words ESCAPE '!' OR lower(objective) LIKE :words ESCAPE '!'"
        " OR id LIKE :words ESCAPE '!')",
        agent="EXISTS (SELECT 1 FROM tracked_tasks AS task WHERE task.workflow_id = tracked_workflows.id"
        " AND task.agent_name = :agent)",
        started="created_at",
    ),
    PLAN: _KindQuery(
        table="plans",
        columns=f"""id, 'plan' AS kind, name, substr(source_content, 1, {_MAX_OBJECTIVE + 1}) AS objective,
            status, created_at AS started_at, updated_at,
            CASE WHEN status IN ('completed', 'failed', 'abandoned') THEN updated_at END AS ended_at""",
        name="name",
        keys={"started": "created_at", "updated": "updated_at", "name": "lower(name)"},
        status="status",
        words="(lower(name) LIKE :words ESCAPE '!' OR lower(source_content) LIKE :words ESCAPE '!'"
        " OR id LIKE :words ESCAPE '!')",
        agent="""EXISTS (
            SELECT 1 FROM plan_tasks AS task JOIN plan_claims AS claim ON claim.task_id = task.id
              JOIN agents ON agents.id = claim.agent_id
             WHERE task.workflow_id = plans.id AND agents.name = :agent)""",
        started="created_at",
    ),
    JOB: _KindQuery(
        table="job_sessions",
        columns="id, 'job' AS kind, job_name || '/' || workflow_name AS name, goal, status, step_id,"
        " started_at, updated_at, data",
        name="job_name || '/' || workflow_name",
        keys={
            "started": "started_at",
            "updated": "updated_at",
            "name": "lower(job_name || '/' || workflow_name)",
        },
        status="status",
        words="(lower(job_name || '/' || workflow_name) LIKE :words ESCAPE '!' OR id LIKE :words ESCAPE '!'"
        " OR lower(goal) LIKE :words ESCAPE '!')",
        agent="1 = 0",  # steps of jobs have no agent
        started="started_at",
    ),
}


@row_parser
def parse_session_row(row: Row) -> SessionRow:
    """Parse a row into a session."""
    return SessionRow(
        row["id"],
        row["name"],
        row["goal"],
        row["status"],
        row["step_id"],
        json.loads(row["data"]),
        row["updated_at"],
        row.get("created_seq", 0),
    )
