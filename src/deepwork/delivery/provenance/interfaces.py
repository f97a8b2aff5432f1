"""What provenance needs from packages above it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from deepwork.delivery.provenance.models import AttemptIdentity
from deepwork.kernel.database.transaction import Transaction


class WorkDirectory(Protocol):
    """Finds attempts, tasks of all kinds, and landings."""

    def find_attempts(self, tx: Transaction, ids: Collection[str]) -> dict[str, AttemptIdentity]:
        """Return the attempts with these ids, by id."""

    def find_tasks(self, tx: Transaction, ids: Collection[str]) -> set[str]:
        """Return which of these ids are planned tasks, tracked tasks or steps of jobs."""

    def find_landings(self, tx: Transaction, ids: Collection[str]) -> set[str]:
        """Return which of these ids are landings."""
