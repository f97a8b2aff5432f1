"""Changes tasks and their plan when a rewind is applied or undone; all in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.delivery.landing.models import LandingStatus
from deepwork.delivery.landing.recorder import move_landing
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.rewind.models import Rewind, RewindRole, RewindTask, SetAside
from deepwork.delivery.rewind.store import RewindStore
from deepwork.delivery.runner.store import AttemptStore
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.notices.models import NoticeType
from deepwork.kernel.notices.store import NoticeService
from deepwork.kernel.values import copy_with, measure_duration
from deepwork.work.agents.presence import Presence
from deepwork.work.agents.store import LeaseStore
from deepwork.work.plans.claims import ClaimService
from deepwork.work.plans.models import CheckpointType, PlanStatus, Task, TaskStatus, Workflow
from deepwork.work.plans.recorder import PlanRecorder, withdraw_work_request
from deepwork.work.plans.rules.transitions import derive_released_status
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.search_store import CheckpointStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.workspaces.models import WorkspaceEvent, WorkspaceStatus
from deepwork.work.workspaces.responses import WorkspaceView
from deepwork.work.workspaces.store import WorkspaceStore

_ARCHIVED = (
    "status",
    "outcome",
    "outcome_detail",
    "error",
    "attempts",
    "failures",
    "started_at",
    "finished_at",
    "workspace_id",
    "waits_for",
    "completed_tree",
    "completed_head",
)
_COMPARED = (*_ARCHIVED, "claimed_by")


class StateChanger:
    """Changes the tasks of one plan, which is locked."""

    def __init__(self, tx: Transaction, presence: Presence, rewind: Rewind) -> None:
        self._tx, self._presence, self._rewind = tx, presence, rewind
        self._tasks, self._journal = TaskStore(tx), RewindStore(tx)
        self._recorder = PlanRecorder(tx)
        self._leases = LeaseStore(tx, presence.lease_ms)

    def rewind_tasks(self, workflow: Workflow, tasks: Sequence[RewindTask]) -> Mapping[str, Any]:
        """Let the tasks begin again or mark them as stale; return the plan's status and totals before."""
        before = _archive_plan(workflow)
        main = self._tasks.get(self._rewind.task_id)
        for each in tasks:
            task = self._tasks.get_for_update(each.task_id)
            if each.role is RewindRole.STALE:
                changed = self._mark_stale(task, main)
            else:
                workflow, changed = self._begin_again(workflow, task, each.role)
            self._save_states(each, archive(task), changed)
        self._reopen_plan(workflow)
        return before

    def undo_tasks(
        self, workflow: Workflow, tasks: Sequence[RewindTask], undone: Sequence[RewindTask]
    ) -> None:
        """Give the tasks the state again that they had before the rewind that is undone."""
        for each in undone:
            task = self._tasks.get_for_update(each.task_id)
            if each.role is RewindRole.STALE:
                changed = self._unmark_stale(task)
            else:
                workflow, changed = self._restore(workflow, task, each.state_before or {})
            own = next(one for one in tasks if one.task_id == each.task_id)
            self._save_states(own, archive(task), changed)
        self._restore_plan(workflow)

    def move_workspaces(self, asides: Sequence[SetAside]) -> None:
        """Record the folders and branches that trees have now."""
        store = WorkspaceStore(self._tx)
        for aside in asides:
            before = store.get_for_update(aside.workspace_id)
            after = copy_with(
                before,
                branch=aside.new_branch,
                path=aside.new_path or before.path,
                status=WorkspaceStatus(aside.new_status),
                updated_at=self._tx.now,
            )
            store.save(before, after)
            view = WorkspaceView.from_workspace(after, ()).model_dump(mode="json")
            self._tx.emit(WorkspaceEvent.WORKSPACE_UPDATED, view, after.workflow_id)

    # One task

    def _begin_again(self, workflow: Workflow, task: Task, role: RewindRole) -> tuple[Workflow, Task]:
        reason = self._describe(role)
        withdraw_work_request(self._tx, task)
        self._end_claim(task, reason)
        set_aside = {aside.task_id for aside in self._rewind.steps.asides}
        fresh = copy_with(
            task,
            status=TaskStatus.PENDING,
            outcome=None,
            outcome_detail=None,
            error=None,
            attempts=0,
            failures=0,
            started_at=None,
            finished_at=None,
            waits_for=None,
            claimed_by=None,
            stale_input=None,
            completed_tree=None,
            completed_head=None,
            workspace_id=None if task.id in set_aside else task.workspace_id,
        )
        self._cancel_landing(task, reason)
        workflow = self._uncount(workflow, task)
        self._add_checkpoint(task, reason, {"outcome": task.outcome, "error": task.error})
        saved = self._save(self._tasks.get(task.id), fresh, reason, workflow)
        AttemptStore(self._tx).forget_failures(task.id)
        return workflow, saved

    def _restore(self, workflow: Workflow, task: Task, state: Mapping[str, Any]) -> tuple[Workflow, Task]:
        reason = f"The rewind {self._rewind.undoes} was undone."
        status = TaskStatus(state["status"])
        values = {**state, "status": derive_released_status(status)}
        if status.is_running:  # nobody holds it any more, and nobody is asked about its work
            values |= {"waits_for": None, "outcome": None, "outcome_detail": None}
        values.pop("claimed_by", None)
        values["stale_input"] = tuple(stale) if (stale := state.get("stale_input")) else None
        self._leases.revoke(task.id)
        self._add_checkpoint(task, reason, None)
        saved = self._save(self._tasks.get(task.id), copy_with(task, **values), reason, workflow)
        if saved.status.is_done:
            self._tasks.unblock_dependents(task.id)
            workflow = self._count(workflow, saved, 1)
        return workflow, self._tasks.get(task.id)

    def _end_claim(self, task: Task, reason: str) -> None:
        """End the claim and begin another epoch: an agent that still works gets STALE_CLAIM."""
        if task.claimed_by is not None:
            self._notify(task, f"{reason} Stop working on it.")
            ClaimService(self._tx, self._presence).end_claim(task)
        self._leases.revoke(task.id)

    def _cancel_landing(self, task: Task, reason: str) -> None:
        landing = LandingStore(self._tx).find_open(task.id)
        if landing is not None and landing.status not in (LandingStatus.CHECKING, LandingStatus.MOVING):
            move_landing(self._tx, landing, LandingStatus.CANCELLED, reason=reason)

    def _mark_stale(self, task: Task, main: Task) -> Task:
        entry = {"rewind": self._rewind.id, "task_id": main.id, "name": main.name}
        marked = copy_with(task, stale_input=(*(task.stale_input or ()), entry))
        self._notify(task, f"Task {main.name!r}, which it builds on, was rewound ({self._rewind.id}).")
        return self._recorder.save_task(task, marked)

    def _unmark_stale(self, task: Task) -> Task:
        left = tuple(each for each in task.stale_input or () if each["rewind"] != self._rewind.undoes)
        return self._recorder.save_task(task, copy_with(task, stale_input=left or None))

    def _save(self, before: Task, after: Task, reason: str, workflow: Workflow) -> Task:
        after = copy_with(after, checkpoints=before.checkpoints, open_dependencies=before.open_dependencies)
        return self._recorder.save_task(before, after, reason, workflow=workflow)

    def _add_checkpoint(self, task: Task, summary: str, detail: Mapping[str, Any] | None) -> None:
        known = {name: value for name, value in (detail or {}).items() if value is not None}
        checkpoint = CheckpointStore(self._tx).add(
            task, CheckpointType.RECOVERY, summary, detail={"rewind": self._rewind.id, **known}
        )
        self._recorder.emit_checkpoint_event(task, checkpoint)

    def _notify(self, task: Task, text: str) -> None:
        agents = [task.claimed_by] if task.claimed_by else []
        NoticeService(self._tx).notify_agents(
            agents, NoticeType.STATUS, text, workflow_id=task.workflow_id, task_id=task.id
        )

    def _save_states(self, each: RewindTask, before: Mapping[str, Any], after: Task) -> None:
        lease = self._leases.find(after.id)
        state = {**archive(after), "epoch": lease.epoch if lease else None}
        changed = RewindTask(
            each.task_id, each.role, each.first_attempt, each.last_attempt, each.checkpoint, before, state
        )
        self._journal.save_task(self._rewind.id, changed)

    def _describe(self, role: RewindRole) -> str:
        what = (
            f"Rewound to {self._rewind.target}"
            if role is RewindRole.REWOUND
            else "Reset, because a task that it builds on was rewound"
        )
        return f"{what} by {self._tx.caller} ({self._rewind.id})."

    # The plan

    def _uncount(self, workflow: Workflow, task: Task) -> Workflow:
        """Let a task that was done no longer count: its dependents wait for it again."""
        if not task.status.is_done:
            return workflow
        self._tasks.block_dependents(task.id)
        return self._count(workflow, task, -1)

    def _count(self, workflow: Workflow, task: Task, sign: int) -> Workflow:
        if task.status is not TaskStatus.COMPLETED:
            return workflow
        end = task.finished_at or self._tx.now
        spent = measure_duration(task.started_at or end, end)
        counted = copy_with(
            workflow,
            completed_tasks=max(0, workflow.completed_tasks + sign),
            completed_ms=max(0, workflow.completed_ms + sign * spent),
            updated_at=self._tx.now,
        )
        PlanStore(self._tx).save(workflow, counted)
        return counted

    def _reopen_plan(self, workflow: Workflow) -> None:
        if workflow.status is PlanStatus.COMPLETED:
            reopened = copy_with(workflow, status=PlanStatus.IN_PROGRESS)
            self._recorder.save_workflow(workflow, reopened, f"a task was rewound ({self._rewind.id})")

    def _restore_plan(self, workflow: Workflow) -> None:
        if workflow.status is PlanStatus.IN_PROGRESS and self._tasks.are_all_done(workflow.id):
            completed = copy_with(workflow, status=PlanStatus.COMPLETED)
            self._recorder.save_workflow(workflow, completed, f"{self._rewind.undoes} was undone")


def archive(task: Task) -> dict[str, Any]:
    """Return the state of a task that a rewind changes, as JSON values."""
    values: dict[str, Any] = {name: getattr(task, name) for name in _COMPARED}
    values["stale_input"] = [dict(each) for each in task.stale_input] if task.stale_input else None
    return {name: value.value if isinstance(value, TaskStatus) else value for name, value in values.items()}


def find_state_changes(task: Task, epoch: int | None, expected: Mapping[str, Any]) -> list[str]:
    """List in what a task differs from the state that a rewind left it in."""
    now = {**archive(task), "epoch": epoch}
    names = {"epoch": "its claims", "claimed_by": "who holds it"}
    return [names.get(name, name) for name, value in expected.items() if now.get(name) != value]


def _archive_plan(workflow: Workflow) -> dict[str, Any]:
    return {
        "status": workflow.status.value,
        "completed_tasks": workflow.completed_tasks,
        "completed_ms": workflow.completed_ms,
    }
