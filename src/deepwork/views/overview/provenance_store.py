"""Queries for everything that is known about tasks of all kinds, by their ids: the chain behind a commit."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from deepwork.delivery.provenance.rules import AttemptIdentity
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction

_MAX_ROWS = 2_000


class ProvenanceStore:
    """Reads facts about many tasks, with one statement for each kind of fact."""

    def __init__(self, tx: Transaction, task_ids: Collection[str]) -> None:
        self._tx = tx
        self._ids = sorted(task_ids)

    def list_planned_tasks(self) -> list[Row]:
        """List planned tasks with their plans."""
        return self._fetch(
            """
            SELECT task.id, task.name, task.description, task.status, task.outcome, task.workflow_id,
                   plans.name AS goal_name, plans.source_content AS goal_text
              FROM plan_tasks AS task JOIN plans ON plans.id = task.workflow_id WHERE task.id IN :ids
            """
        )

    def list_tracked_tasks(self) -> list[Row]:
        """List tracked tasks with their workflows."""
        return self._fetch(
            """
            SELECT task.id, task.name, task.goal AS description, task.status, task.outcome, task.workflow_id,
                   task.agent_name, task.tokens, work.name AS goal_name, work.objective AS goal_text
              FROM tracked_tasks AS task JOIN tracked_workflows AS work ON work.id = task.workflow_id
             WHERE task.id IN :ids
            """
        )

    def list_sessions(self) -> list[Row]:
        """List the sessions of jobs whose steps are among the tasks."""
        sessions = sorted({id.partition("/")[0] for id in self._ids if "/" in id})
        sql = """
            SELECT id, job_name || '/' || workflow_name AS name, goal, status, step_id, data, updated_at
              FROM job_sessions WHERE id IN :ids
        """
        return self._tx.fetch_all(sql, ids=sessions) if sessions else []

    def list_decisions(self) -> list[Row]:
        """List the decisions that were recorded with the tasks, also as checkpoints of planned tasks."""
        return self._fetch(
            """
            SELECT id, task_id, question, chosen, reasoning, created_at, created_seq AS place
              FROM decisions WHERE task_id IN :ids
             UNION ALL
            SELECT id, task_id, '' AS question, summary AS chosen, detail AS reasoning, created_at,
                   sequence AS place
              FROM checkpoints WHERE task_id IN :ids AND type = 'decision'
             ORDER BY created_at, place, id LIMIT :limit
            """
        )

    def list_proofs(self) -> list[Row]:
        """List the proofs with which the tasks counted as done."""
        return self._fetch(
            """
            SELECT uses.subject_id AS task_id, proofs.id, proofs.check_name, proofs.created_at,
                   proofs.waived_by,
                   CASE WHEN proofs.waived_by IS NULL THEN proofs.verdict ELSE 'waived' END AS verdict
              FROM proof_uses AS uses JOIN proofs ON proofs.id = uses.proof_id
             WHERE uses.subject_id IN :ids AND uses.subject_kind IN ('task', 'tracked_task', 'step')
             ORDER BY uses.used_at, proofs.check_name, proofs.id LIMIT :limit
            """
        )

    def list_approvals(self, goal_ids: Sequence[str]) -> list[Row]:
        """List what people decided about the tasks, and about the plans that they belong to."""
        sql = """
            SELECT id, subject_kind, subject_id, status, decided_by, decided_at, comment FROM approvals
             WHERE subject_id IN :ids AND decided_by IS NOT NULL
             ORDER BY decided_at, created_seq LIMIT :limit
        """
        return self._tx.fetch_all(sql, ids=[*self._ids, *goal_ids], limit=_MAX_ROWS)

    def list_attempts(self) -> list[Row]:
        """List the attempts at the tasks."""
        return self._fetch(
            """
            SELECT id, task_id, number, stage, agent_id, profile, vendor, vendor_session, starts, host,
                   input_tokens + cached_tokens + output_tokens AS tokens, usd_micros, usd_source
              FROM attempts WHERE task_id IN :ids ORDER BY task_id, number LIMIT :limit
            """
        )

    def list_spending(self) -> list[Row]:
        """Sum what each agent and model cost for each task."""
        return self._fetch(
            """
            SELECT task_id, agent_id, model, sum(tokens) AS tokens, sum(usd_micros) AS usd_micros
              FROM spending WHERE task_id IN :ids GROUP BY task_id, agent_id, model
             ORDER BY task_id, agent_id, model LIMIT :limit
            """
        )

    def list_holders(self) -> list[Row]:
        """List the agents that claimed the tasks."""
        return self._fetch(
            """
            SELECT claim.task_id, agents.id, agents.name, agents.runtime, agents.role
              FROM plan_claims AS claim JOIN agents ON agents.id = claim.agent_id
             WHERE claim.task_id IN :ids ORDER BY claim.task_id, claim.epoch LIMIT :limit
            """
        )

    def list_landings(self) -> list[Row]:
        """List the landings of the tasks."""
        return self._fetch(
            """
            SELECT id, task_id, status, target, branch, merge_commit, ended_at FROM landings
             WHERE task_id IN :ids ORDER BY created_at, created_seq LIMIT :limit
            """
        )

    def _fetch(self, sql: str) -> list[Row]:
        return self._tx.fetch_all(sql, ids=self._ids, limit=_MAX_ROWS) if self._ids else []


def list_running_tasks(tx: Transaction, host: str, tree: str, limit: int) -> list[str]:
    """List the tasks that run in a working tree now."""
    sql = (
        "SELECT task_id FROM watches WHERE host = :host AND tree_path = :tree AND ended_at IS NULL"
        " ORDER BY began_at, task_id LIMIT :limit"
    )
    return [row["task_id"] for row in tx.fetch_all(sql, host=host, tree=tree, limit=limit)]


_BATCH_SIZE = 500
"""SQLite takes the square of their number to bind named values."""


class StoredWork:
    """Looks up attempts, tasks and landings for `provenance`, which does not know their tables."""

    def find_attempts(self, tx: Transaction, ids: Collection[str]) -> dict[str, AttemptIdentity]:
        """Return the attempts with these ids, by id."""
        rows = _fetch(tx, "SELECT id, task_id, agent_id FROM attempts WHERE id IN :ids", ids)
        return {row["id"]: AttemptIdentity(row["id"], row["task_id"], row["agent_id"]) for row in rows}

    def find_tasks(self, tx: Transaction, ids: Collection[str]) -> set[str]:
        """Return which of these ids are planned tasks, tracked tasks or steps of jobs."""
        steps = {id for id in ids if "/" in id}
        tracked_ids = {id for id in ids if id.startswith("tt_")}
        planned = _fetch(tx, "SELECT id FROM plan_tasks WHERE id IN :ids", set(ids) - steps - tracked_ids)
        tracked = _fetch(tx, "SELECT id FROM tracked_tasks WHERE id IN :ids", tracked_ids)
        return {row["id"] for row in (*planned, *tracked)} | _find_steps(tx, steps)

    def find_landings(self, tx: Transaction, ids: Collection[str]) -> set[str]:
        """Return which of these ids are landings."""
        return {row["id"] for row in _fetch(tx, "SELECT id FROM landings WHERE id IN :ids", ids)}


def _find_steps(tx: Transaction, ids: Collection[str]) -> set[str]:
    sessions = {id.partition("/")[0] for id in ids}
    rows = _fetch(tx, "SELECT id, data FROM job_sessions WHERE id IN :ids", sessions)
    steps = {
        f"{row['id']}/{step}"
        for row in rows
        for entry in json.loads(row["data"]).get("entries", ())
        for step in entry["steps"]
    }
    return steps & set(ids)


def _fetch(tx: Transaction, sql: str, ids: Collection[str]) -> list[dict[str, str]]:
    wanted = sorted(ids)
    starts = range(0, len(wanted), _BATCH_SIZE)
    return [row for start in starts for row in tx.fetch_all(sql, ids=wanted[start : start + _BATCH_SIZE])]
