"""What people change in a plan while agents work on it: what a task says, and whether it is to be done.

An agent at work hears of it: new words follow the task as everything that people tell it, and the agent of a
dropped task is ended. What it did stays in its tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar

from deepwork.delivery.runner.models import RunEvent
from deepwork.delivery.runner.responses import build_payload, describe_attempt
from deepwork.delivery.runner.store import AttemptStore
from deepwork.delivery.runner.words import Word, list_words
from deepwork.kernel.answers import Answer, Field, Id, Name
from deepwork.kernel.call import is_person
from deepwork.kernel.database.transaction import Database, Transaction, join_transaction
from deepwork.kernel.errors import Code, InvalidInput, NotAllowed
from deepwork.kernel.notices.models import MAX_TEXT, NoticeType
from deepwork.kernel.notices.store import NoticeDraft, NoticeService
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.values import copy_with
from deepwork.work.agents.presence import Presence
from deepwork.work.plans.claims import ClaimService
from deepwork.work.plans.models import Task, TaskStatus, Workflow
from deepwork.work.plans.plan_tools import PlanTools
from deepwork.work.plans.planning import Planner
from deepwork.work.plans.recorder import ask_for_plan, withdraw_start_requests
from deepwork.work.plans.rules.graph import Graph
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.planning_store import PlanningStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.plans.task_tools import TaskTools

_MAX_DESCRIPTION = 20_000


class TaskReworded(Answer):
    """A task as it reads now."""

    task_id: str
    name: str
    description: str
    changed: bool
    told: Word | None = None
    """What whoever works on it is told, and with what it arrives; nobody is told of a task not begun."""


class TaskDropped(Answer):
    """A task that is not to be done, and what follows."""

    task_id: str
    name: str
    removed: bool
    """Whether it is gone: it had not begun, and what waited for it waits for what it waited for. Else it is
    skipped, and what waited for it can start without its work."""
    ended: str | None = None
    """The attempt whose agent is ended."""
    waiting: list[str]
    """The names of the tasks that waited for it."""


class PlanEditOperations:
    """What people change in plans, also while agents work on them."""

    traits: ClassVar = Traits(toolset="runner", people_only=True, one_transaction=True)

    def __init__(
        self,
        database: Database,
        presence: Presence,
        get_plans: Callable[[], PlanTools],
        get_tasks: Callable[[], TaskTools],
    ) -> None:
        self._database, self._presence = database, presence
        self._get_plans, self._get_tasks = get_plans, get_tasks

    @operation("work", for_people=True)
    def reword_task(
        self,
        task_id: Id,
        name: Name | None = None,
        description: Annotated[str | None, Field(max_length=_MAX_DESCRIPTION)] = None,
    ) -> TaskReworded:
        """Change what a task that is not done is called and says; an agent at work is told."""
        if name is None and description is None:
            raise InvalidInput("Give a new name or a new description.")
        with self._database.transaction() as tx:
            _require_person(tx)
            workflow, before = _lock(tx, task_id)
            after = Planner(tx).reword_task(workflow, before, name=name, description=description)
            if after == before:
                return TaskReworded.of(after, task_id=task_id, changed=False)
            withdraw_start_requests(tx, workflow, [before])
            ask_for_plan(tx, self._presence, workflow)
            told = _tell(tx, before, after) if PlanningStore(tx).was_started(before) else None
            return TaskReworded.of(after, task_id=task_id, changed=True, told=told)

    @operation("work", destructive=True, for_people=True)
    def drop_task(
        self,
        task_id: Id,
        reason: Annotated[str | None, Field(max_length=MAX_TEXT)] = None,
        end_agent: Annotated[bool, Field(description="Also if an agent works on it, which is ended")] = False,
    ) -> TaskDropped:
        """Take a task out of a plan: one not begun is removed, another one is skipped and its agent ended."""
        with self._database.transaction() as tx, join_transaction(tx):
            _require_person(tx)
            workflow, _ = _lock(tx, task_id)
            ClaimService(tx, self._presence).reclaim_expired(workflow)
            task = TaskStore(tx).get_for_update(task_id)
            attempt = AttemptStore(tx).find_open_of_task(task_id)
            _require_droppable(task)
            if (task.claimed_by or attempt) and not end_agent:
                raise _build_busy_error(task, attempt.profile if attempt else "An agent")
            waiting = [
                each.name for each in Graph(TaskStore(tx).list_nodes(workflow.id)).list_dependents([task_id])
            ]
            if not PlanningStore(tx).was_started(task):
                self._get_plans().workflow_remove_task(workflow.id, task_id)
                return TaskDropped.of(task, task_id=task_id, removed=True, waiting=waiting)
            outcome = reason or f"Dropped by {tx.caller}."
            self._get_tasks().task_update_status(task_id, TaskStatus.SKIPPED, outcome=outcome)
            if attempt is not None:
                after = copy_with(attempt, interrupted_by=tx.caller, updated_at=tx.now)
                AttemptStore(tx).save(attempt, after)
                tx.emit(RunEvent.ATTEMPT_UPDATED, build_payload(describe_attempt(after)), workflow.id)
            ended = attempt.id if attempt else None
            return TaskDropped.of(task, task_id=task_id, removed=False, ended=ended, waiting=waiting)


def _require_person(tx: Transaction) -> None:
    if not is_person(tx.caller):
        raise NotAllowed("Only a person can change what a task says, or drop it.", code=Code.UNAUTHORIZED)


def _lock(tx: Transaction, task_id: str) -> tuple[Workflow, Task]:
    """Lock the plan first, as claims do."""
    workflow = PlanStore(tx).get_for_update_by_task(task_id)
    return workflow, TaskStore(tx).get_for_update(task_id)


def _tell(tx: Transaction, before: Task, after: Task) -> Word:
    """Tell whoever works on a task, now or next, how it reads now."""
    renamed = f" It is called {after.name!r} now." if after.name != before.name else ""
    reads = f" It reads now:\n\n{after.description}" if after.description != before.description else ""
    text = f"I changed your task.{renamed}{reads}"
    if len(text) > MAX_TEXT:
        more = "… (read the whole task again before you go on)"
        text = text[: MAX_TEXT - len(more)] + more
    NoticeService(tx).add([NoticeDraft(None, NoticeType.MESSAGE, text, after.workflow_id, after.id)])
    return list_words(tx, after.id)[-1]


def _require_droppable(task: Task) -> None:
    if task.status.is_done:
        raise NotAllowed(
            f"Task {task.name!r} is {task.status}, so there is nothing to drop.",
            suggestion=f"Undo what it did with `deepwork rewind {task.id}`.",
        )


def _build_busy_error(task: Task, agent: str) -> NotAllowed:
    return NotAllowed(
        f"{agent} works on task {task.name!r}.",
        suggestion="To end the agent and drop the task, pass `end_agent`, or at a shell --end-agent; what it"
        " did stays in its tree.",
        recoverable=True,
    )
