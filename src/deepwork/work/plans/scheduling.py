"""Decides which tasks can start now, in one workflow or in all, and reports what the others wait for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from deepwork.gates.approvals.models import Approval
from deepwork.gates.budgets.models import Refusal
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.foreign_text import truncate_to_line
from deepwork.kernel.records import dataclass
from deepwork.work.agents.store import AgentStore
from deepwork.work.plans.admission import Admission
from deepwork.work.plans.models import FileConflicts, PlanStatus, Task, TaskStatus, WaitingTask, Workflow
from deepwork.work.plans.queue_responses import (
    AvailableTask,
    AvailableTasks,
    BlockedTask,
    GroupProgress,
    NextTask,
    NextTaskName,
    NextTasks,
    ProgressView,
)
from deepwork.work.plans.recorder import describe_obstacle, find_plan_obstacle, summarize_obstacle
from deepwork.work.plans.rules.graph import recommend_count, warn_of_waiting_tasks
from deepwork.work.plans.rules.levels import Levels, OverlapIndex
from deepwork.work.plans.rules.transitions import derive_released_status, describe_pause, explain_no_tasks
from deepwork.work.plans.stores.claim_store import ActiveStore, ClaimStore
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.queue_store import QueueOrder, QueueStore
from deepwork.work.plans.stores.task_store import TaskStore

DEFAULT_LIMIT = 20
MAX_LIMIT = 200

_MAX_CONSIDERED = 200
"""How many ready tasks are read to put those without file conflicts first."""
_MAX_CONSIDERED_ACROSS_WORKFLOWS = 1000
"""The same across all workflows."""
_MAX_NAMES_PER_TASK = 3
_MAX_PARALLEL_IDS = 3
_MAX_GROUPS = 100
_MAX_WAITING_IDS = 20
_MAX_LISTED_FILES = 20
_MAX_DESCRIPTION_LENGTH = 300
_MIN_MEASURED_MS = 1000


class Scheduler:
    """Reads plans and lists what comes next. Writes nothing; treats expired claims as released."""

    def __init__(self, tx: Transaction, repository: str | None = None) -> None:
        """`repository` restricts searches across workflows to the plans of one repository."""
        self._repository = repository
        self._tx = tx
        self._tasks = TaskStore(tx)
        self._queue, self._active = QueueStore(tx), ActiveStore(tx)

    def list_next_tasks(self, workflow: Workflow, *, include_failed: bool, limit: int) -> NextTasks:
        """List the tasks that could start now, those without file conflicts first."""
        found = self._find_startable(workflow, include_failed=include_failed, limit=limit)
        obstacle = find_plan_obstacle(self._tx, workflow)
        levels, is_given_out = found.levels, workflow.status.hands_out_tasks and obstacle is None
        offered = self._build_next_tasks(found) if is_given_out else []
        waiting = self._list_waiting_for_person(workflow, found)
        return NextTasks(
            tasks=offered,
            max_parallel=workflow.max_parallel_tasks,
            running=len(found.running),
            recommended_count=found.room if is_given_out else 0,
            total_available=found.total if is_given_out else 0,
            workflow_status=workflow.status,
            all_complete=levels.all_complete,
            needs_person=waiting or None,
            approval=summarize_obstacle(obstacle) if obstacle else None,
            reason=None if offered else self._explain_empty_list(workflow, found, waiting, obstacle),
            warning=warn_of_waiting_tasks(found.free - found.room, workflow.max_parallel_tasks)
            if is_given_out
            else None,
        )

    def list_next_names(self, workflow: Workflow, limit: int) -> list[NextTaskName]:
        """List the first tasks to claim now, without failed ones; none if the parallel limit is reached.

        None either while a person has to approve the plan.
        """
        if find_plan_obstacle(self._tx, workflow):
            return []
        found = self._find_startable(workflow, include_failed=False, limit=limit, counts_all=False)
        return [NextTaskName(id=task.id, name=task.name) for task in found.offered] if found.room else []

    def _find_startable(
        self, workflow: Workflow, *, include_failed: bool, limit: int, counts_all: bool = True
    ) -> _Startable:
        levels = Levels(self._tasks.count_by_status(workflow.id))
        running, expired = self.list_active(workflow.id)
        admission = Admission(self._tx, workflow)
        # More tasks than requested are read only if file conflicts or budgets may change the choice.
        is_choice = admission.has_limits or any(task.files for task in running)
        most = max(limit, _MAX_CONSIDERED) if is_choice else limit
        # Without a count of all, the first ones are enough if none of them conflicts.
        sizes = (most,) if counts_all or admission.has_limits else (limit, most)
        for size in sizes:
            considered, total = self.list_ready(
                workflow,
                levels,
                expired,
                include_failed=include_failed,
                max_considered=size,
                counts_all=counts_all,
            )
            refusals = admission.find_refusals(considered)
            considered = [task for task in considered if task.id not in refusals]
            total = total - len(refusals) if considered else 0
            conflicts = _find_conflicts(workflow, considered, running)
            if not conflicts:
                break
        free = len(considered) - len(conflicts) if conflicts else total
        return _Startable(
            levels=levels,
            running=running,
            offered=sorted(considered, key=lambda task: task.id in conflicts)[:limit],
            conflicts=conflicts,
            total=total,
            free=free,
            room=recommend_count(free, max_parallel=workflow.max_parallel_tasks, running=len(running)),
            refusal=next(iter(refusals.values()), None),
        )

    def _explain_empty_list(
        self, workflow: Workflow, found: _Startable, waiting: Sequence[str], obstacle: Approval | None
    ) -> str:
        if obstacle and workflow.status.hands_out_tasks:
            return describe_obstacle(obstacle)
        if found.refusal and workflow.status.hands_out_tasks:
            return found.refusal.message
        if waiting and workflow.status.hands_out_tasks and not found.running:
            return _explain_waiting(waiting, has_failed=found.levels.by_status[TaskStatus.FAILED] > 0)
        if workflow.status is PlanStatus.PAUSED:
            pause = describe_pause(workflow, PlanStore(self._tx).find_pause(workflow.id))
            return f"{pause} Its tasks cannot be claimed."
        running = found.running[:_MAX_NAMES_PER_TASK]
        names = AgentStore(self._tx).get_names([task.claimed_by for task in running if task.claimed_by])
        held = [(task.name, names.get(task.claimed_by or "")) for task in running]
        return explain_no_tasks(workflow.status, found.levels.by_status, held, len(found.running))

    def _list_waiting_for_person(self, workflow: Workflow, found: _Startable) -> list[str]:
        counts = found.levels.by_status
        failed = counts[TaskStatus.FAILED] > 0
        waiting = self._queue.list_waiting_for_person(workflow.id, _MAX_WAITING_IDS) if failed else []
        if found.may_wait_for_approval:
            waiting += self._queue.list_waiting_for_approval(workflow.id, _MAX_WAITING_IDS)
        return waiting[:_MAX_WAITING_IDS]

    def build_progress(self, workflow: Workflow, *, limit: int) -> ProgressView:
        """Build the progress of the workflow, and what blocks it."""
        _, expired = self.list_active(workflow.id)
        levels = Levels(self._tasks.count_by_status(workflow.id)).with_released(expired)
        waiting = levels.by_status[TaskStatus.BLOCKED]
        blocked = self._tasks.list_waiting(workflow.id, levels.free, limit) if waiting else []
        names = self._queue.list_blocker_names(blocked, _MAX_NAMES_PER_TASK)
        groups, groups_total = self._queue.list_groups(workflow.id, _MAX_GROUPS)
        admission = Admission(self._tx, workflow)
        is_limited = admission.has_limits and workflow.status.hands_out_tasks
        refusal = admission.find_plan_refusal() if is_limited else None
        return ProgressView(
            total_tasks=levels.total,
            # Words, because keys that are no plain strings are encoded slowly.
            by_status={status.value: count for status, count in levels.by_status.items()},  # type: ignore[misc]
            completed_sequence=levels.completed_sequence,
            current_sequence=levels.current_sequence,
            blocked_tasks=[_build_blocked_task(task, names.get(task.id, []), levels) for task in blocked],
            blocked_total=levels.by_status[TaskStatus.BLOCKED],
            parallel_groups=[GroupProgress(**row) for row in groups],
            parallel_groups_total=groups_total if groups_total > len(groups) else None,
            estimated_remaining=levels.remaining,
            estimated_remaining_ms=_estimate_remaining_ms(workflow, levels.remaining),
            reason=refusal.message if refusal else None,
        )

    def list_available(
        self, capabilities: Iterable[str], workflow: Workflow | None, limit: int
    ) -> AvailableTasks:
        """List tasks that an agent with these capabilities could claim, in this workflow or in any.

        Those without obstacles come first.
        """
        able = frozenset(capabilities)
        obstacle: Approval | None = None
        if workflow is None:
            found, total = self._find_available_anywhere(able, limit)
        elif workflow.status.hands_out_tasks and (obstacle := find_plan_obstacle(self._tx, workflow)) is None:
            found, total = self._find_available_in(workflow, able)
        else:
            found, total = [], 0
        refusals = self._find_refusals(found, workflow)
        allowed = [offer for offer in found if offer.task.id not in refusals]
        allowed.sort(key=lambda offer: (offer.at_limit, bool(offer.conflicts_with)))
        refusal = next(iter(refusals.values()), None)
        return AvailableTasks(
            tasks=[_build_available_task(offer) for offer in allowed[:limit]],
            total_available=total - len(refusals) if allowed else 0,
            approval=summarize_obstacle(obstacle) if obstacle else None,
            reason=_explain_none_available(obstacle, None if allowed else refusal),
        )

    def list_offering_plans(self, capabilities: Iterable[str]) -> list[str]:
        """Return the plans with tasks that an agent with these capabilities could claim, the oldest first."""
        found, _ = self._find_available_anywhere(frozenset(capabilities), _MAX_CONSIDERED_ACROSS_WORKFLOWS)
        return list(dict.fromkeys(offer.task.workflow_id for offer in found if not offer.at_limit))

    def _find_refusals(self, offers: Sequence[_Offer], workflow: Workflow | None) -> dict[str, Refusal]:
        """Return why tasks cannot be handed out, by their ids."""
        tasks = _group_by_workflow(offer.task for offer in offers)
        plans = {workflow.id: workflow} if workflow else PlanStore(self._tx).find_by_ids(list(tasks))
        found: dict[str, Refusal] = {}
        for id, wanted in tasks.items():
            found |= Admission(self._tx, plans[id]).find_refusals(wanted)
        return found

    def _find_available_anywhere(self, capabilities: frozenset[str], limit: int) -> tuple[list[_Offer], int]:
        """Search all workflows with one query, since there may be thousands of them."""
        tasks, expired = self._split_expired(self._queue.list_active_anywhere(self._repository))
        running = _group_by_workflow(tasks)
        busy = PlanStore(self._tx).find_by_ids(list(running))
        full = {id for id, workflow in busy.items() if len(running[id]) >= workflow.max_parallel_tasks}
        order = QueueOrder([task.id for task in expired], sorted(full), self._repository)
        most = max(limit, _MAX_CONSIDERED_ACROSS_WORKFLOWS) if any(task.files for task in tasks) else limit
        found, total = self._queue.list_ready_anywhere(order, capabilities, most)
        conflicts: dict[str, list[str]] = {}
        for id, wanted in _group_by_workflow(found).items():
            if id in busy:
                conflicts |= _find_conflicts(busy[id], wanted, running[id])
        offers = [_Offer(task, conflicts.get(task.id), task.workflow_id in full) for task in _requeue(found)]
        return offers, total

    def _find_available_in(
        self, workflow: Workflow, capabilities: frozenset[str]
    ) -> tuple[list[_Offer], int]:
        levels = Levels(self._tasks.count_by_status(workflow.id))
        running, expired = self.list_active(workflow.id)
        able, total = self.list_ready(
            workflow,
            levels,
            [task for task in expired if task.required_capabilities <= capabilities],
            include_failed=True,
            capabilities=capabilities,
        )
        conflicts = _find_conflicts(workflow, able, running)
        at_limit = len(running) >= workflow.max_parallel_tasks
        return [_Offer(task, conflicts.get(task.id), at_limit) for task in able], total

    def list_active(self, workflow_id: str) -> tuple[list[Task], list[Task]]:
        """Return the tasks that are claimed or running, and separately those whose claim has expired."""
        return self._split_expired(self._active.list_active(workflow_id))

    def _split_expired(self, tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
        holders = ClaimStore(self._tx).find_holders([task.id for task in tasks if task.claimed_by])
        expired = [task for task in tasks if task.claimed_by and task.id not in holders]
        gone = {task.id for task in expired}
        return [task for task in tasks if task.id not in gone], expired

    def list_ready(
        self,
        workflow: Workflow,
        levels: Levels,
        expired: Sequence[Task],
        *,
        include_failed: bool,
        max_considered: int = _MAX_CONSIDERED,
        capabilities: Collection[str] | None = None,
        counts_all: bool = True,
    ) -> tuple[list[Task], int]:
        """List the tasks that could start now, failed ones last, and count them.

        Tasks whose claim has expired appear with the status they get when they are reclaimed. `capabilities`
        leaves out the other tasks that require more than these.
        """
        expired = _requeue(expired)
        found: list[Task] = []
        total = 0
        for status in (TaskStatus.PENDING, TaskStatus.FAILED) if include_failed else (TaskStatus.PENDING,):
            fresh, count = (
                self._queue.list_ready(
                    workflow.id,
                    status,
                    levels.free,
                    max_considered,
                    capabilities,
                    counts_all=counts_all,
                    places=levels.find_places(status),
                )
                if levels.by_status[status]
                else ([], 0)
            )
            again = [task for task in expired if task.status is status and not levels.is_blocked(task)]
            found += sorted([*fresh, *again], key=lambda task: (task.sequence, task.position))
            total += count + len(again)
        return found, total

    def _build_next_tasks(self, found: _Startable) -> list[NextTask]:
        completed = (
            self._queue.list_completed_dependency_names(found.offered, _MAX_NAMES_PER_TASK + 7)
            if found.levels.any_done
            else {}
        )
        groups: dict[str | None, list[str]] = {}
        for task in found.offered:
            if task.parallel_group:
                groups.setdefault(task.parallel_group, []).append(task.id)
        return [
            NextTask.of(
                task,
                description=truncate_to_line(task.description, _MAX_DESCRIPTION_LENGTH) or "",
                can_parallelize=bool(task.parallel_group),
                parallel_with=_select_others(groups.get(task.parallel_group, ()), task.id) or None,
                dependencies_completed=completed.get(task.id, []),
                conflicts_with=found.conflicts.get(task.id),
                attempts=task.attempts or None,
                last_error=truncate_to_line(task.error),
            )
            for task in found.offered
        ]


@dataclass(frozen=True)
class _Startable:
    """The tasks of a workflow that could start now, and what they meet."""

    levels: Levels
    running: list[Task]
    offered: list[Task]
    conflicts: dict[str, list[str]]
    """The running tasks that share files with each."""
    total: int
    free: int
    """How many have no such conflict."""
    room: int
    """How many should start now."""
    refusal: Refusal | None
    """Why a task that waits for no other cannot start."""

    @property
    def may_wait_for_approval(self) -> bool:
        """Whether tasks may wait for an approval: some are started or pending, and nobody has them."""
        counts = self.levels.by_status
        started = sum(counts[status] for status in TaskStatus if status.is_running)
        active = sum(task.status.is_running for task in self.running)
        is_hidden = counts[TaskStatus.PENDING] > 0 and not self.offered and not self.running
        return started > active or is_hidden


class _Offer(NamedTuple):
    """A task that an agent could claim, and its obstacles."""

    task: Task
    conflicts_with: list[str] | None
    at_limit: bool


def _explain_none_available(obstacle: Approval | None, refusal: Refusal | None) -> str | None:
    if obstacle:
        return describe_obstacle(obstacle)
    return refusal.message if refusal else None


def _explain_waiting(waiting: Sequence[str], *, has_failed: bool) -> str:
    """Explain why nothing is offered: a person has to approve these tasks, or to give them new attempts."""
    named = ", ".join(waiting[:_MAX_NAMES_PER_TASK])
    named += " and more" if len(waiting) > _MAX_NAMES_PER_TASK else ""
    if not has_failed:
        return f"A person has to approve tasks first: {named}. A notice reports the decision."
    return (
        f"Failed tasks without attempts left wait for a person: {named}. `deepwork tasks retry ID` gives one"
        " new attempts."
    )


def _find_conflicts(
    workflow: Workflow, tasks: Sequence[Task], running: Sequence[Task]
) -> dict[str, list[str]]:
    """Map tasks to the active ones likely to change the same files; tasks without conflicts are left out."""
    if workflow.file_conflicts is FileConflicts.IGNORE:
        return {}
    running_files = OverlapIndex(running)
    found = {task.id: [other.id for other in running_files.find_overlapping(task)] for task in tasks}
    return {id: others for id, others in found.items() if others}


def _group_by_workflow(tasks: Iterable[Task]) -> dict[str, list[Task]]:
    found: dict[str, list[Task]] = {}
    for task in tasks:
        found.setdefault(task.workflow_id, []).append(task)
    return found


def _requeue(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks with the status they get when they are reclaimed."""
    return [replace(task, status=derive_released_status(task.status)) for task in tasks]


def _select_others(ids: Sequence[str], own: str) -> list[str]:
    """Return the first few other ids; listing all for each task would grow quadratically."""
    return [id for id in ids[: _MAX_PARALLEL_IDS + 1] if id != own][:_MAX_PARALLEL_IDS]


def _build_available_task(offer: _Offer) -> AvailableTask:
    task = offer.task
    return AvailableTask.of(
        task,
        description=truncate_to_line(task.description, _MAX_DESCRIPTION_LENGTH) or "",
        context=_extract_hints(task),
        at_limit=True if offer.at_limit else None,
        conflicts_with=offer.conflicts_with,
    )


def _extract_hints(task: Task) -> dict[str, Any]:
    """Return the planning hints of a task; the rest of its context is for the agent that works on it."""
    hints = {
        "estimated_complexity": task.context.get("estimated_complexity"),
        "files_likely_affected": list(task.files[:_MAX_LISTED_FILES]),
        "required_capabilities": sorted(task.required_capabilities),
    }
    return {name: value for name, value in hints.items() if value}


def _build_blocked_task(task: WaitingTask, names: list[str], levels: Levels) -> BlockedTask:
    total = levels.count_open_dependencies(task)
    more = total if total > len(names) else None
    return BlockedTask(id=task.id, name=task.name, blocked_by=names, blocked_by_total=more)


def _estimate_remaining_ms(workflow: Workflow, remaining: int) -> int | None:
    """Extrapolate the remaining time from the average so far; None without a basis.

    Tasks that took a second or less were only reported: they say nothing about the work that is left.
    """
    if workflow.completed_ms <= _MIN_MEASURED_MS * workflow.completed_tasks:
        return None
    each = workflow.completed_ms / workflow.completed_tasks
    return round(remaining * each / min(workflow.max_parallel_tasks, max(remaining, 1)))


def choose_limit(workflow: Workflow | None) -> int:
    """Return how many tasks a list offers if the caller does not say: enough for all that may run at once."""
    wanted = workflow.max_parallel_tasks if workflow else DEFAULT_LIMIT
    return min(MAX_LIMIT, max(DEFAULT_LIMIT, wanted))
