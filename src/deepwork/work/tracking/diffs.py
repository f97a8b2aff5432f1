"""The files that a task changed, and their diffs."""

from __future__ import annotations

from pathlib import Path

from deepwork.kernel.answers import Answer
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError, InvalidInput
from deepwork.kernel.git.snapshot_types import Snapshot, SnapshotKind
from deepwork.kernel.text_budget.shortening import cut_list, measure_json
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.models import AttributedChange, Watch
from deepwork.work.tracking.store import TrackStore
from deepwork.work.tracking.watch_store import NO_START, SnapshotService, WatchStore

_MAX_FILES = 1000
_MAX_BYTES = 256 * 1024


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
