"""What can be done now, in one workflow or in all of them, and what the rest waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from deepwork.agents.models import Agent
from deepwork.database.transaction import Transaction
from deepwork.plans.graph import MAX_TASKS, recommended_count
from deepwork.plans.levels import Levels
from deepwork.plans.models import FileConflicts, Task, TaskStatus, Workflow
from deepwork.plans.overlaps import Rivals
from deepwork.plans.queue_store import Order, QueueStore
from deepwork.plans.responses import (
    AvailableTask,
    AvailableTasks,
    BlockedTask,
    GroupProgress,
    NextTask,
    NextTasks,
    ProgressView,
    one_line,
)
from deepwork.plans.store import PlanStore
from deepwork.plans.task_store import TaskStore
from deepwork.plans.transitions import status_after_release

DEFAULT_OFFERED = 20
MOST_OFFERED = 200

_LOOKED_AT = 200
"""Among how many ready tasks those without conflicting files are put first."""
_LOOKED_AT_ANYWHERE = 1000
"""The same where no workflow is named."""
_NAMES_EACH = 3
_TOGETHER = 10
_GROUPS = 100
_NAMED_FILES = 20
_LONGEST_DESCRIPTION = 300


class Scheduler:
    """Reads a plan and says what comes next; writes nothing, and takes an expired claim for none."""

    def __init__(self, tx: Transaction, repository: str | None = None) -> None:
        """`repository`: whose plans alone are looked at where no workflow is named."""
        self._repository = repository
        self._tx = tx
        self._tasks = TaskStore(tx)
        self._queue = QueueStore(tx)

    def next_tasks(self, workflow: Workflow, *, include_failed: bool, limit: int) -> NextTasks:
        """Tasks that could be begun now, those with free files first."""
        levels = Levels(self._tasks.tallies(workflow.id))
        running, lapsed = self.under_way(workflow.id)
        # Only where files may conflict are there others to put first.
        most = max(limit, _LOOKED_AT) if any(task.files for task in running) else limit
        looked_at, total = self.ready(workflow, levels, lapsed, include_failed=include_failed, looked_at=most)
        conflicts = _conflicts(workflow, looked_at, running)
        offered = sorted(looked_at, key=lambda task: task.id in conflicts)[:limit]
        is_given_out = workflow.status.hands_out_tasks
        free = len(looked_at) - len(conflicts) if conflicts else total
        room = recommended_count(free, max_parallel=workflow.max_parallel_tasks, running=len(running))
        return NextTasks(
            tasks=self._offers(offered, conflicts, any_done=levels.any_done) if is_given_out else [],
            max_parallel=workflow.max_parallel_tasks,
            running=len(running),
            recommended_count=room if is_given_out else 0,
            total_available=total if is_given_out else 0,
            workflow_status=workflow.status,
            all_complete=levels.all_complete,
            reason=None if is_given_out else f"The workflow is {workflow.status}: no task is given out.",
        )

    def progress(self, workflow: Workflow, *, limit: int) -> ProgressView:
        """How far the workflow is, and what holds it up."""
        _, lapsed = self.under_way(workflow.id)
        levels = Levels(self._tasks.tallies(workflow.id)).released(lapsed)
        waiting = levels.by_status[TaskStatus.BLOCKED]
        blocked = self._tasks.blocked(workflow.id, levels.free, limit) if waiting else []
        names = self._queue.blockers(blocked, _NAMES_EACH)
        groups, groups_total = self._queue.groups(workflow.id, _GROUPS)
        return ProgressView(
            total_tasks=levels.total,
            by_status=levels.by_status,
            completed_sequence=levels.completed_sequence,
            current_sequence=levels.current_sequence,
            blocked_tasks=[_blocked(task, names.get(task.id, []), levels) for task in blocked],
            blocked_total=levels.by_status[TaskStatus.BLOCKED],
            parallel_groups=[GroupProgress.model_validate(row) for row in groups],
            parallel_groups_total=groups_total if groups_total > len(groups) else None,
            estimated_remaining=levels.remaining,
            estimated_remaining_ms=_remaining_ms(workflow, levels.remaining),
        )

    def available(self, agent: Agent, workflow: Workflow | None, limit: int) -> AvailableTasks:
        """Tasks that the agent could claim, in this workflow or in any; those it can have at once first."""
        if workflow is None:
            found, total = self._available_anywhere(frozenset(agent.capabilities), limit)
        elif workflow.status.hands_out_tasks:
            found, total = self._available_in(workflow, frozenset(agent.capabilities))
        else:
            found, total = [], 0
        found.sort(key=lambda offer: (offer.at_limit, bool(offer.conflicts_with)))
        return AvailableTasks(tasks=[_available(offer) for offer in found[:limit]], total_available=total)

    def _available_anywhere(self, capabilities: frozenset[str], limit: int) -> tuple[list[_Offer], int]:
        """All workflows are asked at once: there may be thousands of them."""
        tasks, lapsed = self._apart(self._queue.under_way_anywhere(self._repository))
        running = _by_workflow(tasks)
        busy = PlanStore(self._tx).named(list(running))
        full = {id for id, workflow in busy.items() if len(running[id]) >= workflow.max_parallel_tasks}
        order = Order([task.id for task in lapsed], sorted(full), self._repository)
        demanding = self._queue.demanding_anywhere(order)
        able = [task.id for task in demanding if task.required_capabilities <= capabilities]
        most = max(limit, _LOOKED_AT_ANYWHERE) if any(task.files for task in tasks) else limit
        found, total = self._queue.ready_anywhere(order, able[:most], most)
        conflicts: dict[str, list[str]] = {}
        for id, wanted in _by_workflow(found).items():
            if id in busy:
                conflicts |= _conflicts(busy[id], wanted, running[id])
        offers = [_Offer(task, conflicts.get(task.id), task.workflow_id in full) for task in _put_back(found)]
        return offers, total + len(able[most:])

    def _available_in(self, workflow: Workflow, capabilities: frozenset[str]) -> tuple[list[_Offer], int]:
        levels = Levels(self._tasks.tallies(workflow.id))
        running, lapsed = self.under_way(workflow.id)
        able, total = self._able(workflow, levels, lapsed, capabilities)
        conflicts = _conflicts(workflow, able, running)
        at_limit = len(running) >= workflow.max_parallel_tasks
        return [_Offer(task, conflicts.get(task.id), at_limit) for task in able], total

    def _able(
        self, workflow: Workflow, levels: Levels, lapsed: Sequence[Task], capabilities: frozenset[str]
    ) -> tuple[list[Task], int]:
        """Ready tasks that ask for no more than these capabilities, and how many there are."""
        ready, total = self.ready(workflow, levels, lapsed, include_failed=True)
        able = [task for task in ready if task.required_capabilities <= capabilities]
        if len(able) == len(ready):
            return able, total
        # Others may come after those that it cannot do; here nobody counts them without reading them.
        ready, _ = self.ready(workflow, levels, lapsed, include_failed=True, looked_at=MAX_TASKS)
        able = [task for task in ready if task.required_capabilities <= capabilities]
        return able[:_LOOKED_AT], len(able)

    def under_way(self, workflow_id: str) -> tuple[list[Task], list[Task]]:
        """Tasks that somebody is at, and tasks whose claim has run out, as they are stored."""
        return self._apart(self._queue.under_way(workflow_id))

    def _apart(self, tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
        holders = self._tasks.holders([task.id for task in tasks if task.claimed_by])
        lapsed = [task for task in tasks if task.claimed_by and task.id not in holders]
        gone = {task.id for task in lapsed}
        return [task for task in tasks if task.id not in gone], lapsed

    def ready(
        self,
        workflow: Workflow,
        levels: Levels,
        lapsed: Sequence[Task],
        *,
        include_failed: bool,
        looked_at: int = _LOOKED_AT,
    ) -> tuple[list[Task], int]:
        """Tasks that could be begun now, those that failed before after the others; how many there are.

        Those whose claim has run out are shown as a claim would find them.
        """
        lapsed = _put_back(lapsed)
        found: list[Task] = []
        total = 0
        for status in (TaskStatus.PENDING, TaskStatus.FAILED) if include_failed else (TaskStatus.PENDING,):
            fresh, count = (
                self._queue.ready(workflow.id, status, levels.free, looked_at)
                if levels.by_status[status]
                else ([], 0)
            )
            again = [task for task in lapsed if task.status is status and not levels.is_blocked(task)]
            found += sorted([*fresh, *again], key=lambda task: (task.sequence, task.position))
            total += count + len(again)
        return found, total

    def _offers(
        self, offered: Sequence[Task], conflicts: dict[str, list[str]], *, any_done: bool
    ) -> list[NextTask]:
        completed = self._queue.completed_before(offered, _NAMES_EACH + 7) if any_done else {}
        groups: dict[str | None, list[str]] = {}
        for task in offered:
            if task.parallel_group:
                groups.setdefault(task.parallel_group, []).append(task.id)
        return [
            NextTask(
                id=task.id, name=task.name,
                description=one_line(task.description, _LONGEST_DESCRIPTION) or "",
                status=task.status, sequence=task.sequence,
                can_parallelize=task.parallel_group is not None, parallel_group=task.parallel_group,
                parallel_with=_others(groups.get(task.parallel_group, ()), task.id) or None,
                dependencies_completed=completed.get(task.id, []),
                conflicts_with=conflicts.get(task.id),
                attempts=task.attempts or None,
                last_error=one_line(task.error),
            )
            for task in offered
        ]  # fmt: skip


class _Offer(NamedTuple):
    """A task that an agent could claim, and what speaks against it."""

    task: Task
    conflicts_with: list[str] | None
    at_limit: bool


def _conflicts(workflow: Workflow, tasks: Sequence[Task], running: Sequence[Task]) -> dict[str, list[str]]:
    """Tasks with those under way that are likely to change the same files; who has none is left out."""
    if workflow.file_conflicts is FileConflicts.IGNORE:
        return {}
    rivals = Rivals(running)
    found = {task.id: [other.id for other in rivals.of(task)] for task in tasks}
    return {id: others for id, others in found.items() if others}


def _by_workflow(tasks: Iterable[Task]) -> dict[str, list[Task]]:
    found: dict[str, list[Task]] = {}
    for task in tasks:
        found.setdefault(task.workflow_id, []).append(task)
    return found


def _put_back(tasks: Iterable[Task]) -> list[Task]:
    """Tasks that can be begun, as a claim would find them; some may still look as if they were under way."""
    return [replace(task, status=status_after_release(task.status)) for task in tasks]


def _others(ids: Sequence[str], own: str) -> list[str]:
    """The first few of the others: all of them for each would grow with the square."""
    return [id for id in ids[: _TOGETHER + 1] if id != own][:_TOGETHER]


def _available(offer: _Offer) -> AvailableTask:
    task = offer.task
    return AvailableTask(
        id=task.id, workflow_id=task.workflow_id, name=task.name,
        description=one_line(task.description, _LONGEST_DESCRIPTION) or "",
        status=task.status, sequence=task.sequence, parallel_group=task.parallel_group,
        context=_hints(task), attempts=task.attempts,
        at_limit=True if offer.at_limit else None, conflicts_with=offer.conflicts_with,
    )  # fmt: skip


def _hints(task: Task) -> dict[str, Any]:
    """What the plan says about the work; whatever else a task's context holds is for who works on it."""
    hints = {
        "estimated_complexity": task.context.get("estimated_complexity"),
        "files_likely_affected": list(task.files[:_NAMED_FILES]),
        "required_capabilities": sorted(task.required_capabilities),
    }
    return {name: value for name, value in hints.items() if value}


def _blocked(task: Task, names: list[str], levels: Levels) -> BlockedTask:
    total = levels.waits_for_count(task)
    more = total if total > len(names) else None
    return BlockedTask(id=task.id, name=task.name, blocked_by=names, blocked_by_total=more)


def _remaining_ms(workflow: Workflow, remaining: int) -> int | None:
    """How long the rest takes if it goes on like this; nobody knows before the first task is completed."""
    if not workflow.completed_tasks:
        return None
    each = workflow.completed_ms / workflow.completed_tasks
    return round(remaining * each / workflow.max_parallel_tasks)
