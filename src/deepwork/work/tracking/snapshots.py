"""Snapshots of the working trees on this machine, taken when tasks start and end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import Code, DeepworkError, InvalidInput
from deepwork.kernel.files.repositories import find_repository, find_tree_root
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import Snapshot
from deepwork.work.tracking.watch_store import WatchStore
from deepwork.work.workspaces.repositories import resolve_path

log = logging.getLogger("deepwork")

_RETENTION_DAYS = 30
_DAY_NS = 24 * 3600 * 10**9
NO_START = "No snapshot was taken when it started, so its changes are unknown"


@dataclass(frozen=True)
class SnapshotResult:
    """A snapshot of a working tree with its time; if `snapshot` is None, `warnings` say why."""

    tree: Path
    at: int
    snapshot: Snapshot | None
    warnings: tuple[str, ...] = ()
    took_ms: int = 0

    @property
    def kind(self) -> str:
        return "none" if self.snapshot is None else self.snapshot.kind.value

    @property
    def id(self) -> str | None:
        """The commit that HEAD points to; without commits or without git, an id made from the snapshot."""
        if self.snapshot is None:
            return None
        return self.snapshot.head or f"{self.snapshot.kind}-{self.snapshot.tree[:16]}"


class SnapshotService:
    """Takes and prunes snapshots; `open_store` returns the store of a working tree's snapshots."""

    def __init__(
        self, database: Database, host: str, repository: Path, open_store: Callable[[Path], SnapshotStore]
    ) -> None:
        self._database = database
        self.host = host
        self._repository = repository
        self.open_store = open_store
        self._pruned_at: dict[Path, int] = {}

    def resolve_tree(self, cwd: str | None, default: Path) -> Path:
        """Return the working tree of a task: `default`, or `cwd` within this repository or its worktrees."""
        if cwd is None:
            return default
        here = Path(resolve_path("cwd", cwd, relative_to=default))
        ours = find_repository(self._repository)
        is_ours = here.is_relative_to(self._repository) or (
            ours is not None and find_repository(here) == ours
        )
        if not is_ours or not here.is_dir():
            raise InvalidInput(
                f"`cwd` {cwd[:200]!r} is not a folder of this repository or of one of its worktrees.",
                code=Code.PATH_OUTSIDE_PROJECT,
                suggestion="Omit it to work in the project itself, or see {tool:workspace_list}.",
            )
        return here if find_tree_root(here) else default

    def take(self, tree: Path) -> SnapshotResult:
        """Take a snapshot of the working tree. A failure becomes a warning: it must not stop the work.

        For a subfolder, this is its whole working tree, so that tasks in different subfolders are compared.
        """
        tree = find_tree_root(tree) or tree
        began = time.monotonic()
        try:
            snapshot = self.open_store(tree).take()
        except (DeepworkError, OSError) as error:
            return SnapshotResult(tree, time.time_ns(), None, (f"Its changes cannot be tracked: {error}",))
        unreadable = [f"{len(snapshot.unreadable)} file(s) could not be read"] if snapshot.unreadable else []
        took_ms = round(1000 * (time.monotonic() - began))
        return SnapshotResult(tree, time.time_ns(), snapshot, tuple(unreadable), took_ms)

    def prune(self, tree: Path) -> None:
        """Delete snapshots that only tasks ended over 30 days ago need; runs at most once a day."""
        tree = find_tree_root(tree) or tree
        now = time.time_ns()
        if now - self._pruned_at.get(tree, 0) < _DAY_NS:
            return
        self._pruned_at[tree] = now
        with self._database.reading() as tx:
            kept = WatchStore(tx).list_tree_hashes_since(
                self.host, str(tree), now - _RETENTION_DAYS * _DAY_NS
            )
        try:
            store = self.open_store(tree)
            if store.began_at() < now - _RETENTION_DAYS * _DAY_NS:  # otherwise nothing in it is that old
                store.prune(kept)
        except (DeepworkError, OSError) as error:
            log.warning("Cannot prune the snapshots of %s: %s", tree, error)
