"""Finding the files that tasks change: snapshots of the working tree at start and end, and attribution."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from deepwork.database.transaction import Database, Transaction
from deepwork.errors import Code, DeepworkError, InvalidInput
from deepwork.git.snapshot import SnapshotStore
from deepwork.git.snapshot_types import (
    ChangeStatus,
    Commit,
    FileChange,
    Rename,
    Snapshot,
    SnapshotDiff,
    SnapshotKind,
)
from deepwork.plans.stores.task_store import TaskStore
from deepwork.tracking.areas import evaluate_scope
from deepwork.tracking.attribution import (
    AttributedChange,
    Attribution,
    CandidateTask,
    Interval,
    ObservedChange,
    attribute_changes,
)
from deepwork.tracking.responses import FileDiff, TaskDiff
from deepwork.tracking.store import TrackStore
from deepwork.tracking.watch_store import ChangedFile, Watch, WatchStore
from deepwork.workspaces.paths import find_repository, resolve_path

log = logging.getLogger("deepwork")

_KEPT_DAYS = 30
_DAY_NS = 24 * 3600 * 10**9
_MAX_LISTED = 500
_MAX_COMMITS = 100
_MAX_DIFF_FILES = 1000
_NO_START = "No snapshot was taken when it started, so its changes are unknown"


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


@dataclass(frozen=True)
class TaskChanges:
    """The known changes of a task."""

    ended: SnapshotResult | None = None
    changed: tuple[ChangedFile, ...] = ()
    renamed: tuple[Rename, ...] = ()
    commits: tuple[Commit, ...] = ()
    preexisting: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    def to_result(self, areas: Sequence[str]) -> dict[str, Any]:
        """Convert to the `result` of the completed task; long lists are cut, counts are not."""
        paths = {
            status.value: [each.path for each in self.changed if each.status == status]
            for status in ChangeStatus
        }
        scope = evaluate_scope([path for listed in paths.values() for path in listed], areas)
        shown = self.changed[:_MAX_LISTED]
        shared = {each.path: each.details["shared_with"] for each in shown if each.details.get("shared_with")}
        optional = {
            "renamed": [
                {"from": pair.source, "to": pair.target, "similarity": pair.similarity}
                for pair in self.renamed[:_MAX_LISTED]
            ],
            "attribution": {each.path: each.attribution for each in shown},
            "shared_with": shared,
            "preexisting": list(self.preexisting[:_MAX_LISTED]),
            "commits": [
                {"sha": commit.hash, "subject": commit.subject} for commit in self.commits[:_MAX_COMMITS]
            ],
        }
        return {
            "files": {status: listed[:_MAX_LISTED] for status, listed in paths.items()},
            "counts": {status: len(listed) for status, listed in paths.items()},
            "verification": {
                # Without a snapshot at the end, a match cannot be claimed.
                "scope_match": scope.matches and (self.ended is not None or not areas),
                "unexpected_files": list(scope.unexpected[:_MAX_LISTED]),
                "warnings": [*scope.warnings, *self.warnings],
            },
        } | {name: value for name, value in optional.items() if value}


class AttributionService:
    """Takes snapshots of working trees on this machine and attributes changed files to tasks."""

    def __init__(
        self, database: Database, host: str, repository: Path, snapshots_at: Callable[[Path], SnapshotStore]
    ) -> None:
        self._database = database
        self._host = host
        self._repository = repository
        self._snapshots_at = snapshots_at
        self._pruned_at: dict[Path, int] = {}

    # Snapshots

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
        return here if _find_tree_root(here) else default

    def take_snapshot(self, tree: Path) -> SnapshotResult:
        """Take a snapshot of the working tree. A failure becomes a warning: it must not stop the work.

        For a subfolder, this is its whole working tree, so that tasks in different subfolders are compared.
        """
        tree = _find_tree_root(tree) or tree
        began = time.monotonic()
        try:
            snapshot = self._snapshots_at(tree).take()
        except (DeepworkError, OSError) as error:
            return SnapshotResult(
                tree, time.time_ns(), None, (f"Its changes cannot be tracked: {_format_error(error)}",)
            )
        unreadable = [f"{len(snapshot.unreadable)} file(s) could not be read"] if snapshot.unreadable else []
        took_ms = round(1000 * (time.monotonic() - began))
        return SnapshotResult(tree, time.time_ns(), snapshot, tuple(unreadable), took_ms)

    def prune_snapshots(self, tree: Path) -> None:
        """Delete snapshots that only tasks ended over 30 days ago need; runs at most once a day."""
        tree = _find_tree_root(tree) or tree
        now = time.time_ns()
        if now - self._pruned_at.get(tree, 0) < _DAY_NS:
            return
        self._pruned_at[tree] = now
        with self._database.reading() as tx:
            kept = WatchStore(tx).list_tree_hashes_since(self._host, str(tree), now - _KEPT_DAYS * _DAY_NS)
        try:
            self._snapshots_at(tree).prune(kept)
        except (DeepworkError, OSError) as error:
            log.warning("Cannot prune the snapshots of %s: %s", tree, _format_error(error))

    def record_start(
        self, tx: Transaction, task_id: str, workflow_id: str, start: SnapshotResult,
        parent_task_id: str | None = None, areas: Sequence[str] = (), attempt: int = 1,
    ) -> None:  # fmt: skip
        """Record that a task starts in the tree of this snapshot."""
        if start.snapshot is not None:
            WatchStore(tx).add(
                Watch(
                    task_id, attempt, workflow_id, parent_task_id, tuple(areas), self._host, str(start.tree),
                    start.at, start.snapshot.to_dict() | {"ms": start.took_ms},
                )
            )  # fmt: skip

    # Attribution

    def find_changes(self, task_id: str) -> TaskChanges:
        """Find what a task has changed until now."""
        with self._database.reading() as tx:
            watch = WatchStore(tx).find_latest(task_id)
        if watch is None or watch.ended_at is not None:
            return TaskChanges(warnings=(_NO_START,))
        tree = Path(watch.tree_path)
        if watch.host != self._host:
            unseen = f"Its tree is on {watch.host}, so its changes are unknown"
            return TaskChanges(SnapshotResult(tree, time.time_ns(), None), warnings=(unseen,))
        if watch.began["kind"] == SnapshotKind.GIT and not (tree / ".git").exists():
            # Do not fall back to a parent folder: a worktree may lie within the repository.
            unseen = f"Its changes are unknown: {tree} is no longer a working tree"
            return TaskChanges(SnapshotResult(tree, time.time_ns(), None), warnings=(unseen,))
        ended = self.take_snapshot(tree)
        if ended.snapshot is None:
            return TaskChanges(ended, warnings=ended.warnings)
        with self._database.reading() as tx:
            others = WatchStore(tx).list_overlapping(watch, ended.at)
        try:
            return self._compare(watch, ended, ended.snapshot, others)
        except (DeepworkError, OSError) as error:
            return TaskChanges(ended, warnings=(f"Its changes are unknown: {_format_error(error)}",))

    def record_end(self, tx: Transaction, task_id: str, workflow_id: str, changes: TaskChanges) -> None:
        """Record the end of a task and the files it changed."""
        store = WatchStore(tx)
        watch = store.find_latest(task_id)
        if watch is not None and changes.ended is not None:
            seen = changes.ended.snapshot
            ended = None if seen is None else seen.to_dict()
            store.save_end(replace(watch, ended_at=changes.ended.at, ended=ended))
        files = [replace(each, task_id=task_id, workflow_id=workflow_id) for each in changes.changed]
        store.save_files(task_id, files)

    def _compare(
        self, watch: Watch, ended: SnapshotResult, last: Snapshot, others: Sequence[Watch]
    ) -> TaskChanges:
        snapshots = self._snapshots_at(ended.tree)
        first = Snapshot.from_dict(watch.began)
        moments = _list_snapshots(watch, ended.at, last, others)
        pairs = [
            _SnapshotPair(
                before, after, snapshots.diff(before, after), _find_running(watch, others, start, end)
            )
            for (start, before), (end, after) in pairwise(moments)
            if before != after
        ]
        candidates = [_to_candidate(each) for each in (watch, *others)]
        mine = attribute_changes([pair.interval for pair in pairs], candidates).get(watch.task_id, [])
        whole = snapshots.diff(first, last, counted=True) if mine else SnapshotDiff()
        progress = snapshots.get_progress(first, last)
        changed = {attributed.path for attributed in mine}
        counts = {change.path: change for change in whole.files}
        return TaskChanges(
            ended=ended,
            changed=tuple(
                _build_changed_file(attributed, counts.get(attributed.path), pairs) for attributed in mine
            ),
            renamed=tuple(
                replace(pair, source=_to_text(pair.source), target=_to_text(pair.target))
                for pair in whole.renamed
                if {pair.source, pair.target} <= changed
            ),
            commits=progress.commits,
            preexisting=tuple(
                _to_text(change.path)
                for change in snapshots.list_uncommitted(first)
                if change.path not in changed
            ),
            warnings=(*ended.warnings, *_list_history_warnings(progress.is_switched, progress.is_rewritten)),
        )

    # Diffs

    def get_diff(self, task_id: str, path: str | None, max_bytes: int) -> TaskDiff:
        """Return the files that a task changed; for a single `path`, with its diff."""
        with self._database.reading() as tx:
            store = WatchStore(tx)
            watch = store.find_latest(task_id)
            if watch is None:
                _require_task(tx, task_id)
                return TaskDiff(task_id=task_id, files=[], files_count=0, warning=f"{_NO_START}.")
            files, total = store.list_files(task_id, path, _MAX_DIFF_FILES)
        if path is not None and not files and watch.ended_at is not None:
            raise InvalidInput(
                f"Task {task_id!r} did not change {path[:200]!r}.",
                suggestion="Omit `path` to list the files it changed.",
            )
        shown = [_to_file_diff(file) for file in files]
        is_over = watch.ended_at is not None
        warning = None if is_over else "The task is still running; its files are listed when it ends."
        if path is not None and files:
            try:
                shown = [self._add_patch(shown[0], files[0], watch, max_bytes)]
            except (DeepworkError, OSError) as error:
                warning = f"Cannot show the diff: {_format_error(error)}"
        return TaskDiff(task_id=task_id, files=shown, files_count=total, warning=warning)

    def _add_patch(self, shown: FileDiff, file: ChangedFile, watch: Watch, max_bytes: int) -> FileDiff:
        if watch.host != self._host:
            return shown
        kind = SnapshotKind(watch.began["kind"])
        before, after = (Snapshot(kind, file.details[end]) for end in ("before_tree", "after_tree"))
        patch = self._snapshots_at(Path(watch.tree_path)).get_patch(
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


@dataclass(frozen=True)
class _SnapshotPair:
    """Two consecutive snapshots of a tree."""

    before: Snapshot
    after: Snapshot
    difference: SnapshotDiff
    running: frozenset[str]

    @property
    def interval(self) -> Interval:
        changes = [
            ObservedChange(change.path, change.before, change.after) for change in self.difference.files
        ]
        return Interval(tuple(changes), self.running)


def _find_tree_root(folder: Path) -> Path | None:
    """Return the root of the working tree that contains the folder."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def _list_snapshots(
    watch: Watch, until: int, last: Snapshot, others: Sequence[Watch]
) -> list[tuple[int, Snapshot]]:
    """Return every snapshot of the tree while the task ran, including those taken for other tasks."""
    seen = {watch.began_at: Snapshot.from_dict(watch.began)}
    for other in others:
        ends = ((other.began_at, other.began), (other.ended_at, other.ended))
        for at, kept in ends:
            if at is not None and kept is not None and watch.began_at < at < until:
                seen[at] = Snapshot.from_dict(kept)
    kind = seen[watch.began_at].kind
    inner = [(at, snapshot) for at, snapshot in sorted(seen.items()) if snapshot.kind is kind]
    return [*inner, (until, last)]


def _find_running(watch: Watch, others: Sequence[Watch], start: int, end: int) -> frozenset[str]:
    """Return the tasks that ran at some time between two snapshots."""
    beside = {
        other.task_id
        for other in others
        if other.began_at < end and (other.ended_at is None or other.ended_at > start)
    }
    return frozenset({watch.task_id} | beside)


def _to_candidate(watch: Watch) -> CandidateTask:
    return CandidateTask(watch.task_id, watch.areas, watch.parent_task_id)


def _build_changed_file(
    attributed: AttributedChange, counted: FileChange | None, pairs: Sequence[_SnapshotPair]
) -> ChangedFile:
    change = FileChange(attributed.path, attributed.before, attributed.after)
    # The first and the last snapshot between which the change can be shown as a diff.
    first = next(pair for pair in pairs if _has_version(pair, attributed.path, "before", attributed.before))
    last = next(
        pair for pair in reversed(pairs) if _has_version(pair, attributed.path, "after", attributed.after)
    )
    details = {
        "added": counted.added if counted else None,
        "removed": counted.removed if counted else None,
        "is_binary": (counted.is_binary if counted else False) or None,
        "shared_with": list(attributed.shared_with) if attributed.attribution is Attribution.SHARED else None,
        "before_tree": first.before.tree,
        "after_tree": last.after.tree,
    }
    kept = {name: value for name, value in details.items() if value is not None}
    return ChangedFile(
        "", "", _to_text(attributed.path), change.status.value, attributed.attribution.value, kept
    )


def _to_text(path: str) -> str:
    """Return a path that can be stored and sent as UTF-8; file names may be arbitrary bytes."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _has_version(pair: _SnapshotPair, path: str, end: str, version: str | None) -> bool:
    return any(change.path == path and getattr(change, end) == version for change in pair.difference.files)


def _format_error(error: DeepworkError | OSError) -> str:
    return error.message if isinstance(error, DeepworkError) else str(error)


def _list_history_warnings(is_switched: bool, is_rewritten: bool) -> list[str]:
    if is_switched:
        return ["The branch was switched during the task: files of the other branch count as changed"]
    if is_rewritten:
        return ["History was rewritten during the task: older commits may be included"]
    return []


def _to_file_diff(file: ChangedFile) -> FileDiff:
    details = {name: value for name, value in file.details.items() if not name.endswith("_tree")}
    return FileDiff(path=file.path, status=file.status, attribution=file.attribution, **details)
