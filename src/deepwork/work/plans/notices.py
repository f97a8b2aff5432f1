"""Notices to agents of what people do with plans and with the tasks that agents hold."""

from __future__ import annotations

from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.notices.models import Notice, NoticeType
from deepwork.kernel.notices.rules import (
    build_plan_change_text,
    build_plan_text,
    build_release_text,
    build_replan_text,
    build_retry_text,
    build_task_text,
)
from deepwork.kernel.notices.service import MAX_NOTICES, NoticeService
from deepwork.kernel.notices.store import NoticeStore
from deepwork.work.agents.presence import Presence
from deepwork.work.plans.models import PlanStatus, Task, TaskStatus, Workflow
from deepwork.work.plans.stores.claim_store import ClaimStore
from deepwork.work.plans.stores.queue_store import QueueStore

_PLAN_NOTICES = {PlanStatus.PAUSED: NoticeType.PAUSED, PlanStatus.IN_PROGRESS: NoticeType.RESUMED}


def find_notices_for_reader(
    tx: Transaction, presence: Presence, holder: str | None
) -> tuple[list[Notice], bool]:
    """Find the notices for the agent that reads about a task, and whether its answer carries them.

    A reader that is not a known agent may be the holder after a restart: it sees the holder's notices, but
    they still wait for the holder.
    """
    reader = presence.find_unnamed_actor(tx)
    agent_id = reader.id if reader else holder
    waiting = NoticeStore(tx).list_waiting([agent_id], [], MAX_NOTICES) if agent_id else []
    return waiting, reader is not None and presence.is_read_by_agent(reader)


def notify_of_plan_status(tx: Transaction, workflow: Workflow, reason: str | None) -> None:
    """Notify the agents that hold tasks of the workflow of its new status, each once."""
    notices = NoticeService(tx)
    if not notices.is_needed:
        return
    active = QueueStore(tx).list_active(workflow.id)
    held = {task.claimed_by: task.id for task in reversed(active) if task.claimed_by}
    kind = _PLAN_NOTICES.get(workflow.status, NoticeType.ENDED)
    text = build_plan_text(workflow.name, workflow.status, reason)
    for agent_id, task_id in held.items():
        notices.notify_agents([agent_id], kind, text, workflow_id=workflow.id, task_id=task_id)


def notify_of_plan_change(tx: Transaction, workflow: Workflow, change: str) -> None:
    """Notify the agents that hold tasks of the workflow that other tasks or its limits changed, each once."""
    notices = NoticeService(tx)
    if notices.is_needed:
        active = QueueStore(tx).list_active(workflow.id)
        holders = [task.claimed_by for task in active if task.claimed_by]
        text = build_plan_change_text(workflow.name, change)
        notices.notify_agents(holders, NoticeType.REPLANNED, text, workflow_id=workflow.id)


def notify_of_release(tx: Transaction, task: Task, holder: str, reason: str | None) -> None:
    """Notify an agent that its claim was released."""
    _notify(tx, task, holder, NoticeType.RELEASED, build_release_text(task.name, reason))


def notify_of_task_status(
    tx: Transaction, task: Task, holder: str | None, status: TaskStatus, reason: str | None
) -> None:
    """Notify the holder of a task of its new status; of a retry, the agent that held it last."""
    if not NoticeService(tx).is_needed:
        return
    if task.status is TaskStatus.FAILED and status is TaskStatus.PENDING:
        last = ClaimStore(tx).find_last_claimer(task.id)
        _notify(tx, task, last, NoticeType.RETRY, build_retry_text(task.name, reason))
    else:
        goes_on = status in (TaskStatus.PLANNING, TaskStatus.IN_PROGRESS)
        text = build_task_text(task.name, status, reason, goes_on=goes_on)
        _notify(tx, task, holder, NoticeType.STATUS, text)


def notify_of_replan(tx: Transaction, task: Task, holder: str | None, reason: str) -> None:
    """Notify the holder of a task that its plan was replaced."""
    _notify(tx, task, holder, NoticeType.REPLANNED, build_replan_text(task.name, reason))


def _notify(tx: Transaction, task: Task, agent_id: str | None, type: NoticeType, text: str) -> None:
    agents = [agent_id] if agent_id else []
    NoticeService(tx).notify_agents(agents, type, text, workflow_id=task.workflow_id, task_id=task.id)
