"""What can be asked of planned tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from deepwork.agents.presence import Presence
from deepwork.agents.store import AgentStore
from deepwork.database.transaction import Database, Transaction
from deepwork.errors import NotAllowed
from deepwork.plans import context as contexts
from deepwork.plans.checkpoints import CheckpointStore
from deepwork.plans.chronicle import Chronicle
from deepwork.plans.claims import ClaimDesk, Work
from deepwork.plans.inputs import ContextParts, TaskPlan
from deepwork.plans.models import CheckpointType, Task, TaskStatus, Workflow
from deepwork.plans.responses import (
    AvailableTasks,
    CheckpointAdded,
    Checkpoints,
    CheckpointView,
    Claimed,
    CompletedDependency,
    Dependencies,
    PendingDependency,
    Replan,
    TaskView,
)
from deepwork.plans.scheduling import DEFAULT_OFFERED, MOST_OFFERED, Scheduler
from deepwork.plans.search import Said, SearchStore
from deepwork.plans.store import PlanStore
from deepwork.plans.task_store import TaskStore
from deepwork.plans.transitions import next_task_status, require_open
from deepwork.plans.workflow_tools import seen
from deepwork.plans.workplaces import Workplaces
from deepwork.shapes import Done, Id, Limit200, Limit1000, Preset, Text, Traits, check_object

AgentId = Annotated[Id | None, Field(description="In whose name")]
ClaimEpoch = Annotated[int | None, Field(description="From task_claim; refused if the claim has passed on")]

_NAMED = 3
_AROUND = 200
_DEPENDENCIES = 100
_TOKENS = Annotated[int, Field(ge=contexts.MIN_TOKENS, le=200_000, description="Budget of the answer")]


class TaskTools:
    """Agents take tasks, plan them, note what they do, and report."""

    traits: ClassVar = Traits(
        toolset="plans",
        read_only=frozenset(
            {
                "task_get", "task_check_dependencies", "task_get_available", "task_load_context",
                "checkpoint_list",
            }
        ),
        idempotent=frozenset({"task_claim", "task_update_status"}),
        aliases={"show": "get", "context": "load-context", "available": "get-available"},
        presets={
            "start": Preset(
                "update-status", {"status": "in_progress"}, "Begin a task, or go on with a paused one.",
                without=frozenset({"outcome", "outcome_detail", "error"}),
            ),
            "done": Preset(
                "update-status", {"status": "completed"}, "Report that a task is done, and what came of it.",
                without=frozenset({"error"}),
            ),
            "fail": Preset(
                "update-status", {"status": "failed"},
                "Report that a task failed, and why; it can be tried again.",
                without=frozenset({"outcome"}),
            ),
            "skip": Preset(
                "update-status", {"status": "skipped"}, "Leave a task out; whoever waits for it may begin.",
                without=frozenset({"error"}),
            ),
        },
    )  # fmt: skip

    def __init__(
        self,
        database: Database,
        presence: Presence,
        workplaces: Workplaces | None = None,
        only_repository: str | None = None,
    ) -> None:
        """`only_repository`: in a store for many projects, whose tasks alone are offered."""
        self._only_repository = only_repository
        self._database = database
        self._presence = presence
        self._workplaces = workplaces

    def task_get(
        self,
        id: Id,
        include_checkpoints: bool = False,
        checkpoint_limit: Annotated[Limit1000 | None, Field(description="The newest; default all")] = None,
    ) -> TaskView:
        """One task: what to do, its plan, its status and outcome."""
        with self._database.reading() as tx:
            task = TaskStore(tx).get(id)
            more: dict[str, Any] = {}
            if include_checkpoints:
                newest = CheckpointStore(tx).newest(id, checkpoint_limit or 1000)
                views = [CheckpointView.of(checkpoint) for checkpoint in newest]
                more = {"checkpoints": views, "checkpoints_total": task.checkpoints}
            return TaskView.of(task, seen(tx, [task]), **more)

    def task_set_plan(
        self,
        id: Id,
        plan: TaskPlan,
        context: Annotated[dict[str, Any] | None, Field(description="Merged into what is there")] = None,
        agent_id: AgentId = None,
        claim_epoch: ClaimEpoch = None,
    ) -> Done:
        """Say how a task will be done; a pending task moves to planning."""
        with self._database.transaction() as tx:
            work = self._begin(tx, id, agent_id, claim_epoch)
            if not (work.task.status.can_start or work.task.status is TaskStatus.PLANNING):
                raise NotAllowed(
                    f"Task {work.task.name!r} is {work.task.status}; its plan is set before work begins.",
                    suggestion="Change the plan of a task under way with task_replan.",
                )
            told = plan.model_dump(exclude_none=True)
            planned = replace(
                self._moved(tx, work, TaskStatus.PLANNING),
                plan=check_object("plan", told),
                context=check_object("context", {**work.task.context, **(context or {})}),
            )
            self._note(tx, work, CheckpointType.PLAN, plan.approach or "The task was planned.", detail=told)
            self._keep(tx, work, planned)
            return Done()

    def task_update_status(
        self,
        id: Id,
        status: TaskStatus,
        outcome: Annotated[str | None, Field(description="Required for completed")] = None,
        outcome_detail: dict[str, Any] | None = None,
        error: Annotated[str | None, Field(description="Required for failed")] = None,
        agent_id: AgentId = None,
        claim_epoch: ClaimEpoch = None,
    ) -> Done:
        """Report what became of a task; completed, failed and skipped end its claim."""
        with self._database.transaction() as tx:
            check_object("outcome_detail", outcome_detail or {})
            work = self._begin(tx, id, agent_id, claim_epoch, repeats=status)
            moved = self._moved(tx, work, status, outcome=outcome, error=error)
            if moved.status is work.task.status:
                return Done()
            if moved.status is TaskStatus.FAILED:
                moved = replace(moved, error=error, outcome_detail=outcome_detail)
            elif moved.status.is_done:
                moved = replace(moved, outcome=outcome, outcome_detail=outcome_detail, error=None)
            self._keep(tx, work, moved, reason=error or outcome)
            return Done()

    def task_replan(
        self,
        id: Id,
        reason: Text,
        new_plan: TaskPlan,
        agent_id: AgentId = None,
        claim_epoch: ClaimEpoch = None,
    ) -> Replan:
        """Plan a failed or running task anew; the old plan is kept in a checkpoint."""
        with self._database.transaction() as tx:
            work = self._begin(tx, id, agent_id, claim_epoch)
            task = work.task
            if not (task.status.is_running or task.status is TaskStatus.FAILED):
                raise NotAllowed(
                    f"Task {task.name!r} is {task.status}; only a failed or running task is planned anew.",
                    suggestion="Set the plan of a pending task with task_set_plan.",
                )
            told = check_object("new_plan", new_plan.model_dump(exclude_none=True))
            detail = {
                "reason": reason, "old_plan": task.plan, "new_plan": told, "status_before": task.status.value,
            }  # fmt: skip
            checkpoint_id = self._note(tx, work, CheckpointType.REPLAN, reason, detail=detail)
            is_its_own = work.actor is not None and work.holder == work.actor.id and task.status.is_running
            task = TaskStore(tx).get(id)
            status = task.status if is_its_own else TaskStatus.PENDING
            planned = replace(task, plan=told, status=status, outcome=None, outcome_detail=None, error=None)
            if not is_its_own:
                ClaimDesk(tx, self._presence).free_holder(task)
                planned = replace(planned, claimed_by=None, finished_at=None)
            self._chronicle(tx, work).task_changed(task, planned, reason)
            return Replan(checkpoint_id=checkpoint_id)

    def checkpoint_add(
        self,
        task_id: Id,
        type: CheckpointType,
        summary: Text,
        detail: dict[str, Any] | None = None,
        files_changed: list[str] | None = None,
        agent_id: AgentId = None,
        claim_epoch: ClaimEpoch = None,
    ) -> CheckpointAdded:
        """Note progress, a decision or an error on a task, so that anybody can go on from there."""
        with self._database.transaction() as tx:
            check_object("detail", detail or {})
            work = ClaimDesk(tx, self._presence).begin_work(task_id, agent_id, claim_epoch, is_note=True)
            checkpoint = CheckpointStore(tx).add(
                work.task, type, summary, detail=detail, files_changed=files_changed or (),
                agent_id=work.actor.id if work.actor else None,
            )  # fmt: skip
            Chronicle(tx).tell_checkpoint(work.task, checkpoint)
            return CheckpointAdded(id=checkpoint.id, sequence=checkpoint.sequence)

    def checkpoint_list(
        self,
        task_id: Id,
        type: list[CheckpointType] | None = None,
        since_sequence: Annotated[int, Field(ge=0, description="Only newer ones")] = 0,
        limit: Limit1000 = 100,
    ) -> Checkpoints:
        """Checkpoints of a task, oldest first."""
        with self._database.reading() as tx:
            TaskStore(tx).get(task_id)
            found, total = CheckpointStore(tx).after(task_id, since_sequence, type, limit)
            views = [CheckpointView.of(checkpoint) for checkpoint in found]
            return Checkpoints(checkpoints=views, total=total)

    def task_load_context(
        self,
        task_id: Id,
        include: ContextParts | None = None,
        max_tokens: _TOKENS = 8000,
    ) -> dict[str, Any]:
        """Everything needed to go on with a task after a lost context, within a token budget."""
        parts = contexts.Include(**(include or ContextParts()).model_dump())
        with self._database.reading() as tx:
            material = _material(tx, TaskStore(tx).get(task_id), parts)
        return contexts.load(material, parts, max_tokens)

    def task_check_dependencies(self, task_id: Id, limit: Limit1000 = _DEPENDENCIES) -> Dependencies:
        """What a task waits for, and what of it is done."""
        with self._database.reading() as tx:
            store = TaskStore(tx)
            task = store.get(task_id)
            pending, pending_total = store.open_dependencies(task, limit)
            completed, completed_total = store.done_dependencies(task, limit)
            return Dependencies(
                satisfied=pending_total == 0,
                pending=[PendingDependency(id=it.id, name=it.name, status=it.status) for it in pending],
                completed=[
                    CompletedDependency(id=it.id, name=it.name, outcome=it.outcome or "") for it in completed
                ],
                pending_total=pending_total,
                completed_total=completed_total,
            )

    def task_claim(self, task_id: Id, agent_id: Id) -> Claimed:
        """Take a task for an agent, unless another holds it; renewed by every call in the agent's name."""
        with self._database.transaction() as tx:
            return ClaimDesk(tx, self._presence, self._workplaces).claim(task_id, agent_id)

    def task_release(self, task_id: Id, agent_id: Id, reason: str | None = None) -> Done:
        """Give a claimed task back, for another to take."""
        with self._database.transaction() as tx:
            ClaimDesk(tx, self._presence).release(task_id, agent_id, reason)
            return Done()

    def task_get_available(
        self, agent_id: Id, workflow_id: Id | None = None, limit: Limit200 | None = None
    ) -> AvailableTasks:
        """Tasks that an agent with these capabilities could claim now."""
        with self._database.reading() as tx:
            agent, now = AgentStore(tx).get(agent_id), tx.now
            workflow = PlanStore(tx).get(workflow_id) if workflow_id else None
            offered = limit or _offered(workflow)
            available = Scheduler(tx, self._only_repository).available(agent, workflow, offered)
        self._presence.looked(agent, now)
        return available

    # How a change of a task is made

    def _begin(
        self,
        tx: Transaction,
        id: str,
        agent_id: str | None,
        claim_epoch: int | None,
        repeats: TaskStatus | None = None,
    ) -> Work:
        """Hold the task for a change; what only repeats a status is no change, even when all is over."""
        work = ClaimDesk(tx, self._presence).begin_work(id, agent_id, claim_epoch)
        if repeats is None or work.task.status is not repeats:
            require_open(work.workflow)
        return work

    def _moved(
        self,
        tx: Transaction,
        work: Work,
        wanted: TaskStatus,
        *,
        outcome: str | None = None,
        error: str | None = None,
    ) -> Task:
        """The task with that status, if it may have it."""
        task = work.task
        open_ones, count = TaskStore(tx).open_dependencies(task, _NAMED) if task.status.can_start else ([], 0)
        status = next_task_status(
            task, wanted, open_dependencies=[other.name for other in open_ones], open_count=count,
            outcome=outcome, error=error,
        )  # fmt: skip
        if status is None:
            return task
        begins = task.status.can_start and status not in (TaskStatus.SKIPPED, TaskStatus.PENDING)
        return replace(
            task,
            status=status,
            attempts=task.attempts + begins,
            started_at=self._begun_at(tx, work, status) if begins else task.started_at,
            finished_at=tx.now if status.is_done or status is TaskStatus.FAILED else None,
        )

    def _begun_at(self, tx: Transaction, work: Work, status: TaskStatus) -> int:
        """When the work began: now, or with the claim if the first word of it is that it is over."""
        was_held = work.holder is not None or work.was_its_own
        if status.is_running or not was_held:
            return tx.now
        return TaskStore(tx).claimed_at(work.task.id) or tx.now

    def _keep(self, tx: Transaction, work: Work, changed: Task, reason: str | None = None) -> None:
        """Keep the change and all that follows from it: the claim, who waits, and the workflow."""
        desk, status = ClaimDesk(tx, self._presence), changed.status
        if status in (TaskStatus.PLANNING, TaskStatus.IN_PROGRESS):
            desk.take_up(work)
        before = TaskStore(tx).get(work.task.id)
        changed = replace(changed, checkpoints=before.checkpoints, claimed_by=before.claimed_by)
        is_over = status.is_done or status is TaskStatus.FAILED
        if is_over or status is TaskStatus.PENDING:
            desk.free_holder(before)
            changed = replace(changed, claimed_by=None)
        chronicle = self._chronicle(tx, work)
        chronicle.task_changed(before, changed, reason)
        if said := "\n".join(filter(None, [changed.outcome, changed.error] if is_over else [])):
            SearchStore(tx).add([Said(changed.id, changed.workflow_id, f"{changed.name}\n{said}")])
        workflow = work.workflow
        if status.is_done:
            TaskStore(tx).settle_dependents(changed.id)
            workflow = _counted(tx, workflow, changed)
        begun = status not in (TaskStatus.PENDING, TaskStatus.SKIPPED)
        chronicle.follow_tasks(workflow, any_begun=begun, may_be_done=status.is_done)

    def _note(
        self, tx: Transaction, work: Work, type: CheckpointType, summary: str, *, detail: dict[str, Any]
    ) -> str:
        agent_id = work.actor.id if work.actor else None
        checkpoint = CheckpointStore(tx).add(work.task, type, summary, detail=detail, agent_id=agent_id)
        Chronicle(tx).tell_checkpoint(work.task, checkpoint)
        return checkpoint.id

    def _chronicle(self, tx: Transaction, work: Work) -> Chronicle:
        return Chronicle(tx, work.actor.id if work.actor else None)


def _counted(tx: Transaction, workflow: Workflow, task: Task) -> Workflow:
    """The workflow with the time that the completed task took."""
    if task.status is not TaskStatus.COMPLETED:
        return workflow
    spent = max(0, tx.now - (task.started_at or tx.now))
    counted = replace(
        workflow,
        completed_tasks=workflow.completed_tasks + 1,
        completed_ms=workflow.completed_ms + spent,
        updated_at=tx.now,
    )
    PlanStore(tx).keep(workflow, counted)
    return counted


def _offered(workflow: Workflow | None) -> int:
    wanted = workflow.max_parallel_tasks if workflow else DEFAULT_OFFERED
    return min(MOST_OFFERED, max(DEFAULT_OFFERED, wanted))


def _material(tx: Transaction, task: Task, parts: contexts.Include) -> contexts.Material:
    """What a context is made of; no more than could ever be shown."""
    store = TaskStore(tx)
    wanted = 1000 if parts.all_checkpoints else parts.recent_checkpoints
    prior, prior_total = store.prior(task, _AROUND)
    siblings, siblings_total = store.siblings(task, _AROUND)
    pending, pending_total = store.open_dependencies(task, _AROUND)
    completed, completed_total = store.done_dependencies(task, _AROUND)
    return contexts.Material(
        workflow=PlanStore(tx).get(task.workflow_id),
        task=task,
        checkpoints=CheckpointStore(tx).newest(task.id, wanted) if wanted else [],
        checkpoints_total=task.checkpoints,
        prior_tasks=prior,
        prior_total=prior_total,
        siblings=siblings,
        siblings_total=siblings_total,
        dependencies=[*completed, *pending],
        dependencies_total=pending_total + completed_total,
        blocked=task.status is TaskStatus.PENDING and pending_total > 0,
    )
