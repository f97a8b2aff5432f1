"""The files that a task changed, and their diffs: of its last attempt for agents, of all for people.

What a person is shown and what their approval is good for are one comparison (`DiffService.compare`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from deepwork.gates.checks.models import ALWAYS_GUARDED
from deepwork.gates.checks.responses import WeakenedTests, list_weakened
from deepwork.kernel.answers import Answer
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError, InvalidInput, NotAllowed
from deepwork.kernel.files.private import to_printable_name
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import FileChange, Snapshot, SnapshotKind
from deepwork.kernel.records import dataclass
from deepwork.kernel.text_budget.shortening import cut_list, measure_json
from deepwork.work.plans.interfaces import CompletedWork
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.attribution_service import AttributionService
from deepwork.work.tracking.models import AttributedChange, Watch
from deepwork.work.tracking.store import TrackStore
from deepwork.work.tracking.watch_store import NO_START, WatchStore
from deepwork.work.workspaces.store import WorkspaceStore

_MAX_FILES, _EVERY = 1000, 1_000_000
_MAX_BYTES = 256 * 1024
_MAX_DESCRIBED = 500
_NS_PER_MS = 1_000_000
GONE = "deleted"
"""The version of a file that does not exist any more."""


class FileDiff(Answer):
    path: str
    status: str
    attribution: str
    added: int | None = None
    removed: int | None = None
    is_binary: bool | None = None
    renamed_from: str | None = None
    shared_with: list[str] | None = None
    diff: str | None = None
    truncated: bool | None = None


class TaskDiff(Answer):
    task_id: str
    files: list[FileDiff]
    files_count: int
    truncated: bool | None = None
    """Whether files are missing from the list."""
    warning: str | None = None


class ChangedFile(Answer):
    """A file that differs, with how many lines were added and removed."""

    path: str
    status: str
    added: int | None = None
    removed: int | None = None
    is_binary: bool | None = None


class TaskPatch(Answer):
    """What a task changed in all its attempts, compared with the commit or the files that it began with."""

    task_id: str
    base: str | None = None
    """The commit; None if it did not begin at one."""
    is_running: bool | None = None
    files: list[ChangedFile]
    files_count: int
    patch: str
    truncated: bool | None = None
    weakened: list[WeakenedTests] | None = None
    """What makes tests say less, in the part of the patch that is here."""
    warning: str | None = None


@dataclass(frozen=True)
class TreeComparison:
    """Two states of a tree, and what is to be said about them."""

    store: SnapshotStore
    before: Snapshot
    after: Snapshot
    only: frozenset[str] | None = None
    """Nothing but these files; None: all."""

    def list_changes(self, *, counted: bool = False) -> list[FileChange]:
        """List the files that differ; with `counted`, with their lines."""
        found = self.store.diff(self.before, self.after, counted=counted).files
        return [each for each in found if self.only is None or each.path in self.only]


def read_patch(compared: TreeComparison, max_bytes: int) -> dict[str, Any]:
    """Read what differs: `files`, `files_count`, `patch`, and `truncated` if that is not all of it."""
    files = compared.list_changes(counted=True)
    named = [] if compared.only is None else [each.path for each in files]
    patch = compared.store.get_patch(compared.before, compared.after, *named, max_bytes=max_bytes)
    shown = [ChangedFile.of(each, is_binary=each.is_binary or None) for each in files[:_MAX_FILES]]
    return {
        "files": shown,
        "files_count": len(files),
        "patch": patch.text if patch and files else "",
        "truncated": (patch is not None and patch.is_truncated) or None,
    }


class DiffService:
    """Reads the changed files of tasks, and computes diffs from their snapshots."""

    def __init__(self, database: Database, attribution: AttributionService) -> None:
        self._database, self._attribution = database, attribution
        self._snapshots = attribution.snapshots

    def get_diff(self, task_id: str, path: str | None, max_bytes: int) -> TaskDiff:
        """Return the files that a task changed; for a single `path`, with its diff."""
        with self._database.reading() as tx:
            store = WatchStore(tx)
            watch = store.find_latest(task_id)
            if watch is None:
                _require_task(tx, task_id)
                return TaskDiff(task_id=task_id, files=[], files_count=0, warning=f"{NO_START}.")
            files, total = store.list_files(task_id, path, _MAX_FILES)
        if path is not None and not files and watch.ended_at is not None:
            raise InvalidInput(
                f"Task {task_id!r} did not change {path[:200]!r}.",
                suggestion="Omit `path` to list the files it changed.",
            )
        shown = cut_list(
            [_to_file_diff(file) for file in files],
            max_entries=_MAX_FILES,
            max_bytes=_MAX_BYTES,
            measure=_measure,
        )
        is_over = watch.ended_at is not None
        warning = None if is_over else "The task is still running; its files are listed when it ends."
        if path is not None and files:
            try:
                shown = [self._add_patch(shown[0], files[0], watch, max_bytes)]
            except (DeepworkError, OSError) as error:
                warning = f"Cannot show the diff: {error}"
        return TaskDiff(
            task_id=task_id,
            files=shown,
            files_count=total,
            truncated=len(shown) < total or None,
            warning=warning,
        )

    def get_patch(self, task_id: str, path: str | None, max_bytes: int) -> TaskPatch:
        """Return what a task changed since its first attempt began, finished or not, with the patch."""
        none: dict[str, Any] = {"files": [], "files_count": 0, "patch": ""}
        with self._database.reading() as tx:
            watches = WatchStore(tx).list_of_task(task_id)
            if not watches:
                _require_task(tx, task_id)
        if not watches:
            return TaskPatch(task_id=task_id, warning=f"{NO_START}.", **none)
        last = watches[-1]
        is_running = last.ended_at is None or None
        try:
            self.require_here(last)
            compared, base = self.compare(task_id, watches)
            compared = replace(compared, only=frozenset({path})) if path is not None else compared
            found = read_patch(compared, max_bytes)
        except (DeepworkError, OSError) as error:
            warning = f"Cannot show the diff: {error}"
            return TaskPatch(task_id=task_id, is_running=is_running, warning=warning, **none)
        guarded = [each.path for each in found["files"] if each.path in ALWAYS_GUARDED]
        weakened = list_weakened(found["patch"], guarded) or None
        return TaskPatch(task_id=task_id, base=base, is_running=is_running, weakened=weakened, **found)

    def require_here(self, watch: Watch) -> None:
        """Raise if the tree of a watch is on another machine."""
        if watch.host != self._snapshots.host:
            raise NotAllowed(f"Its tree is on {watch.host}.")

    def describe(self, task_id: str, seen: CompletedWork) -> dict[str, Any] | None:
        """Describe all work of a task as it is now, for an approval; None if that is not tracked.

        It is what `compare` shows: the base, and the version of each file that differs from it. Not inside a
        transaction: it takes a snapshot, unless this call has seen the tree already.
        """
        with self._database.reading() as tx:
            watches = WatchStore(tx).list_of_task(task_id)
        if not watches:
            return None
        try:
            after = self.look(watches[-1], seen)
            compared, _ = self.compare(task_id, watches, after)
            return _describe(compared)
        except (DeepworkError, OSError) as error:
            return {"problem": str(error)}

    def look(self, watch: Watch, seen: CompletedWork | None = None) -> Snapshot:
        """Return the files of a task's tree as they are now, or as this call has seen them."""
        self.require_here(watch)
        tree = Path(watch.tree_path)
        if watch.began["kind"] == SnapshotKind.GIT and not (tree / ".git").exists():
            # Do not fall back to a parent folder: a worktree may lie within the repository.
            raise NotAllowed(f"Its changes are unknown: {tree} is no longer a working tree.")
        if seen is not None and seen.snapshot is not None and seen.place == tree:
            return seen.snapshot
        return self._snapshots.open_store(tree).take()

    def compare(
        self, task_id: str, watches: Sequence[Watch], after: Snapshot | None = None
    ) -> tuple[TreeComparison, str | None]:
        """Return the states of a task's tree to compare, and the commit that it began at, if it did.

        The first is its base: what an earlier attempt did is work of the task, too. The second is `after`, or
        how its last attempt left the tree. In a tree of its own everything counts, whoever did it and when.
        """
        last = watches[-1]
        store = self._snapshots.open_store(Path(last.tree_path))
        ended = Snapshot.from_dict(last.ended) if last.ended is not None else None
        now = after or ended or store.take()
        own_base = self._find_base_of_own_tree(task_id, last)
        if own_base is not None:
            return TreeComparison(store, Snapshot(SnapshotKind.GIT, own_base), now), own_base
        first = next(each for each in watches if _is_same_tree(each, last))
        began = Snapshot.from_dict(first.began)
        # Others may work in the same tree.
        if first is last and after is None and ended is not None:
            only = self._list_stored_paths(task_id)
        else:
            only = self._attribution.list_paths_since(first, last, ended or now)
        return TreeComparison(store, began, now, frozenset(only)), began.head

    def _list_stored_paths(self, task_id: str) -> tuple[str, ...]:
        with self._database.reading() as tx:
            files, _ = WatchStore(tx).list_files(task_id, None, _EVERY)
        return tuple(each.path for each in files)

    def compare_with_refused(
        self, task_id: str, watches: Sequence[Watch], refused_at: int, after: Snapshot | None
    ) -> TreeComparison | None:
        """Return what differs from the work that a person refused, in Unix milliseconds; None if unknown.

        It is compared with how that work ended, not with how the next attempt began: what was changed between
        them was not seen either.
        """
        last = watches[-1]
        refused = [each for each in watches if each.began_at < refused_at * _NS_PER_MS][-1:]
        if not refused or refused[0].ended is None or not _is_same_tree(refused[0], last):
            return None
        whole, _ = self.compare(task_id, watches, after)
        return replace(whole, before=Snapshot.from_dict(refused[0].ended))

    def _find_base_of_own_tree(self, task_id: str, watch: Watch) -> str | None:
        """Return the commit that the worktree of a planned task began at, if it has one of its own."""
        if not task_id.startswith("tk_"):
            return None
        with self._database.reading() as tx:
            workspace = WorkspaceStore(tx).find(TaskStore(tx).get(task_id).workspace_id or "")
        is_own = workspace is not None and workspace.is_made and workspace.path == watch.tree_path
        return workspace.base_commit if workspace is not None and is_own else None

    def _add_patch(self, shown: FileDiff, file: AttributedChange, watch: Watch, max_bytes: int) -> FileDiff:
        if watch.host != self._snapshots.host:
            return shown
        kind = SnapshotKind(watch.began["kind"])
        before, after = Snapshot(kind, file.before_tree), Snapshot(kind, file.after_tree)
        patch = self._snapshots.open_store(Path(watch.tree_path)).get_patch(
            before, after, file.path, max_bytes=max_bytes
        )
        if patch is None:
            return shown
        return shown.model_copy(
            update={
                "diff": patch.text,
                "truncated": patch.is_truncated or None,
                "is_binary": patch.is_binary or shown.is_binary,
            }
        )


def _is_same_tree(one: Watch, other: Watch) -> bool:
    return (one.host, one.tree_path) == (other.host, other.tree_path)


def _describe(compared: TreeComparison) -> dict[str, Any]:
    """List the files, and cover those beyond the list, and their exact names, by a digest of all."""
    versions = {each.path: each.after or GONE for each in compared.list_changes()}
    lines = [f"{path}\0{version}" for path, version in sorted(versions.items())]
    listed = sorted(versions.items())[:_MAX_DESCRIBED]
    return {
        "base": compared.before.tree,
        "changed_files": len(versions),
        "digest": sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest(),
        "files": {to_printable_name(path): version for path, version in listed},
    }


def _require_task(tx: Transaction, task_id: str) -> None:
    if task_id.startswith("tk_"):
        TaskStore(tx).get(task_id)
    else:
        TrackStore(tx).get_task(task_id)


def _measure(file: FileDiff) -> int:
    return measure_json(file.model_dump(mode="json"))


def _to_file_diff(file: AttributedChange) -> FileDiff:
    return FileDiff.of(file, is_binary=file.is_binary or None, shared_with=list(file.shared_with) or None)
