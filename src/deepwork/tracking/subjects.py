"""What a note may be about: a tracked task, a planned one, or a step of a job."""

from __future__ import annotations

from typing import Protocol

from deepwork.agents.store import AgentStore
from deepwork.database.transaction import Transaction
from deepwork.errors import NotFound
from deepwork.plans.task_store import TaskStore
from deepwork.tracking.models import SeenSession, Subject
from deepwork.tracking.store import TrackStore


class Sessions(Protocol):
    """The slice above that runs jobs."""

    def session(self, tx: Transaction, id: str) -> SeenSession | None:
        """The session with this id."""


def subject_of(tx: Transaction, task_id: str, sessions: Sessions) -> Subject:
    """The task with this id, whatever its kind."""
    if "/" in task_id:
        return _step(tx, task_id, sessions)
    if task_id.startswith("tk_"):
        planned = TaskStore(tx).get(task_id)
        holder = AgentStore(tx).get(planned.claimed_by) if planned.claimed_by else None
        return Subject(task_id, planned.name, planned.workflow_id, None, holder.name if holder else None)
    store = TrackStore(tx)
    task = store.task(task_id)
    store.note_sign(task_id)
    return Subject(task_id, task.name, task.workflow_id, task.phase_id, task.agent_name)


def _step(tx: Transaction, task_id: str, sessions: Sessions) -> Subject:
    session_id, _, step_id = task_id.partition("/")
    session = sessions.session(tx, session_id)
    if session is None or step_id not in session.steps:
        raise NotFound(
            "task", task_id, suggestion="A step of a job is named SESSION_ID/STEP_ID; see get_session."
        )
    return Subject(task_id, f"{session.name}: {step_id}", session_id)
