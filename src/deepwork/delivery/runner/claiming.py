"""Claims the next task of a run, or begins the next step of its job, for a new attempt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepwork.delivery.landing.models import LandingStatus
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.interfaces import ToolCaller
from deepwork.delivery.runner.models import FAILED_STAGES, Attempt, AttemptStage, Run, RunEvent, RunStatus
from deepwork.delivery.runner.profiles import AgentProfile
from deepwork.delivery.runner.prompts import build_correction_prompt
from deepwork.delivery.runner.responses import build_payload, describe_attempt
from deepwork.delivery.runner.rules import choose_profile
from deepwork.delivery.runner.service import has_room, move_attempt
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.delivery.runner.work_kinds import WorkItem, WorkPlace
from deepwork.kernel.database.transaction import Database, Transaction, join_transaction
from deepwork.kernel.names import new_id
from deepwork.kernel.records import copy_with
from deepwork.work.agents.store import LeaseStore
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.workspaces.dependency_branches import describe_elsewhere
from deepwork.work.workspaces.models import WORK_ELSEWHERE
from deepwork.work.workspaces.service import WorkspaceService

STOPPED = "The run was stopped."
_FOR_PERSON = ("approval", "budget", "review_backlog")
"""Reasons for which a claim is refused until a person decides."""
_RUNTIMES = {"claude": "claude_code", "codex": "codex", "gemini": "gemini", "opencode": "opencode"}


@dataclass(frozen=True)
class NothingClaimed:
    """Why no task was claimed."""

    reason: str
    is_for_person: bool
    host: str | None = None
    """The other machine that has the work of all dependencies, and so may start the task."""


class TaskClaimer:
    """Claims tasks for attempts on this host."""

    def __init__(
        self,
        database: Database,
        call: ToolCaller,
        workspaces: WorkspaceService,
        host: str,
        take: Callable[[str], object],
    ) -> None:
        """`take` gets the id of each attempt before other processes can see it, and look after it."""
        self._database, self._call, self._workspaces, self._host = database, call, workspaces, host
        self._take = take

    def claim(
        self, run: Run, task_id: str, profile: AgentProfile, *, is_limited: bool
    ) -> Attempt | NothingClaimed | None:
        """Claim a task and store its attempt, in one transaction; None if others were faster.

        `is_limited`: only while fewer agents of the run work on this host than it may start.
        """
        if missing := self._find_missing(run, task_id):
            return missing
        with self._database.transaction() as tx, join_transaction(tx):
            if RunStore(tx).get_for_update(run.id).status.is_final:
                return NothingClaimed("The run has ended.", is_for_person=False)
            if is_limited and not has_room(tx, run.id, self._host):
                return None
            attempt_id = new_id("at")
            agent = self._call("agent_register", _describe_agent(attempt_id, profile))
            left = self._workspaces.leave_elsewhere(tx, task_id)
            wanted = {"task_id": task_id, "agent_id": agent["id"], "start": True}
            claimed = self._call("task_claim", wanted)
            if not claimed["success"]:
                self._workspaces.take_back(tx, task_id, left)
                return self._give_up(str(agent["id"]), claimed)
            if claimed.get("workspace_id") is None:
                self._provide_tree(tx, task_id)
            self._end_lost_attempt(tx, task_id)
            self._take(attempt_id)
            epoch = int(claimed["claim_epoch"])
            built = self._build_attempt(tx, run, task_id, attempt_id, str(agent["id"]), profile, epoch)
            attempt = self._continue_session(tx, built)
            _add_attempt(tx, attempt)
            return attempt

    def _find_missing(self, run: Run, task_id: str) -> NothingClaimed | None:
        """Refuse a task whose tree would not have the work of its dependencies, unless that is wanted."""
        found = self._workspaces.look_for_dependencies(task_id)
        if not found.elsewhere:
            return None
        if run.options.without_dependencies:
            self._workspaces.accept_missing(task_id)
            return None
        [host] = found.hosts if len(found.hosts) == 1 else [None]
        reason = f"{WORK_ELSEWHERE}: {describe_elsewhere(found.elsewhere)}"
        return NothingClaimed(reason, is_for_person=True, host=host)

    def _continue_session(self, tx: Transaction, attempt: Attempt) -> Attempt:
        """Let the session that did the work go on, if its landing was returned after its attempt ended."""
        landing = LandingStore(tx).find_open(attempt.task_id)
        if landing is None or landing.status is not LandingStatus.RETURNED:
            return attempt
        last = AttemptStore(tx).find(landing.attempt_id or "")
        owner = (attempt.profile, attempt.host)
        if last is None or last.vendor_session is None or (last.profile, last.host) != owner:
            return attempt
        prompt = build_correction_prompt(landing.reason or "The work could not land.", landing.title)
        return copy_with(attempt, vendor_session=last.vendor_session, next_prompt=prompt)

    def _provide_tree(self, tx: Transaction, task_id: str) -> None:
        """Assign a worktree together with the claim: what a task changes is tracked where it is claimed."""
        task = TaskStore(tx).get(task_id)
        workflow = self._workspaces.repositories.localize(tx, PlanStore(tx).get(task.workflow_id))
        self._workspaces.provide_for_task(tx, workflow, task, others=1, is_required=True)

    def end_lost_attempts(self, attempts: Sequence[Attempt], reason: str) -> bool:
        """End attempts of other hosts that have no lease any more; return whether there were any.

        A host that is gone for good cannot do so itself; while its lease is alive, nobody else may.
        """
        others = [attempt for attempt in attempts if attempt.host != self._host]
        if not others:
            return False
        with self._database.transaction() as tx:
            lost = [attempt for attempt in others if not _has_lease(tx, attempt)]
            ended = [move_attempt(tx, attempt, AttemptStage.STOPPED, reason=reason) for attempt in lost]
            return any(ended)

    def begin_step(self, run: Run, step_id: str, profile: AgentProfile, place: WorkPlace) -> Attempt | None:
        """Store the attempt at a step of a job; None if another process has begun, or the run has ended.

        Nobody else can take a step, so there is no claim; the agent is registered all the same.
        """
        with self._database.transaction() as tx, join_transaction(tx):
            current = RunStore(tx).get_for_update(run.id)  # locked, so only one process begins
            if current.status is not RunStatus.ACTIVE or AttemptStore(tx).list_of_run(run.id, is_open=True):
                return None
            attempt_id = new_id("at")
            agent_id = str(self._call("agent_register", _describe_agent(attempt_id, profile))["id"])
            attempt = self._build_attempt(tx, run, step_id, attempt_id, agent_id, profile, epoch=0)
            self._take(attempt_id)
            placed: Attempt = copy_with(attempt, tree=str(place.tree), branch=place.branch)
            _add_attempt(tx, placed)
            return placed

    def _build_attempt(
        self,
        tx: Transaction,
        run: Run,
        task_id: str,
        attempt_id: str,
        agent_id: str,
        profile: AgentProfile,
        epoch: int,
    ) -> Attempt:
        return Attempt(
            id=attempt_id,
            run_id=run.id,
            workflow_id=run.workflow_id,
            task_id=task_id,
            number=1 + AttemptStore(tx).count_of_tasks([task_id]).get(task_id, 0),
            profile=profile.name,
            vendor=profile.kind,
            agent_id=agent_id,
            claim_epoch=epoch,
            stage=AttemptStage.CLAIMED,
            host=self._host,
            created_at=tx.now,
            updated_at=tx.now,
        )

    def _give_up(self, agent_id: str, claimed: Mapping[str, Any]) -> NothingClaimed | None:
        self._call("agent_unregister", {"id": agent_id})
        reason = claimed.get("reason")
        if reason == "claimed":
            return None
        return NothingClaimed(str(claimed.get("message") or reason), is_for_person=reason in _FOR_PERSON)

    def _end_lost_attempt(self, tx: Transaction, task_id: str) -> None:
        """End the attempt of a host that lost its lease: its late results get STALE_CLAIM, its tree stays."""
        if left := AttemptStore(tx).find_open_of_task(task_id):
            move_attempt(
                tx, left, AttemptStage.STOPPED, reason=f"Its lease ended; {self._host} took the task."
            )


def _has_lease(tx: Transaction, attempt: Attempt) -> bool:
    """Return whether the attempt holds its task, by the store's clock."""
    lease = LeaseStore(tx, lease_ms=0).find(attempt.task_id)
    return lease is not None and lease.who == attempt.agent_id and lease.until >= tx.now


def _add_attempt(tx: Transaction, attempt: Attempt) -> None:
    AttemptStore(tx).add(attempt)
    tx.emit(RunEvent.ATTEMPT_STARTED, build_payload(describe_attempt(attempt)), attempt.workflow_id)


def find_next_profile(tx: Transaction, run: Run, task: WorkItem) -> str | None:
    """Return who works on the task next; None if every agent of the chain has tried as often as it may."""
    attempts = AttemptStore(tx).list_of_task(task.id)
    used_up = max((attempt.number for attempt in attempts if attempt.exhausted), default=0)
    failed = [attempt for attempt in attempts if attempt.stage in FAILED_STAGES and attempt.number > used_up]
    return choose_profile(run.chain, failed, task.max_attempts)


def _describe_agent(attempt_id: str, profile: AgentProfile) -> dict[str, object]:
    name = profile.name if profile.kind != "command" else "command"
    return {
        "name": f"{name[:60]} {attempt_id}",
        "runtime": _RUNTIMES.get(profile.kind, "custom"),
        "metadata": {"attempt": attempt_id},
    }
