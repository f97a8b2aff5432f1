"""Claims: which agent may work on a task, for how long, and what happens when that agent goes silent.

A claim is a lease. The workflow is always locked first, so calls about one workflow run one after another;
several agents are locked in the order of their ids. That rules out deadlocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from deepwork.gates.approvals.acts import allow_person
from deepwork.kernel.call import current_call, is_own_agent, is_person, may_change_of_others
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import Code, NotAllowed
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import copy_with
from deepwork.work.agents.models import Agent, AgentStatus, Lease, require_own_kind
from deepwork.work.agents.presence import Presence
from deepwork.work.agents.store import AgentStore, LeaseStore
from deepwork.work.plans.admission import ClaimRefusals, build_refusal
from deepwork.work.plans.interfaces import WorkspaceProvider
from deepwork.work.plans.models import CheckpointType, PlanEvent, PlanStatus, Task, TaskStatus, Workflow
from deepwork.work.plans.recorder import PlanRecorder, notify_of_release, use_start_approval
from deepwork.work.plans.responses import Claimed
from deepwork.work.plans.rules.levels import ActiveTask
from deepwork.work.plans.rules.transitions import (
    build_ended_plan_error,
    build_held_error,
    build_paused_error,
    build_released_error,
    build_stale_claim_error,
    derive_released_status,
    list_warnings,
)
from deepwork.work.plans.stores.claim_store import LEASE_EXPIRED, ActiveStore, ClaimStore
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.search_store import CheckpointStore
from deepwork.work.plans.stores.task_store import TaskStore

_START = 'task_update_status(status="in_progress") when you start'


@dataclass(frozen=True)
class LockedTask:
    """A task locked until the transaction ends, its workflow, and who acts on it."""

    workflow: Workflow
    task: Task
    actor: Agent | None
    """The agent on whose behalf the call is made; None if the caller has no registered agent."""
    holder: str | None
    """The agent whose lease on the task has not expired."""
    was_last_holder: bool
    """Whether the actor has held the task and no other agent has held it since."""
    is_late: bool
    """Whether the call comes from a former holder, whose claim was taken away or passed to another agent."""


class ClaimService:
    """Grants, renews, releases and reclaims claims on tasks.

    Use it in a `with` block where an agent acts: its end saves the agent, unless a change has saved it.
    """

    def __init__(
        self, tx: Transaction, presence: Presence, workspaces: WorkspaceProvider | None = None
    ) -> None:
        self._tx = tx
        self._presence = presence
        self._workspaces = workspaces
        self._agents = AgentStore(tx)
        self._plans = PlanStore(tx)
        self._tasks, self._claims = TaskStore(tx), ClaimStore(tx)
        self._active = ActiveStore(tx)
        self._refusals = ClaimRefusals(tx)
        self._leases = LeaseStore(tx, presence.lease_ms)
        self._unsaved: Agent | None = None
        """The acting agent, until it is saved: its leases are renewed already."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Save that the acting agent is alive, unless a change of the agent has saved it."""
        if error is None and self._unsaved is not None:
            self._save_agent(self._unsaved)

    # Claiming and releasing

    def claim(self, task_id: str, agent_id: str) -> Claimed:
        """Claim the task for the agent, or return the reason why that is not possible."""
        if early := self._refuse_taken(task_id, agent_id):
            return early
        workflow = self._plans.get_for_update_by_task(task_id)
        agent = self._lock_claimant(agent_id)
        self.reclaim_expired(workflow)
        task = self._tasks.get_for_update(task_id)
        _require_unfinished(task.name, task.status)
        lease = self._leases.find(task_id)
        # Expired leases were reclaimed above, unless the holder is renewing its lease right now.
        holder = lease.who if lease else None
        if holder and holder != agent.id:
            return _build_taken_refusal(holder)
        if agent.unregistered_at is not None:
            return build_refusal("offline", f"Agent {agent.id!r} has unregistered; register again.")
        if lease and holder:
            return self._add_workspace(workflow, task, _build_grant(lease, task))
        others = self._refusals.find_active_tasks(workflow, task)
        refusal = self._refusals.find_refusal(workflow, task, others, agent.id)
        refusal = refusal or self._refuse_without_work(workflow, task)
        return refusal or self._add_workspace(
            workflow, task, self._grant(workflow, task, agent, others.overlapping)
        )

    def release(self, task_id: str, agent_id: str, reason: str | None) -> None:
        """End the agent's claim; a started task becomes pending again."""
        workflow = self._plans.get_for_update_by_task(task_id)
        task = self._tasks.get_for_update(task_id)
        agent = self._agents.get_for_update(agent_id)
        lease = self._leases.find(task_id)
        if lease is None or lease.who is None:
            raise NotAllowed(
                f"Task {task.name!r} is not claimed.",
                code=Code.NOT_CLAIMED,
                suggestion="There is nothing to release; {tool:workflow_next_tasks} lists what can "
                "be claimed.",
            )
        if lease.who != agent_id:
            raise build_held_error(task, lease.who, agent_id)
        self._leases.release(task_id, agent_id, is_taken_away=True)
        by_whom = self._tx.caller if is_person(self._tx.caller) else agent_id
        self._requeue(workflow, task, reason or "released", by_whom=by_whom)
        notify_of_release(self._tx, task, agent_id, reason)
        if agent.unregistered_at is None:
            self._update_agent_after_release(agent)

    def release_for_agent(self, agent_id: str, task_ids: Sequence[str]) -> None:
        """Requeue these tasks of an agent that unregistered and so gave up its leases."""
        tasks = self._tasks.find_by_ids(task_ids).values()
        for task in sorted(tasks, key=lambda task: (task.workflow_id, task.id)):
            workflow = self._plans.get_for_update(task.workflow_id)
            held = self._tasks.get_for_update(task.id)
            if held.claimed_by == agent_id:
                self._requeue(workflow, held, "its agent unregistered", by_whom=agent_id)

    def reclaim_expired(self, workflow: Workflow) -> None:
        """Requeue every task of the workflow whose lease expired, each with a recovery checkpoint."""
        for task_id, loser, until in self._claims.list_expired_claims(workflow.id):
            self._reclaim_task(workflow, self._tasks.get_for_update(task_id), loser, until)

    def release_all(self, workflow: Workflow, reason: str) -> None:
        """End every claim of a workflow that is over."""
        claimed = [task for task in self._active.list_active(workflow.id) if task.claimed_by]
        for task in sorted(claimed, key=lambda task: str(task.claimed_by)):
            self.end_claim(task)
            self._requeue(workflow, task, reason, by_whom=self._tx.caller)

    # Working under a claim

    def lock_for_change(
        self, task_id: str, agent_id: str | None, epoch: int | None, *, is_checkpoint: bool = False
    ) -> LockedTask:
        """Lock the task for a change by the caller's agent, which counts as a sign of life.

        Refuses callers whose claim was released or passed to another agent, and reclaims the task from a
        holder that went silent, unless the call only adds a checkpoint. A call that names no agent acts as
        the caller's only agent (`Presence.find_unnamed_actor`), never as the holder because it holds the
        task. A person may change a task that an agent holds.
        """
        workflow = self._plans.get_for_update_by_task(task_id)
        task = self._tasks.get_for_update(task_id)
        actor = self._lock_actor(task, agent_id)
        if actor:
            self._begin_sign_of_life(actor)
        own, last, lease = self._claims.get_claim_history(task_id, actor.id if actor else None)
        holder = lease.who if lease and lease.until >= self._tx.now else None
        has_other_epoch = epoch is not None and (lease is None or lease.epoch != epoch)
        is_stale = has_other_epoch or (own is not None and own != last)
        is_former = own is not None or epoch is not None
        is_late = is_stale or bool(is_former and lease and lease.was_taken_away)
        if not is_checkpoint:
            if is_late:
                raise (
                    build_stale_claim_error(task, holder)
                    if is_stale
                    else self._find_released_error(workflow, task, actor)
                )
            is_by_person = agent_id is None and is_person(self._tx.caller)
            actor_id = actor.id if actor else None
            if holder not in (None, actor_id) and not is_by_person:
                raise build_held_error(task, holder, actor_id)
        elif own is None:
            self._require_checkpoint_by_holder(task, actor, holder)
        if actor and own is not None and holder is None and not is_late:
            self._leases.forget_loss(task_id, actor.id)
        if lease and lease.who and holder is None and not is_checkpoint:
            task = self._reclaim_task(workflow, task, lease.who, lease.until)
        return LockedTask(workflow, task, actor, holder, was_last_holder=own is not None, is_late=is_late)

    def claim_on_start(self, work: LockedTask, status: TaskStatus) -> Task:
        """Claim a task for the agent that starts it without claiming it first, and return the task.

        Without a lease the task would stay started forever if the agent went silent. What `claim` would
        refuse is refused here too, and so is starting while the workflow is paused. An agent whose lease
        expired may continue if no other agent took over; the epoch of its claim stays valid.
        """
        task, agent = work.task, work.actor
        if work.workflow.status is PlanStatus.PAUSED and task.status is not status:
            raise build_paused_error(task, work.workflow, self._plans.find_pause(work.workflow.id))
        if work.holder is not None:
            return task
        if over := self._refusals.find_budget_refusal(work.workflow, task):
            with allow_person(self._tx):
                raise _build_start_error(task, over)
        if agent is None:
            return task
        if work.was_last_holder:
            lease = self._leases.resume(task.id, agent.id)
            return self._assign(task, agent, lease or self._leases.take(task.id, agent.id))
        others = self._refusals.find_active_tasks(work.workflow, task)
        if refusal := self._refusals.find_refusal(work.workflow, task, others, agent.id, has_begun=True):
            raise _build_start_error(task, refusal)
        if missing := self._refuse_without_work(work.workflow, task):
            raise _build_start_error(task, missing)
        return self._assign(task, agent, self._leases.take(task.id, agent.id))

    def end_claim(self, task: Task) -> None:
        """End the lease on a task that needs no holder any more, and free its agent for another."""
        holder, actor = task.claimed_by, self._unsaved
        is_taken_away = actor is None or actor.id != holder
        if holder is None or not self._leases.release(task.id, holder, is_taken_away=is_taken_away):
            return
        agent = actor if actor and actor.id == holder else self._agents.get_for_update(holder)
        if agent.unregistered_at is None:
            self._update_agent_after_release(agent)

    def _require_checkpoint_by_holder(self, task: Task, actor: Agent | None, holder: str | None) -> None:
        """Raise if a token that is not the holder's adds a checkpoint to a held task."""
        actor_id = actor.id if actor else None
        if holder in (None, actor_id) or may_change_of_others(current_call()):
            return
        if not is_own_agent(current_call(), str(holder), self._agents.get(str(holder)).registered_by):
            raise build_held_error(task, holder, actor_id)

    # The acting agent

    def _lock_claimant(self, agent_id: str) -> Agent:
        """Lock the agent that claims; to claim is a sign of life, unless the agent has unregistered."""
        agent = self._agents.get_for_update(agent_id)
        if agent.unregistered_at is None:
            self._begin_sign_of_life(agent)
        return agent

    def _begin_sign_of_life(self, agent: Agent) -> None:
        """Renew the agent's leases: before any is reclaimed, because an agent that calls is not silent."""
        require_own_kind(agent, self._tx.caller)
        self._presence.renew_leases(self._tx, agent)
        self._unsaved = agent

    def _save_agent(self, agent: Agent, **changes: Any) -> None:
        if self._unsaved is None and is_person(self._tx.caller):
            self._presence.save_changes(self._tx, agent, **changes)
            return
        if self._unsaved is not None and self._unsaved.id == agent.id:
            self._unsaved = None
        else:
            self._presence.renew_leases(self._tx, agent)
        self._presence.save_alive(self._tx, agent, **changes)

    # Helpers

    def _refuse_taken(self, task_id: str, agent_id: str) -> Claimed | None:
        """Refuse a task that another agent holds or that is done; None if it may be free.

        It does not lock the workflow: of many agents that want the same task, those that come too late
        need not wait until every other call about the workflow has ended.
        """
        state = self._claims.find_state(task_id)
        if state is None or (not state.status.is_done and state.holder in (None, agent_id)):
            return None
        self._lock_claimant(agent_id)
        _require_unfinished(state.name, state.status)
        return _build_taken_refusal(str(state.holder))

    def _grant(
        self, workflow: Workflow, task: Task, agent: Agent, conflicts: Sequence[ActiveTask]
    ) -> Claimed:
        use_start_approval(self._tx, workflow, task)
        lease = self._leases.take(task.id, agent.id, is_free=True)
        assigned = self._assign(task, agent, lease)
        PlanRecorder(self._tx, agent.id).update_workflow_status(workflow, any_started=True, may_be_done=False)
        return _build_grant(
            lease,
            assigned,
            warning=" ".join(list_warnings(task, conflicts)) or None,
            conflicts_with=[other.id for other in conflicts] or None,
        )

    def _refuse_without_work(self, workflow: Workflow, task: Task) -> Claimed | None:
        """Refuse a task whose tree would not have the work of its dependencies."""
        if self._workspaces is None or not self._workspaces.has_other_machines:
            return None
        if workflow.repository_path is None:
            return None
        message = self._workspaces.explain_elsewhere(self._tx, task)
        return build_refusal("work_elsewhere", message) if message else None

    def _add_workspace(self, workflow: Workflow, task: Task, claimed: Claimed) -> Claimed:
        """Add the task's workspace, unless it is done in the project itself."""
        if self._workspaces is None or not (workflow.auto_create_workspaces or task.workspace_id):
            return claimed
        others = self._active.count_active(workflow.id, excluding=task.id)
        place = self._workspaces.provide_for_task(self._tx, workflow, task, others=others)
        return claimed if place is None else claimed.revise(place)

    def _assign(self, task: Task, agent: Agent, lease: Lease | None) -> Task:
        assert lease is not None, "the workflow is locked, and nobody held the task"
        self._claims.record_claim(task.id, lease.epoch, agent.id)
        # A claim restarts a failed task: from `pending` it can be reported completed or failed again.
        status = TaskStatus.PENDING if task.status is TaskStatus.FAILED else task.status
        claimed = copy_with(task, claimed_by=agent.id, status=status)
        saved = PlanRecorder(self._tx, agent.id).save_task(task, claimed, event=PlanEvent.TASK_CLAIMED)
        self._save_agent(agent, said=AgentStatus.BUSY, current_task_id=task.id)
        return saved

    def _reclaim_task(self, workflow: Workflow, task: Task, loser: str | None, until: int) -> Task:
        self._leases.release_as_lost(task.id, loser)
        checkpoint = CheckpointStore(self._tx).add(
            task,
            CheckpointType.RECOVERY,
            f"The lease of agent {loser or 'unknown'} expired while the task was {task.status}; "
            "any agent can claim it.",
            detail={"lost_by": loser, "status_before": task.status.value, "attempts": task.attempts},
        )
        PlanRecorder(self._tx).emit_checkpoint_event(task, checkpoint)
        return self._requeue(
            workflow, self._tasks.get(task.id), LEASE_EXPIRED, by_whom=self._tx.caller, lease_end=until
        )

    def _requeue(
        self, workflow: Workflow, task: Task, reason: str, *, by_whom: str, lease_end: int | None = None
    ) -> Task:
        """Free the task; the time of a silent agent counts until its lease ended, not until that was seen."""
        status = task.status if workflow.status.is_final else derive_released_status(task.status)
        return PlanRecorder(self._tx, by_whom).save_task(
            task,
            copy_with(task, status=status, claimed_by=None),
            reason,
            event=PlanEvent.TASK_RELEASED,
            workflow=workflow,
            ended_at=_limit_to_now(lease_end, task, self._tx.now),
        )

    def _update_agent_after_release(self, agent: Agent) -> None:
        """Point the agent at another task it holds, or set it to online."""
        if current := self._leases.find_held(agent.id, agent.current_task_id):
            self._save_agent(agent, current_task_id=current)
        else:
            self._save_agent(agent, said=AgentStatus.ONLINE, current_task_id=None)

    def _find_released_error(self, workflow: Workflow, task: Task, actor: Agent | None) -> NotAllowed:
        """Find out who ended the claim, and why."""
        if workflow.status.is_final:
            change = self._plans.find_last_change_to(workflow.id, workflow.status)
            return build_ended_plan_error(workflow, task, change)
        change = self._claims.find_last_change(task.id)
        return build_released_error(task, change, actor.id if actor else None)

    def _lock_actor(self, task: Task, agent_id: str | None) -> Agent | None:
        """Return the agent that acts, locked together with the task's holder in order of id."""
        unnamed = None if agent_id else self._presence.find_unnamed_actor(self._tx)
        actor_id = unnamed.id if unnamed else agent_id
        concerned = sorted(id for id in {actor_id, task.claimed_by} if id is not None)
        held = {id: self._agents.get_for_update(id) for id in concerned}
        return held[actor_id] if actor_id else None


def _limit_to_now(lease_end: int | None, task: Task, now: int) -> int | None:
    """Return the end of a lease, unless it says nothing: it was ended early, or the clock was set back."""
    return lease_end if lease_end and (task.active_since or 0) < lease_end < now else None


def _build_start_error(task: Task, refusal: Claimed) -> NotAllowed:
    return NotAllowed(
        f"Task {task.name!r} cannot be started now. {refusal.message}",
        suggestion="Find a task with {tool:workflow_next_tasks} and claim it with {tool:task_claim}.",
        recoverable=True,
    )


def _build_taken_refusal(holder: str) -> Claimed:
    return build_refusal("claimed", f"Agent {holder!r} holds the task.", already_claimed_by=holder)


def _require_unfinished(name: str, status: TaskStatus) -> None:
    if status.is_done:
        raise NotAllowed(
            f"Task {name!r} is {status} and cannot be claimed.",
            suggestion="Find tasks that can start now with {tool:workflow_next_tasks}.",
        )


def _build_grant(lease: Lease | None, task: Task, **more: Any) -> Claimed:
    assert lease is not None, "the workflow is locked, and nobody held the task"
    return Claimed(
        success=True,
        claim_epoch=lease.epoch,
        lease_expires_at=lease.until,
        status=task.status,
        next_step=_START if task.status is TaskStatus.PENDING else None,
        **more,
    )
