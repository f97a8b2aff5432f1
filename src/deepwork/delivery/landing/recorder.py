"""Stores moves of landings, each under the lease of its branch, with its event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from deepwork.delivery.landing.interfaces import LandingObserver
from deepwork.delivery.landing.leases import BranchLeases, LeaseLost
from deepwork.delivery.landing.models import BranchLease, LandedCommit, Landing, LandingEvent, LandingStatus
from deepwork.delivery.landing.responses import build_payload
from deepwork.delivery.landing.store import LandingStore
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.git.merge_commits import CommitFacts
from deepwork.kernel.records import copy_with


class LandingRecorder:
    """Saves landings and emits their events.

    `observers` are called in the transaction that ends a landing, with the commit that became part of a
    branch, its tree, its parents and its task: what they store is committed with it, or not at all.
    """

    def __init__(
        self, database: Database, leases: BranchLeases, observers: Sequence[LandingObserver] = ()
    ) -> None:
        self._database, self._leases = database, leases
        self._observers = list(observers)

    def observe(self, observer: LandingObserver) -> None:
        """Call this observer, too, for each commit that lands."""
        self._observers.append(observer)

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
        for observe in self._observers:
            observe(tx, LandedCommit(ended, facts.commit, facts.tree, facts.parents, facts.before))
        return ended


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
