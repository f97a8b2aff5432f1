"""Stores moves of landings, each with its event, under the lease of its branch.

One process at a time moves a branch. A process that lost its lease notices before it stores anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deepwork.delivery.landing.models import (
    BranchLease,
    Landing,
    LandingEvent,
    LandingKind,
    LandingStatus,
    Problem,
    may_return,
)
from deepwork.delivery.landing.responses import WorkOrigins, build_payload
from deepwork.delivery.landing.store import BranchLeaseStore, LandingStore
from deepwork.delivery.provenance.store import Maker, PreparedLinks, build_landing_link
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.merge_commits import CommitFacts
from deepwork.kernel.git.refs import find_first_commit
from deepwork.kernel.notices.models import DEEPWORK
from deepwork.kernel.values import copy_with, new_id
from deepwork.work.plans.recorder import notify_of_reopening
from deepwork.work.plans.status_changes import reopen_task

LEASE_SECONDS = 30


class LeaseLost(Exception):
    """Another process holds the lease now, and goes on with the queue."""


class BranchLeases:
    """Takes, renews and releases the leases of branches."""

    def __init__(
        self, database: Database, open_git: Callable[[Path], Git], lease_ms: int = LEASE_SECONDS * 1000
    ) -> None:
        self.database, self._open_git, self._lease_ms = database, open_git, lease_ms

    @property
    def renewal_seconds(self) -> float:
        """How long work may take before the lease has to be renewed."""
        return self._lease_ms / 3000

    @contextmanager
    def hold(self, repository_path: str, branch: str) -> Iterator[BranchLease | None]:
        """Hold the lease of a branch for the block; None if another process, on any machine, holds it."""
        repository = find_first_commit(self._open_git(Path(repository_path)), branch)
        with self.database.transaction() as tx:
            lease = BranchLeaseStore(tx, self._lease_ms).take(repository, branch, new_id("hold"))
        try:
            yield lease
        finally:
            if lease is not None:
                with self.database.transaction() as tx:
                    BranchLeaseStore(tx, self._lease_ms).release(lease)

    def require(self, tx: Transaction, lease: BranchLease) -> None:
        """Renew the lease in this transaction; raises LeaseLost if another process has it."""
        if not BranchLeaseStore(tx, self._lease_ms).renew(lease):
            raise LeaseLost

    def renew(self, lease: BranchLease) -> None:
        """Renew the lease while something takes long; raises LeaseLost if another process has it."""
        with self.database.transaction() as tx:
            self.require(tx, lease)


class LandingRecorder:
    """Saves landings and emits their events."""

    def __init__(self, database: Database, leases: BranchLeases) -> None:
        self._database, self._leases = database, leases

    def move(
        self, lease: BranchLease, landings: Iterable[Landing], status: LandingStatus, **changes: Any
    ) -> list[Landing]:
        """Move landings in a transaction of their own; raises LeaseLost if another process does that now."""
        with self._database.transaction() as tx:
            self._leases.require(tx, lease)
            return [self.move_one(tx, landing, status, **changes) for landing in landings]

    def move_one(self, tx: Transaction, landing: Landing, status: LandingStatus, **changes: Any) -> Landing:
        """Move a landing in this transaction, which holds the lease."""
        moved = move_landing(tx, landing, status, **changes)
        if moved is None:
            raise LeaseLost
        return moved

    def end(self, lease: BranchLease, landed: Sequence[tuple[Landing, CommitFacts]]) -> list[Landing]:
        """Record that these commits are part of their branch now."""
        with self._database.transaction() as tx:
            self._leases.require(tx, lease)
            return [self._end_one(tx, landing, facts) for landing, facts in landed]

    def _end_one(self, tx: Transaction, landing: Landing, facts: CommitFacts) -> Landing:
        ended = self.move_one(
            tx, landing, LandingStatus.LANDED, merge_tree=facts.tree, problem=None, reason=None
        )
        link_landed_commit(tx, ended, facts)
        return ended


def build_landing(tx: Transaction, **about: Any) -> Landing:
    """Build a new landing, which the caller of this transaction asked for."""
    made: dict[str, Any] = {"created_by": tx.caller, "created_at": tx.now, "updated_at": tx.now}
    return Landing(id=new_id("ld"), status=LandingStatus.QUEUED, **made, **about)


def add_landing(tx: Transaction, landing: Landing) -> bool:
    """Store a new landing; False if one of the same subject is open."""
    if not LandingStore(tx).add(landing):
        return False
    tx.emit(LandingEvent.QUEUED, build_payload(landing), landing.workflow_id)
    return True


def move_landing(tx: Transaction, landing: Landing, status: LandingStatus, **changes: Any) -> Landing | None:
    """Move a landing with its event; None if another process moved it first."""
    if status.is_final:
        changes = {"ended_at": tx.now, **changes}
    after: Landing = copy_with(landing, status=status, updated_at=tx.now, **changes)
    if not LandingStore(tx).save(landing, after):
        return None
    event = LandingEvent.ENDED if status.is_final else LandingEvent.UPDATED
    if status is LandingStatus.QUEUED:
        event = LandingEvent.QUEUED
    tx.emit(event, build_payload(after), after.workflow_id)
    return after


class WorkReturner:
    """Decides who corrects work that conflicts, is red or was refused."""

    def __init__(self, recorder: LandingRecorder, origins: WorkOrigins) -> None:
        self._recorder, self._origins = recorder, origins

    def return_work(
        self, tx: Transaction, landing: Landing, branch: str, problem: Problem, text: str
    ) -> Landing:
        """Send work back in this transaction, which holds the lease of the branch.

        Work whose agent has had its tries stays completed: handed out again, it could go on for ever.
        """
        if landing.attempt_id and may_return(landing):
            return self._return_to_attempt(tx, landing, branch, problem, text)
        stopped = self._recorder.move_one(
            tx, landing, LandingStatus.NEEDS_PERSON, branch=branch, problem=problem, reason=text
        )
        if landing.attempt_id is None:  # the next agent that claims the task reads what is wrong
            self._reopen(tx, stopped, text)
        return stopped

    def _return_to_attempt(
        self, tx: Transaction, landing: Landing, branch: str, problem: Problem, text: str
    ) -> Landing:
        returned = self._recorder.move_one(
            tx,
            landing,
            LandingStatus.RETURNED,
            branch=branch,
            problem=problem,
            reason=text,
            returns=landing.returns + 1,
        )
        if not self._origins.can_continue(tx, returned):
            self._reopen(tx, returned, text)
        return returned

    def _reopen(self, tx: Transaction, landing: Landing, text: str) -> None:
        if landing.task_id is None:
            return
        detail = {"landing": landing.id, "target": landing.target, "branch": landing.branch}
        reason = f"it could not land on {landing.target}"
        reopen_task(tx, landing.task_id, text, reason=reason, detail=detail)
        notify_of_reopening(tx, landing.task_id, f"{reason}. {text}", DEEPWORK)


def link_landed_commit(tx: Transaction, landing: Landing, facts: CommitFacts) -> None:
    """Store which task a merge commit brought to a branch, in the transaction that ends its landing."""
    if landing.task_id is not None:
        # A revert of the task's work is known by its hash alone: others may undo the same work.
        before = facts.before if landing.kind is LandingKind.TASK else ""
        maker = Maker(landing.task_id, landing.workflow_id, landing.attempt_id, landing.agent_id)
        PreparedLinks((build_landing_link(maker, facts.commit, (before, facts.tree)),)).store(tx)
