"""Claims: who may work on a task, for how long, and what becomes of it when they fall silent.

A claim is a lease. Locks are always taken in the same order: the workflow, the task, agents by their ids,
leases; so nobody waits for somebody who waits for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from deepwork.agents.leases import LeaseStore
from deepwork.agents.models import Agent, AgentStatus, Lease
from deepwork.agents.presence import Presence
from deepwork.agents.store import AgentStore
from deepwork.database.call import current_call
from deepwork.database.transaction import Transaction
from deepwork.errors import Code, Conflict, NotAllowed
from deepwork.plans.checkpoints import CheckpointStore
from deepwork.plans.chronicle import Chronicle
from deepwork.plans.models import CheckpointType, FileConflicts, PlanEvent, Task, TaskStatus, Workflow
from deepwork.plans.overlaps import Rival, rivals
from deepwork.plans.queue_store import QueueStore
from deepwork.plans.responses import Claimed
from deepwork.plans.store import PlanStore
from deepwork.plans.task_store import TaskStore
from deepwork.plans.transitions import status_after_release
from deepwork.plans.workplaces import Workplaces

_NAMED = 3


@dataclass(frozen=True)
class Work:
    """A task that nobody else changes until we are done, its workflow, and who is at work on it."""

    workflow: Workflow
    task: Task
    actor: Agent | None
    """In whose name the call is made; None for a caller that nobody registered."""
    holder: str | None
    """Who holds the task by a lease that still runs."""
    was_its_own: bool
    """Whether nobody held the task after the actor did."""
    is_named: bool
    """Whether the call itself says in whose name it is made."""


@dataclass(frozen=True)
class _Others:
    """What is under way beside a task."""

    count: int
    rivals: list[Rival]
    """Those that are likely to change the same files, where that matters."""


class ClaimDesk:
    """Gives tasks to agents and takes them back."""

    def __init__(self, tx: Transaction, presence: Presence, workplaces: Workplaces | None = None) -> None:
        self._tx = tx
        self._presence = presence
        self._workplaces = workplaces
        self._agents = AgentStore(tx)
        self._plans = PlanStore(tx)
        self._tasks = TaskStore(tx)
        self._queue = QueueStore(tx)
        self._leases = LeaseStore(tx, presence.lease_ms)

    # Taking and giving back

    def claim(self, task_id: str, agent_id: str) -> Claimed:
        """Give the task to the agent, or say which condition forbids it."""
        workflow = self._plans.hold_of(task_id)
        agent = self._agents.hold(agent_id)
        has_left = agent.unregistered_at is not None
        if not has_left:  # before the reclaiming: whoever calls is not silent
            agent = self._presence.sign_of_life(self._tx, agent)
        self.reclaim(workflow)
        task = self._tasks.hold(task_id)
        _require_unfinished(task)
        lease = self._leases.find(task_id)
        # What ran out was taken back, unless its holder shows a sign of life at this very moment.
        holder = lease.who if lease else None
        if holder not in (None, agent_id):
            return _refused("claimed", f"Agent {holder!r} holds the task.", already_claimed_by=holder)
        if has_left:
            return _refused("offline", f"Agent {agent_id!r} has unregistered; register again.")
        if lease and holder:
            return self._placed(workflow, task, _granted(lease))
        others = self._others(workflow, task)
        refusal = self._refusal(workflow, task, others)
        return refusal or self._placed(workflow, task, self._grant(workflow, task, agent, others.rivals))

    def release(self, task_id: str, agent_id: str, reason: str | None) -> None:
        """Take the task back from the agent; what it had begun is to be begun again."""
        workflow = self._plans.hold_of(task_id)
        task = self._tasks.hold(task_id)
        agent = self._agents.hold(agent_id)
        lease = self._leases.find(task_id)
        if lease is None or lease.who is None:
            raise NotAllowed(
                f"Task {task.name!r} is claimed by nobody.",
                code=Code.NOT_CLAIMED,
                suggestion="There is nothing to release; workflow_next_tasks tells what can be claimed.",
            )
        if lease.who != agent_id:
            raise _held_by(task, lease.who, agent_id)
        self._leases.release(task_id, agent_id)
        self._put_back(workflow, task, reason or "released", by_whom=agent_id)
        if agent.unregistered_at is None:
            self._leave(agent)

    def released(self, agent_id: str, task_ids: Sequence[str]) -> None:
        """The agent takes its leave and gives up its leases on these tasks."""
        tasks = self._tasks.named(task_ids).values()
        for task in sorted(tasks, key=lambda task: (task.workflow_id, task.id)):
            workflow = self._plans.hold(task.workflow_id)
            held = self._tasks.hold(task.id)
            if held.claimed_by == agent_id:
                self._put_back(workflow, held, "its agent unregistered", by_whom=agent_id)

    def reclaim(self, workflow: Workflow) -> None:
        """Take back every task of the workflow whose lease ran out, with a note for whoever goes on."""
        for task_id, loser in self._queue.lapsed(workflow.id):
            self._take_back(workflow, self._tasks.hold(task_id), loser)

    def release_all(self, workflow: Workflow, reason: str) -> None:
        """The workflow is over: nobody holds anything of it any more."""
        claimed = [task for task in self._queue.under_way(workflow.id) if task.claimed_by]
        for task in sorted(claimed, key=lambda task: str(task.claimed_by)):
            self.free_holder(task)
            self._put_back(workflow, task, reason, by_whom=self._tx.caller)

    # Working under a claim

    def begin_work(
        self, task_id: str, agent_id: str | None, epoch: int | None, *, is_note: bool = False
    ) -> Work:
        """Hold the task for a change in the name of whoever calls; a sign of life of theirs.

        Refuses callers whose claim has passed to another, and takes the task back from a holder that fell
        silent, unless it is only to note something. Without an agent's name the call counts as the holder's
        if the same caller registered it, and as nobody's otherwise.
        """
        workflow = self._plans.hold_of(task_id)
        task = self._tasks.hold(task_id)
        actor = self._hold_actor(task, agent_id)
        if actor:
            actor = self._presence.sign_of_life(self._tx, actor)
        own, last = self._tasks.last_claims(task_id, actor.id) if actor else (None, None)
        lease = self._leases.find(task_id)
        holder = lease.who if lease and lease.until >= self._tx.now else None
        is_stale = epoch is not None and (lease is None or lease.epoch != epoch)
        if is_stale or (own is not None and own != last):
            raise _passed_on(task, holder)
        may_pass_by = agent_id is None and current_call().scope == "admin"
        actor_id = actor.id if actor else None
        if holder not in (None, agent_id, actor_id) and not is_note and not may_pass_by:
            raise _held_by(task, holder, agent_id or actor_id or self._tx.caller)
        if actor and own is not None and holder is None:
            self._leases.forget_loss(task_id, actor.id)
        if lease and lease.who and holder is None and not is_note:
            task = self._take_back(workflow, task, lease.who)
        return Work(workflow, task, actor, holder, was_its_own=own is not None, is_named=agent_id is not None)

    def take_up(self, work: Work) -> None:
        """Whoever begins a task in its own name holds it from then on, so that its silence frees it again.

        What a claim would refuse is refused here too. A late holder may go on with what nobody took over;
        its claim's epoch stays good.
        """
        task, agent = work.task, work.actor
        if agent is None or work.holder is not None:
            return
        if work.was_its_own:
            lease = self._leases.resume(task.id, agent.id)
            self._give(task, agent, lease or self._leases.take(task.id, agent.id))
            return
        if refusal := self._refusal(work.workflow, task, self._others(work.workflow, task)):
            raise NotAllowed(
                f"Task {task.name!r} cannot be begun now. {refusal.message}",
                suggestion="Ask workflow_next_tasks what can be begun, and claim it with task_claim.",
                recoverable=True,
            )
        self._give(task, agent, self._leases.take(task.id, agent.id))

    def free_holder(self, task: Task) -> None:
        """The task needs its holder no more: end the lease, and let the agent be free for the next."""
        lease = self._leases.find(task.id)
        if lease is None or lease.who is None:
            return
        agent = self._agents.hold(lease.who)
        self._leases.release(task.id, agent.id)
        if agent.unregistered_at is None:
            self._leave(agent)

    # Helpers

    def _others(self, workflow: Workflow, task: Task) -> _Others:
        """What is under way beside the task; files are looked at only where they could matter."""
        if not task.files or workflow.file_conflicts is FileConflicts.IGNORE:
            return _Others(self._queue.count_under_way(workflow.id, beside=task.id), [])
        others = self._queue.files_under_way(workflow.id, beside=task.id)
        return _Others(len(others), rivals(task.files, others))

    def _refusal(self, workflow: Workflow, task: Task, others: _Others) -> Claimed | None:
        if not workflow.status.hands_out_tasks:
            return _refused(
                "workflow", f"Workflow {workflow.name!r} is {workflow.status}: no task is given out."
            )
        open_ones, count = self._tasks.open_dependencies(task, _NAMED)
        if count:
            return _refused("blocked", f"It waits for {_named(open_ones, count)}.")
        if others.count >= workflow.max_parallel_tasks:
            running = "1 task is" if others.count == 1 else f"{others.count} tasks are"
            limit = workflow.max_parallel_tasks
            return _refused("limit", f"{running} under way and the workflow's limit is {limit}.")
        if others.rivals and workflow.file_conflicts is FileConflicts.REFUSE:
            message = f"Its files overlap with those of {_named(others.rivals, len(others.rivals))}."
            return _refused("files", message, conflicts_with=[other.id for other in others.rivals])
        return None

    def _grant(self, workflow: Workflow, task: Task, agent: Agent, conflicts: Sequence[Rival]) -> Claimed:
        lease = self._give(task, agent, self._leases.take(task.id, agent.id, is_free=True))
        Chronicle(self._tx, agent.id).follow_tasks(workflow, any_begun=True, may_be_done=False)
        return _granted(lease).model_copy(
            update={
                "warning": " ".join(_warnings(task, conflicts)) or None,
                "conflicts_with": [other.id for other in conflicts] or None,
            }
        )

    def _placed(self, workflow: Workflow, task: Task, claimed: Claimed) -> Claimed:
        """The claim, with the working tree that the task is to be done in, if that is not the project."""
        if self._workplaces is None or not (workflow.auto_create_workspaces or task.workspace_id):
            return claimed
        others = self._queue.count_under_way(workflow.id, beside=task.id)
        place = self._workplaces.for_task(self._tx, workflow, task, others=others)
        if place is None:
            return claimed
        warnings = " ".join(filter(None, [claimed.warning, place.problem]))
        told = {"workspace_id": place.id, "workspace_path": place.path, "branch": place.branch}
        return claimed.model_copy(update={**told, "warning": warnings or None})

    def _give(self, task: Task, agent: Agent, lease: Lease | None) -> Lease:
        assert lease is not None, "the workflow is ours, and nobody held the task"
        self._tasks.note_claim(task.id, lease.epoch, agent.id)
        # A claim begins a failed task anew: from pending it may be reported done or failed, as any other.
        status = TaskStatus.PENDING if task.status is TaskStatus.FAILED else task.status
        claimed = replace(task, claimed_by=agent.id, status=status)
        Chronicle(self._tx, agent.id).task_changed(task, claimed, event=PlanEvent.TASK_CLAIMED)
        self._presence.sign_of_life(self._tx, agent, said=AgentStatus.BUSY, current_task_id=task.id)
        return lease

    def _take_back(self, workflow: Workflow, task: Task, loser: str | None) -> Task:
        self._leases.lose(task.id, loser)
        checkpoint = CheckpointStore(self._tx).add(
            task,
            CheckpointType.RECOVERY,
            f"The lease of agent {loser or 'unknown'} ran out while the task was {task.status}; "
            "it is free to be taken over.",
            detail={"lost_by": loser, "status_before": task.status.value, "attempts": task.attempts},
        )
        Chronicle(self._tx).tell_checkpoint(task, checkpoint)
        return self._put_back(
            workflow, self._tasks.get(task.id), "the lease ran out", by_whom=self._tx.caller
        )

    def _put_back(self, workflow: Workflow, task: Task, reason: str, *, by_whom: str) -> Task:
        status = task.status if workflow.status.is_final else status_after_release(task.status)
        return Chronicle(self._tx, by_whom).task_changed(
            task, replace(task, status=status, claimed_by=None), reason, event=PlanEvent.TASK_RELEASED
        )

    def _leave(self, agent: Agent) -> None:
        """The agent goes on with what else it holds, or is free."""
        if current := self._leases.one_of(agent.id, agent.current_task_id):
            self._presence.sign_of_life(self._tx, agent, current_task_id=current)
        else:
            self._presence.sign_of_life(self._tx, agent, said=AgentStatus.ONLINE, current_task_id=None)

    def _hold_actor(self, task: Task, agent_id: str | None) -> Agent | None:
        """In whose name the call is made; held together with whoever claimed the task."""
        actor_id = agent_id or self._unnamed_actor(task)
        concerned = sorted(id for id in {actor_id, task.claimed_by} if id is not None)
        held = {id: self._agents.hold(id) for id in concerned}
        return held[actor_id] if actor_id else None

    def _unnamed_actor(self, task: Task) -> str | None:
        if task.claimed_by is not None:
            holder = self._agents.get(task.claimed_by)
            if holder.registered_by == self._tx.caller and holder.unregistered_at is None:
                return holder.id
        only_one = self._agents.only_one_of(self._tx.caller)
        return only_one.id if only_one else None


def _held_by(task: Task, holder: str | None, agent_id: str) -> NotAllowed:
    return NotAllowed(
        f"Task {task.name!r} is held by agent {holder!r}, not by {agent_id!r}.",
        code=Code.NOT_ASSIGNED,
        suggestion="Only its holder can change or release it; ask it with message_send.",
    )


def _passed_on(task: Task, holder: str | None) -> Conflict:
    now_with = f"agent {holder!r}" if holder else "nobody"
    return Conflict(
        f"The claim on task {task.name!r} has passed on; it is now with {now_with}.",
        suggestion="Stop working on it; take another with task_get_available and task_claim.",
    )


def _require_unfinished(task: Task) -> None:
    if task.status.is_done:
        raise NotAllowed(
            f"Task {task.name!r} is {task.status}; there is nothing left to claim.",
            suggestion="Ask workflow_next_tasks for what can be done now.",
        )


def _warnings(task: Task, conflicts: Sequence[Rival]) -> Iterator[str]:
    if conflicts:
        yield f"Its files overlap with those of {_named(conflicts, len(conflicts))}."
    if task.status.is_running:
        yield f"It was {task.status} without a claim: somebody may be at work on it."


def _granted(lease: Lease) -> Claimed:
    return Claimed(success=True, claim_epoch=lease.epoch, lease_expires_at=lease.until)


def _refused(reason: str, message: str, **more: object) -> Claimed:
    return Claimed.model_validate({"success": False, "reason": reason, "message": message, **more})


def _named(tasks: Sequence[Task | Rival], count: int) -> str:
    names = ", ".join(repr(task.name) for task in tasks[:_NAMED])
    return names + (f" and {count - _NAMED} more" if count > _NAMED else "")
