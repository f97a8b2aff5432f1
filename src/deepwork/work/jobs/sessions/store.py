"""Mirrors job sessions to the database for the dashboard and other machines; the files are authoritative."""

from __future__ import annotations

import json
from typing import Any

from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.jobs.sessions.state import Session
from deepwork.work.tracking.models import JobSessionState

_GATES = ("checks", "approvals", "minutes")
"""What a session has pinned of its steps."""


class SessionStore:
    """Stores a copy of each session as a row."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def save_if_newer(self, session: Session, data: dict[str, Any]) -> bool:
        """Update the row unless it already has this generation or a later one; return whether it changed."""
        sql = """
            INSERT INTO job_sessions
                   (id, job_name, workflow_name, goal, status, step_id, generation, started_at, updated_at,
                    data)
            VALUES (:id, :job_name, :workflow_name, :goal, :status, :step_id, :generation, :started_at, :now,
                    :data)
                ON CONFLICT (id) DO UPDATE
               SET status = :status, step_id = :step_id, generation = :generation,
                   updated_at = :now, data = :data
             WHERE job_sessions.generation < :generation
        """
        changed = self._tx.execute(
            sql,
            id=session.session_id,
            job_name=session.job_name,
            workflow_name=session.workflow_name,
            goal=session.goal,
            status=session.status,
            step_id=session.current_step_id,
            generation=session.generation,
            started_at=session.started_at,
            now=self._tx.now,
            data=json.dumps(data),
        )
        return changed == 1

    def get_generation(self, session_id: str) -> int:
        """Return the generation of the row; 0 if there is none."""
        return int(
            self._tx.fetch_value("SELECT generation FROM job_sessions WHERE id = :id", id=session_id) or 0
        )

    def had_committed_gates(self, job_name: str) -> bool:
        """Whether a session of this job began at a commit, and had something to pass."""
        rows = self._tx.fetch_all("SELECT data FROM job_sessions WHERE job_name = :name", name=job_name)
        found = (json.loads(row["data"]) for row in rows)
        return any(each.get("base_commit") and any(map(each.get, _GATES)) for each in found)

    def find_session(self, session_id: str) -> JobSessionState | None:
        """Find a session with the start and end of each of its steps."""
        sql = (
            "SELECT id, job_name, workflow_name, goal, status, step_id, data FROM job_sessions WHERE id = :id"
        )
        row = self._tx.fetch_one(sql, id=session_id)
        return _from_row(row) if row else None


class JobSessions:
    """Looks up job sessions for slices that do not depend on this one."""

    def find_session(self, tx: Transaction, id: str) -> JobSessionState | None:
        """The session with this id."""
        return SessionStore(tx).find_session(id)


@row_parser
def _from_row(row: Row) -> JobSessionState:
    data = json.loads(row["data"])
    progress = data["step_progress"]
    steps = {
        step: (progress.get(step, {}).get("started_at"), progress.get(step, {}).get("completed_at"))
        for entry in data["entries"]
        for step in entry["steps"]
    }
    return JobSessionState(
        id=row["id"],
        name=f"{row['job_name']}/{row['workflow_name']}",
        status=row["status"],
        goal=row["goal"],
        current_step=row["step_id"],
        steps=steps,
    )
