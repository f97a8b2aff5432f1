"""Finds the commit that has a line of a task's diff, and whether the task changed that line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from deepwork.delivery.provenance.store import LinkStore
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import GitError, InvalidInput
from deepwork.kernel.git.patches import find_line_before, reverse_patch
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import Snapshot, SnapshotKind
from deepwork.kernel.records import dataclass
from deepwork.work.tracking.models import AttributedChange, Attribution, Watch
from deepwork.work.tracking.watch_store import SnapshotService, WatchStore

_MAX_PATCH_BYTES = 2**20
_MAX_COMMITS = 10


@dataclass(frozen=True)
class DiffLine:
    """A line of a task's diff: a commit that has it, if one is known, and its number there."""

    commit: str | None
    line: int
    is_change: bool
    """Whether the task wrote the line, or removed it; else the line is there for comparison."""
    is_certain: bool
    """Whether no other task can have changed the file."""


class TaskLineFinder:
    """Compares the snapshots of tasks with commits. Git runs between the transactions."""

    def __init__(self, database: Database, snapshots: SnapshotService) -> None:
        self._database, self._snapshots = database, snapshots

    def find(self, task_id: str, path: str, line: int, *, is_old: bool) -> DiffLine:
        """Find a line of the file as the task left it; `is_old`: as it was before."""
        watch, change, commits = self._load(task_id, path, is_old=is_old)
        store = self._snapshots.open_store(Path(watch.tree_path))
        tree = change.before_tree if is_old else change.after_tree
        commit, there = _find_commit(store, commits, tree, path, line)
        is_certain = change.attribution in (Attribution.EXCLUSIVE, Attribution.AREA)
        is_change = _is_change(store, change, line, is_old=is_old)
        return DiffLine(commit, there, is_change=is_change, is_certain=is_certain)

    def _load(
        self, task_id: str, path: str, *, is_old: bool
    ) -> tuple[Watch, AttributedChange, dict[str, None]]:
        """Load the change, and commits that may have the line, the most likely first."""
        with self._database.reading() as tx:
            watch = WatchStore(tx).find_latest(task_id)
            files, _ = WatchStore(tx).list_files(task_id, path, 1)
            links = LinkStore(tx).list_by_tasks([task_id])
        is_here = watch is not None and watch.host == self._snapshots.host
        if watch is None or not files or not is_here or watch.began["kind"] != SnapshotKind.GIT:
            raise InvalidInput(
                f"It is not known on this machine how task {task_id!r} changed {path[:200]!r}.",
                suggestion="Ask about the file itself, or about a commit.",
            )
        made = [] if is_old else [link.commit_hash for link in reversed(links)]
        head = (watch.began if is_old else watch.ended or {}).get("head")
        return watch, files[0], dict.fromkeys(hash for hash in (head, *made) if hash)


def _find_commit(
    store: SnapshotStore, commits: Iterable[str], tree: str, path: str, line: int
) -> tuple[str | None, int]:
    """Return the first commit that has the line of this tree, and its number there."""
    for commit in list(commits)[:_MAX_COMMITS]:
        found = _find_line(store, commit, tree, path, line)
        if found is not None:
            return commit, found
    return None, line


def _find_line(store: SnapshotStore, commit: str, tree: str, path: str, line: int) -> int | None:
    try:
        patch = _read_patch(store, commit, tree, path)
    except GitError:  # the commit is not in the repository any more
        return None
    return None if patch is None else find_line_before(patch, line)


def _is_change(store: SnapshotStore, change: AttributedChange, line: int, *, is_old: bool) -> bool:
    patch = _read_patch(store, change.before_tree, change.after_tree, change.path)
    if patch is None:
        return False
    return find_line_before(reverse_patch(patch) if is_old else patch, line) is None


def _read_patch(store: SnapshotStore, before: str, after: str, path: str) -> str | None:
    """Read the patch of a file between two trees or commits; None if lines cannot be found by it."""
    snapshots = Snapshot(SnapshotKind.GIT, before), Snapshot(SnapshotKind.GIT, after)
    patch = store.get_patch(*snapshots, path, max_bytes=_MAX_PATCH_BYTES)
    return None if patch is None or patch.is_truncated or patch.is_binary else patch.text
