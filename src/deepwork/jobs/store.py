"""What the database knows of sessions: a row for the dashboard and other machines. The file is the truth."""

from __future__ import annotations

import json
from typing import Any

from deepwork.database.engine import Row, stored
from deepwork.database.transaction import Transaction
from deepwork.jobs.progress import Session
from deepwork.tracking.models import SeenSession


class SessionStore:
    """Sessions, as rows that follow their files."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def follow(self, session: Session, data: dict[str, Any]) -> bool:
        """Bring the row to the file's state; False if it was there already."""
        changed = self._tx.run(
            """
            INSERT INTO job_sessions
                   (id, job_name, workflow_name, status, step_id, generation, started_at, updated_at, data)
            VALUES (:id, :job_name, :workflow_name, :status, :step_id, :generation, :started_at, :now, :data)
                ON CONFLICT (id) DO UPDATE
               SET status = :status, step_id = :step_id, generation = :generation,
                   updated_at = :now, data = :data
             WHERE job_sessions.generation < :generation
            """,
            id=session.session_id, job_name=session.job_name, workflow_name=session.workflow_name,
            status=session.status, step_id=session.current_step_id, generation=session.generation,
            started_at=session.started_at, now=self._tx.now, data=json.dumps(data),
        )  # fmt: skip
        return changed == 1

    def generation(self, session_id: str) -> int:
        """How far the row has come; 0 if there is none."""
        return int(self._tx.value("SELECT generation FROM job_sessions WHERE id = :id", id=session_id) or 0)

    def seen(self, session_id: str) -> SeenSession | None:
        """A session as others know it, with how far each of its steps is."""
        row = self._tx.one(
            "SELECT id, job_name, workflow_name, status, step_id, data FROM job_sessions WHERE id = :id",
            id=session_id,
        )  # fmt: skip
        return _seen(row) if row else None


class JobSessions:
    """Job sessions, for slices that know none."""

    def session(self, tx: Transaction, id: str) -> SeenSession | None:
        """The session with this id."""
        return SessionStore(tx).seen(id)


@stored
def _seen(row: Row) -> SeenSession:
    data = json.loads(row["data"])
    progress = data["step_progress"]
    steps = {
        step: (progress.get(step, {}).get("started_at"), progress.get(step, {}).get("completed_at"))
        for entry in data["entries"]
        for step in entry["steps"]
    }
    return SeenSession(
        id=row["id"], name=f"{row['job_name']}/{row['workflow_name']}", status=row["status"],
        goal=data["goal"], current_step=row["step_id"], steps=steps,
    )  # fmt: skip
