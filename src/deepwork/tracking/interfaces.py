"""Resolving what a note is about: a tracked task, a planned task, or a step of a job."""

from __future__ import annotations

from typing import Protocol

from deepwork.agents.store import AgentStore
from deepwork.database.transaction import Transaction
from deepwork.errors import NotFound
from deepwork.plans.stores.task_store import TaskStore
from deepwork.tracking.models import JobSessionState, Subject
from deepwork.tracking.store import TrackStore


class JobSessionFinder(Protocol):
    """Finds job sessions; implemented by `jobs`."""

    def find_session(self, tx: Transaction, id: str) -> JobSessionState | None:
        """Return the session with this id, or None."""


def resolve_subject(tx: Transaction, task_id: str, sessions: JobSessionFinder) -> Subject:
    """Resolve a task id of any kind; NotFound if there is no such task. Counts as activity on the task."""
    if "/" in task_id:
        return _resolve_step(tx, task_id, sessions)
    if task_id.startswith("tk_"):
        planned = TaskStore(tx).get(task_id)
        holder = AgentStore(tx).get(planned.claimed_by) if planned.claimed_by else None
        return Subject(task_id, planned.name, planned.workflow_id, None, holder.name if holder else None)
    store = TrackStore(tx)
    task = store.get_task(task_id)
    store.touch_task(task_id)
    return Subject(task_id, task.name, task.workflow_id, task.phase_id, task.agent_name)


def _resolve_step(tx: Transaction, task_id: str, sessions: JobSessionFinder) -> Subject:
    session_id, _, step_id = task_id.partition("/")
    session = sessions.find_session(tx, session_id)
    if session is None or step_id not in session.steps:
        raise NotFound(
            "task",
            task_id,
            suggestion="For a step of a job, pass SESSION_ID/STEP_ID; see {tool:get_session}.",
        )
    return Subject(task_id, f"{session.name}: {step_id}", session_id)
