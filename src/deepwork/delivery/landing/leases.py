"""One process at a time moves a branch. A process that lost its lease notices before it stores anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deepwork.delivery.landing.models import BranchLease
from deepwork.delivery.landing.store import BranchLeaseStore
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import find_first_commit
from deepwork.kernel.names import new_id

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
