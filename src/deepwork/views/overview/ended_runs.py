"""Runs of agents that ended lately, with the name of what they worked on."""

from __future__ import annotations

from deepwork.delivery.runner.models import Run
from deepwork.delivery.runner.store import RunStore
from deepwork.kernel.database.transaction import Transaction

_MAX_RUNS = 100


def list_ended_runs(tx: Transaction, since: int) -> list[tuple[Run, str]]:
    """List the runs that ended since then, the newest first."""
    sql = """
        SELECT run.id, coalesce(plans.name, session.job_name || '/' || session.workflow_name, run.id) AS name
          FROM runner_runs AS run
          LEFT JOIN plans ON plans.id = run.workflow_id
          LEFT JOIN job_sessions AS session ON session.id = run.session_id
         WHERE run.ended_at >= :since ORDER BY run.ended_at DESC, run.id LIMIT :most
    """
    names = {row["id"]: row["name"] for row in tx.fetch_all(sql, since=since, most=_MAX_RUNS)}
    return [(run, names[run.id]) for run in RunStore(tx).find_by_ids(names)] if names else []
