"""The files that a task changed, and their diffs: of its last attempt for agents, of all for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deepwork.gates.checks.models import ALWAYS_GUARDED
from deepwork.gates.checks.responses import WeakenedTests, list_weakened
from deepwork.kernel.answers import Answer
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError, InvalidInput, NotAllowed
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import Snapshot, SnapshotKind
from deepwork.kernel.records import dataclass
from deepwork.kernel.text_budget.shortening import cut_list, measure_json
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.models import AttributedChange, Watch
from deepwork.work.tracking.store import TrackStore
from deepwork.work.tracking.watch_store import NO_START, SnapshotService, WatchStore
from deepwork.work.workspaces.store import WorkspaceStore

_MAX_FILES = 1000
_MAX_BYTES = 256 * 1024
_NS_PER_MS = 1_000_000


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
    only: tuple[str, ...] = ()
    """Nothing but these files; empty: all."""


def read_patch(compared: TreeComparison, max_bytes: int) -> dict[str, Any]:
    """Read what differs: `files`, `files_count`, `patch`, and `truncated` if that is not all of it."""
    found = compared.store.diff(compared.before, compared.after, counted=True).files
    files = [each for each in found if not compared.only or each.path in compared.only]
    patch = compared.store.get_patch(
        compared.before, compared.after, *[each.path for each in files if compared.only], max_bytes=max_bytes
    )
    shown = [ChangedFile.of(each, is_binary=each.is_binary or None) for each in files[:_MAX_FILES]]
    return {
        "files": shown,
        "files_count": len(files),
        "patch": patch.text if patch and files else "",
        "truncated": (patch is not None and patch.is_truncated) or None,
    }


class DiffService:
    """Reads the changed files of tasks, and computes diffs from their snapshots."""

    def __init__(self, database: Database, snapshots: SnapshotService) -> None:
        self._database = database
        self._snapshots = snapshots

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
            compared = replace(compared, only=(path,)) if path is not None else compared
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

    def compare(
        self, task_id: str, watches: Sequence[Watch], since: int | None = None
    ) -> tuple[TreeComparison, str | None]:
        """Return the states of a task's tree to compare, and the commit that it began at, if it did.

        The first is its base: what an earlier attempt did is work of the task, too. With `since`, in Unix
        milliseconds, it is what the first attempt after that moment began with.
        """
        last = watches[-1]
        store = self._snapshots.open_store(Path(last.tree_path))
        after = Snapshot.from_dict(last.ended) if last.ended is not None else store.take()
        if since is not None:
            later = (each for each in watches if each.began_at >= since * _NS_PER_MS)
            began = next((Snapshot.from_dict(each.began) for each in later), after)
            return TreeComparison(store, began, after), None
        own_base = self._find_base_of_own_tree(task_id, last)
        if own_base is not None:
            return TreeComparison(store, Snapshot(SnapshotKind.GIT, own_base), after), own_base
        first = next(each for each in watches if each.tree_path == last.tree_path)
        began = Snapshot.from_dict(first.began)
        if first is not last or last.ended is None:
            return TreeComparison(store, began, after), began.head
        with self._database.reading() as tx:  # others may have worked in the same tree
            files, _ = WatchStore(tx).list_files(task_id, None, _MAX_FILES)
        own = TreeComparison(store, began, after, tuple(each.path for each in files))
        return own if files else replace(own, after=began), began.head

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


def _require_task(tx: Transaction, task_id: str) -> None:
    if task_id.startswith("tk_"):
        TaskStore(tx).get(task_id)
    else:
        TrackStore(tx).get_task(task_id)


def _measure(file: FileDiff) -> int:
    return measure_json(file.model_dump(mode="json"))


def _to_file_diff(file: AttributedChange) -> FileDiff:
    return FileDiff.of(file, is_binary=file.is_binary or None, shared_with=list(file.shared_with) or None)
