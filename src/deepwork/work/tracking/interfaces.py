"""What tracking needs from packages above it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.git.history import HistoryCommit
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import Snapshot
from deepwork.work.tracking.list_responses import RunRef
from deepwork.work.tracking.models import JobSessionState


class RunDirectory(Protocol):
    """Knows the runs of all kinds; implemented by the overview."""

    def require(self, tx: Transaction, id: str) -> object:
        """Raise NotFound if there is no such run."""

    def find_refs(self, tx: Transaction, ids: Iterable[str]) -> dict[str, RunRef]:
        """Find kind and name of these runs; missing runs are left out."""


class JobSessionFinder(Protocol):
    """Finds job sessions; implemented by `jobs`."""

    def find_session(self, tx: Transaction, id: str) -> JobSessionState | None:
        """Return the session with this id, or None."""


@dataclass(frozen=True)
class WatchedWork:
    """What is known of a task's work in a tree when it ends."""

    task_id: str
    workflow_id: str
    agent_id: str | None
    """Who held the task when its watch began, if that was an agent."""
    tree: Path
    snapshots: SnapshotStore
    began: Snapshot
    began_at: int
    """Nanoseconds on the clock of this host."""
    ended: Snapshot
    commits: tuple[HistoryCommit, ...]
    """Those that HEAD got meanwhile, the oldest first; they may have been fetched."""
    starts: tuple[str, ...]
    """The commits at which all watches of the task in this tree began."""
    changed: Mapping[str, bool]
    """The files that it changed, and whether no other task may have changed them."""
    is_alone: bool
    """Whether no other task ran in the tree meanwhile."""


class UnstoredLinks(Protocol):
    """Links between commits and a task, found by git and not stored yet."""

    def store(self, tx: Transaction) -> None:
        """Store them in the transaction that ends the task."""


class CommitRecorder(Protocol):
    """Links commits with the task that made them; implemented by `provenance`."""

    def prepare_watched(self, work: WatchedWork) -> UnstoredLinks:
        """Find the commits that were made while a task was watched. Not inside a transaction."""
