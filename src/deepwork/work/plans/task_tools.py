"""Tools for planned tasks: claiming, planning, reporting and checkpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from deepwork.gates.approvals.acts import allow_person
from deepwork.kernel.answers import Done, Field, Id, Limit200, Limit1000, Text, check_object
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.notices.responses import NoticeView
from deepwork.kernel.notices.store import carry_after_reading, carry_notices
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.values import copy_with
from deepwork.work.agents.presence import Presence
from deepwork.work.agents.store import AgentStore
from deepwork.work.plans.claims import ClaimService, LockedTask
from deepwork.work.plans.context_loading import (
    load_claimed_context,
    load_context_source,
    load_task_relations,
    update_unmerged,
)
from deepwork.work.plans.interfaces import WorkspaceProvider
from deepwork.work.plans.models import CheckpointType, Task, TaskStatus
from deepwork.work.plans.queue_responses import AvailableTasks, TaskUpdated
from deepwork.work.plans.recorder import (
    PlanRecorder,
    find_notices_for_reader,
    notify_of_replan,
    withdraw_work_request,
)
from deepwork.work.plans.responses import (
    CheckpointAdded,
    Checkpoints,
    CheckpointView,
    Claimed,
    CompletedDependency,
    Dependencies,
    PendingDependency,
    PlanTaskView,
    Replan,
)
from deepwork.work.plans.rules.transitions import count_attempts, require_attempts_left
from deepwork.work.plans.scheduling import Scheduler, choose_limit
from deepwork.work.plans.status_changes import (
    apply_status,
    build_status_answer,
    may_give_attempts,
    record_checkpoint_usage,
    record_result_usage,
    reopen_by_person,
)
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.search_store import CheckpointStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.plans.task_context import (
    DEFAULT_TOKENS,
    MIN_TOKENS,
    ContextOptions,
    build_context,
    choose_notices,
)
from deepwork.work.plans.task_presets import TASK_PRESETS
from deepwork.work.plans.task_proofs import list_used_proofs
from deepwork.work.plans.task_reports import TaskReports, add_checkpoint, create_recorder

if TYPE_CHECKING:  # input models import pydantic: only calls that use them do
    from deepwork.work.plans.inputs import ContextParts, TaskPlan

AgentId = Id | None
ClaimEpoch = Annotated[int | None, Field(description="From task_claim")]

_DEFAULT_DEPENDENCY_LIMIT = 100
_TokenBudget = Annotated[int, Field(ge=MIN_TOKENS, le=200_000)]


class TaskTools:
    """Tools with which agents claim tasks, plan them, add checkpoints and report results."""

    traits: ClassVar = Traits(
        toolset="plans",
        one_transaction=True,
        aliases={"show": "get", "context": "load-context", "available": "get-available"},
        presets=TASK_PRESETS,
    )

    def __init__(
        self,
        database: Database,
        presence: Presence,
        reports: TaskReports,
        workspaces: WorkspaceProvider | None = None,
        only_repository: str | None = None,
    ) -> None:
        """`only_repository`: in a store shared by projects, offer only tasks of this repository."""
        self._only_repository = only_repository
        self._database = database
        self._presence = presence
        self._reports = reports
        self._workspaces = workspaces

    @operation("read")
    def task_get(
        self,
        id: Id,
        include_checkpoints: bool = False,
        checkpoint_limit: Annotated[
            Limit1000 | None, Field(description="Only the newest; default all")
        ] = None,
    ) -> PlanTaskView:
        """Get a task: description, plan, status and outcome."""
        with self._database.reading() as tx:
            task = TaskStore(tx).get(id)
            more: dict[str, Any] = {}
            if include_checkpoints:
                newest = CheckpointStore(tx).list_newest(id, checkpoint_limit or 1000)
                views = [CheckpointView.from_checkpoint(checkpoint) for checkpoint in newest]
                more = {"checkpoints": views, "checkpoints_total": task.checkpoints}
            if task.requirements and task.status is TaskStatus.COMPLETED:
                more["proofs"] = list_used_proofs(tx, task) or None
            return PlanTaskView.from_task(task, load_task_relations(tx, [task]), **more)

    @operation("work", acts_as="agent_id", prepared_by="_prepare_start")
    def task_set_plan(
        self,
        id: Id,
        plan: TaskPlan,
        context: Annotated[dict[str, Any] | None, Field(description="Merged")] = None,
        agent_id: AgentId = None,
        claim_epoch: ClaimEpoch = None,
    ) -> Done:
        """Set a task's plan; a pending task moves to planning."""
        with self._database.transaction() as tx, ClaimService(tx, self._presence, self._workspaces) as claims:
            work = self._reports.lock(claims, id, agent_id, claim_epoch)
            if not (work.task.status.can_start or work.task.status is TaskStatus.PLANNING):
                raise NotAllowed(
                    f"Task {work.task.name!r} is {work.task.status}; a plan is set before work starts.",
                    suggestion="Change the plan of a started task with {tool:task_replan}.",
                )
            fields = plan.model_dump(exclude_none=True)
            planned = copy_with(
                apply_status(tx, work, TaskStatus.PLANNING),
                plan=check_object("plan", fields),
                context=check_object("context", {**work.task.context, **(context or {})}),
            )
            add_checkpoint(
                tx, work, CheckpointType.PLAN, plan.approach or "The task was planned.", detail=fields
            )
            self._reports.save(tx, claims, work, planned)
            return Done()

    @operation(
        "work",
        acts_as="agent_id",
        idempotent=True,
        for_people=True,
        may_become_task=True,
        prepared_by="_prepare_status",
        prepared_when=("status", "completed"),
    )
    def task_update_status(
        self,
        id: Id,
        status: TaskStatus,
        outcome: Annotated[str | None, Field(description="Required for completed")] = None,
        outcome_detail: dict[str, Any] | None = None,
        error: Annotated[str | None, Field(description="Required for failed")] = None,
        agent_id: AgentId = None,
        claim_epoch: ClaimEpoch = None,
    ) -> TaskUpdated:
        """Set a task's status; completed, failed and skipped end its claim."""
        with self._database.transaction() as tx, ClaimService(tx, self._presence, self._workspaces) as claims:
            check_object("outcome_detail", outcome_detail or {})
            if status is TaskStatus.PENDING and reopen_by_person(tx, id, outcome):
                return TaskUpdated()
            work = self._reports.lock(claims, id, agent_id, claim_epoch, repeats=status)
            moved = apply_status(tx, work, status, outcome=outcome, error=error)
            if moved.status is work.task.status:
                return TaskUpdated(notices=_carry_notices(tx, work))
            workflow, moved, proofs = self._reports.save_status(
                tx, claims, work, moved, outcome, outcome_detail, error
            )
            warning = record_result_usage(tx, workflow, moved, work.actor.id if work.actor else None)
            verdicts = proofs.verdicts if proofs else None
            answer = build_status_answer(tx, workflow, moved.status, _carry_notices(tx, work), verdicts)
            return answer.model_copy({"warning": warning}) if warning else answer

    def _prepare_start(self, id: str, **_: Any) -> object:
        """Look for the work of other machines, as a claim does: a task that starts is claimed."""
        return self._prepare_claim(id)

    def _prepare_status(self, id: str, status: TaskStatus, **given: Any) -> object:
        is_over = status is TaskStatus.COMPLETED
        return self._reports.prepare_completion(id, **given) if is_over else self._prepare_claim(id)

    @operation("work", acts_as="agent_id")
    def task_replan(
        self,
        id: Id,
        reason: Text,
        new_plan: TaskPlan,
        agent_id: AgentId = None,
        claim_epoch: ClaimEpoch = None,
    ) -> Replan:
        """Replace the plan of a failed or running task; a checkpoint records the old one."""
        with self._database.transaction() as tx, ClaimService(tx, self._presence) as claims:
            work = self._reports.lock(claims, id, agent_id, claim_epoch)
            task = work.task
            if not (task.status.is_running or task.status is TaskStatus.FAILED):
                raise NotAllowed(
                    f"Task {task.name!r} is {task.status}; only failed or running tasks can be replanned.",
                    suggestion="Set the plan of a pending task with {tool:task_set_plan}.",
                )
            with allow_person(tx):
                require_attempts_left(task, TaskStatus.PENDING)
            fields = check_object("new_plan", new_plan.model_dump(exclude_none=True))
            detail = _describe_replan(task, reason, fields)
            checkpoint_id = add_checkpoint(tx, work, CheckpointType.REPLAN, reason, detail=detail)
            self._save_replanned(tx, claims, work, reason, fields)
            return Replan(checkpoint_id=checkpoint_id)

    @operation("work", acts_as="agent_id")
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
        """Record progress, a decision or an error, so that any agent can continue the task."""
        with self._database.transaction() as tx, ClaimService(tx, self._presence) as claims:
            check_object("detail", detail or {})
            work = claims.lock_for_change(task_id, agent_id, claim_epoch, is_checkpoint=True)
            checkpoint = CheckpointStore(tx).add(
                work.task,
                type,
                summary,
                detail={**(detail or {}), "late": True} if work.is_late else detail,
                files_changed=files_changed or (),
                agent_id=work.actor.id if work.actor else None,
            )
            PlanRecorder(tx).emit_checkpoint_event(work.task, checkpoint)
            warning = record_checkpoint_usage(tx, work.workflow, work.task, checkpoint)
            return CheckpointAdded(
                id=checkpoint.id,
                sequence=checkpoint.sequence,
                late=work.is_late or None,
                warning=warning,
                notices=_carry_notices(tx, work),
            )

    @operation("read")
    def checkpoint_list(
        self,
        task_id: Id,
        type: list[CheckpointType] | None = None,
        since_sequence: Annotated[int, Field(ge=0, description="Only newer ones")] = 0,
        limit: Limit1000 = 100,
    ) -> Checkpoints:
        """List a task's checkpoints, oldest first."""
        with self._database.reading() as tx:
            TaskStore(tx).get(task_id)
            found, total = CheckpointStore(tx).list_after(task_id, since_sequence, type, limit)
            views = [CheckpointView.from_checkpoint(checkpoint) for checkpoint in found]
            return Checkpoints(checkpoints=views, total=total)

    @operation("read")
    def task_load_context(
        self, task_id: Id, include: ContextParts | None = None, max_tokens: _TokenBudget = DEFAULT_TOKENS
    ) -> dict[str, Any]:
        """Everything needed to continue a task after losing context, within a token budget."""
        parts = ContextOptions(**include.model_dump()) if include else ContextOptions()
        with self._database.reading() as tx:
            source = load_context_source(tx, TaskStore(tx).get(task_id), parts, self._workspaces)
            waiting, is_marked = find_notices_for_reader(tx, self._presence, source.task.claimed_by)
        fitting = choose_notices(waiting, max_tokens)
        notices = carry_after_reading(self._database, fitting, is_marked=is_marked)
        current = update_unmerged(source, self._workspaces)
        return build_context(replace(current, notices=notices), parts, max_tokens)

    @operation("read")
    def task_check_dependencies(
        self, task_id: Id, limit: Limit1000 = _DEFAULT_DEPENDENCY_LIMIT
    ) -> Dependencies:
        """List a task's dependencies, open and done."""
        with self._database.reading() as tx:
            store = TaskStore(tx)
            task = store.get(task_id)
            pending, pending_total = store.list_open_dependencies(task, limit)
            completed, completed_total = store.list_done_dependencies(task, limit)
            return Dependencies(
                satisfied=pending_total == 0,
                pending=[PendingDependency.of(task) for task in pending],
                completed=[CompletedDependency.of(task, outcome=task.outcome or "") for task in completed],
                pending_total=pending_total,
                completed_total=completed_total,
            )

    @operation("work", acts_as="agent_id", idempotent=True, prepared_by="_prepare_claim")
    def task_claim(
        self,
        task_id: Id,
        agent_id: Id,
        start: Annotated[bool, Field(description="Also set it in_progress")] = False,
        include_context: bool = False,
    ) -> Claimed:
        """Claim a task for an agent unless another holds it; any call by the agent renews the claim."""
        with self._database.transaction() as tx, ClaimService(tx, self._presence, self._workspaces) as claims:
            claimed = claims.claim(task_id, agent_id)
            if claimed.success and start:
                work = self._reports.lock(claims, task_id, agent_id, claimed.claim_epoch)
                self._reports.save(tx, claims, work, apply_status(tx, work, TaskStatus.IN_PROGRESS))
                claimed = claimed.model_copy({"status": TaskStatus.IN_PROGRESS, "next_step": None})
            if claimed.success and include_context:
                claimed = claimed.model_copy({"context": load_claimed_context(tx, task_id, agent_id)})
            return claimed

    def _prepare_claim(self, task_id: str, **_: Any) -> object:
        """Look for the work of other machines before the transaction: git is asked for it."""
        return self._workspaces.look_for_dependencies(task_id) if self._workspaces else None

    @operation("work", acts_as="agent_id", for_people=True)
    def task_release(self, task_id: Id, agent_id: Id, reason: str | None = None) -> Done:
        """Release a claimed task for other agents."""
        with self._database.transaction() as tx:
            ClaimService(tx, self._presence).release(task_id, agent_id, reason)
            return Done()

    @operation("read")
    def task_get_available(
        self, agent_id: Id, workflow_id: Id | None = None, limit: Limit200 | None = None
    ) -> AvailableTasks:
        """List tasks that an agent can claim now, by its capabilities."""
        with self._database.reading() as tx:
            agent, now = AgentStore(tx).get(agent_id), tx.now
            workflow = PlanStore(tx).get(workflow_id) if workflow_id else None
            offered = limit or choose_limit(workflow)
            available = Scheduler(tx, self._only_repository).list_available(
                agent.capabilities, workflow, offered
            )
        self._presence.record_read(agent, now)
        return available

    # Helpers

    def _save_replanned(
        self, tx: Transaction, claims: ClaimService, work: LockedTask, reason: str, plan: dict[str, Any]
    ) -> None:
        """Save the new plan; the holder of a running task keeps it, in all other cases it becomes pending."""
        task = TaskStore(tx).get(work.task.id)
        is_its_own = work.actor is not None and work.holder == work.actor.id and task.status.is_running
        status = task.status if is_its_own else TaskStatus.PENDING
        withdraw_work_request(tx, task)
        planned = copy_with(
            task, plan=plan, status=status, outcome=None, outcome_detail=None, error=None, waits_for=None
        )
        planned = count_attempts(task, planned, may_forget=may_give_attempts(tx, task, status))
        if not is_its_own:
            claims.end_claim(task)
            planned = copy_with(planned, claimed_by=None, finished_at=None)
            notify_of_replan(tx, task, work.holder, reason)
        create_recorder(tx, work).save_task(task, planned, reason, workflow=work.workflow)


def _describe_replan(task: Task, reason: str, new_plan: dict[str, Any]) -> dict[str, Any]:
    return {"reason": reason, "old_plan": task.plan, "new_plan": new_plan, "status_before": task.status.value}


def _carry_notices(tx: Transaction, work: LockedTask) -> list[NoticeView] | None:
    return carry_notices(tx, work.actor.id) if work.actor else None
