"""Finding the files that tasks change, by comparing snapshots: at their start, at their end and now."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from deepwork.kernel.config import STATE_FOLDER
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.files.private import to_printable_name
from deepwork.kernel.git.history import HeadProgress, HistoryCommit
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import (
    ChangeStatus,
    FileChange,
    Rename,
    Snapshot,
    SnapshotDiff,
    SnapshotKind,
)
from deepwork.kernel.records import dataclass
from deepwork.kernel.text_budget.shortening import ListCutter
from deepwork.work.tracking.attribution import (
    CandidateTask,
    CommitRecorder,
    Interval,
    UnstoredLinks,
    WatchedWork,
    attribute_changes,
    evaluate_scope,
)
from deepwork.work.tracking.models import AttributedChange, Attribution, Watch
from deepwork.work.tracking.watch_store import NO_START, SnapshotResult, SnapshotService, WatchStore

_MAX_COMMITS = 100
_MAX_SUBJECT = 200


@dataclass(frozen=True)
class TaskChanges:
    """The known changes of a task."""

    ended: SnapshotResult | None = None
    changed: tuple[AttributedChange, ...] = ()
    renamed: tuple[Rename, ...] = ()
    commits: tuple[HistoryCommit, ...] = ()
    preexisting: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    links: UnstoredLinks | None = None
    """The commits that it made, to be stored with its end."""

    def to_result(self, areas: Sequence[str]) -> dict[str, Any]:
        """Convert to the `result` of the completed task; long lists are cut, counts are not."""
        paths = {
            status.value: [each.path for each in self.changed if each.status is status]
            for status in ChangeStatus
        }
        scope = evaluate_scope([path for listed in paths.values() for path in listed], areas)
        lists = ListCutter()
        result = {
            "files": {status: lists.cut(status, listed) for status, listed in paths.items()},
            "counts": {status: len(listed) for status, listed in paths.items()},
            "verification": {
                # Without a snapshot at the end, a match cannot be claimed.
                "scope_match": scope.matches and (self.ended is not None or not areas),
                "unexpected_files": lists.cut("unexpected_files", scope.unexpected),
                "warnings": [*scope.warnings, *self.warnings],
            },
        }
        optional = self._list_details(lists) | {"cut": lists.totals}
        return result | {name: value for name, value in optional.items() if value}

    def _list_details(self, lists: ListCutter) -> dict[str, Any]:
        attribution = [(each.path, each.attribution.value) for each in self.changed]
        shared = [(each.path, list(each.shared_with)) for each in self.changed if each.shared_with]
        renamed = [
            {"from": pair.source, "to": pair.target, "similarity": pair.similarity} for pair in self.renamed
        ]
        commits = [{"sha": commit.hash, "subject": commit.subject[:_MAX_SUBJECT]} for commit in self.commits]
        return {
            "renamed": lists.cut("renamed", renamed),
            "attribution": dict(lists.cut("attribution", attribution)),
            "shared_with": dict(lists.cut("shared_with", shared)),
            "preexisting": lists.cut("preexisting", self.preexisting),
            "commits": lists.cut("commits", commits, max_entries=_MAX_COMMITS),
        }


class AttributionService:
    """Records when tasks run in which working tree, and attributes changed files to them."""

    def __init__(
        self, database: Database, snapshots: SnapshotService, recorder: CommitRecorder | None = None
    ) -> None:
        """`recorder` links the commits that a task made with it, when the task ends."""
        self._database = database
        self.snapshots = snapshots
        self._recorder = recorder

    def find_changes(
        self, task_id: str, *, is_end: bool = False, taken: SnapshotResult | None = None
    ) -> TaskChanges:
        """Find what a task changed until now, or until `taken`; at its end, also which commits it made."""
        with self._database.reading() as tx:
            watch = WatchStore(tx).find_latest(task_id)
        if watch is None or watch.ended_at is not None:
            return TaskChanges(warnings=(NO_START,))
        tree = Path(watch.tree_path)
        if watch.host != self.snapshots.host:
            unseen = f"Its tree is on {watch.host}, so its changes are unknown"
            return TaskChanges(SnapshotResult(tree, time.time_ns(), None), warnings=(unseen,))
        if watch.began["kind"] == SnapshotKind.GIT and not (tree / ".git").exists():
            # Do not fall back to a parent folder: a worktree may lie within the repository.
            unseen = f"Its changes are unknown: {tree} is no longer a working tree"
            return TaskChanges(SnapshotResult(tree, time.time_ns(), None), warnings=(unseen,))
        ended = taken if taken and taken.tree == tree else self.snapshots.take(tree)
        if ended.snapshot is None:
            return TaskChanges(ended, warnings=ended.warnings)
        with self._database.reading() as tx:
            others = WatchStore(tx).list_overlapping(watch, ended.at)
        try:
            store = ended.store or self.snapshots.open_store(ended.tree)
            changes = self._compare(store, watch, ended, ended.snapshot, others)
        except (DeepworkError, OSError) as error:
            return TaskChanges(ended, warnings=(f"Its changes are unknown: {error}",))
        is_linked = is_end and self._recorder and ended.snapshot.kind is SnapshotKind.GIT
        return self._add_links(store, changes, watch, ended.snapshot, others) if is_linked else changes

    def _add_links(
        self,
        store: SnapshotStore,
        changes: TaskChanges,
        watch: Watch,
        last: Snapshot,
        others: Sequence[Watch],
    ) -> TaskChanges:
        """Add the commits that the task made. A failure becomes a warning: it must not stop the work."""
        with self._database.reading() as tx:
            starts = WatchStore(tx).list_start_heads(watch.task_id, watch.host, watch.tree_path)
        own = (Attribution.EXCLUSIVE, Attribution.AREA)
        work = WatchedWork(
            task_id=watch.task_id,
            workflow_id=watch.workflow_id,
            agent_id=watch.agent_id,
            snapshots=store,
            began=Snapshot.from_dict(watch.began),
            began_at=watch.began_at,
            ended=last,
            commits=changes.commits,
            starts=tuple(starts),
            changed={change.path: change.attribution in own for change in changes.changed},
            is_alone=not others,
        )
        try:
            return replace(changes, links=self._recorder.prepare_watched(work) if self._recorder else None)
        except (DeepworkError, OSError) as error:
            unseen = f"Its commits cannot be linked with it: {error}"
            return replace(changes, warnings=(*changes.warnings, unseen))

    def list_changed_paths(self, task_id: str) -> tuple[str, ...] | None:
        """Return the files that a task changed since it was claimed; None if that is unknown."""
        changes = self.find_changes(task_id)
        if changes.ended is None or changes.ended.snapshot is None:
            return None
        return tuple(change.path for change in changes.changed)

    def find_authors(self, tree: Path, paths: Sequence[str]) -> dict[str, str]:
        """Map those of these files that tasks changed in a tree to them, such as `task tk_...`."""
        place = self.snapshots.host, str(tree)
        with self._database.reading() as tx:
            store = WatchStore(tx)
            found, running = store.list_changers(*place, paths), store.list_running(*place)
        for task_id in running:
            changed = set(self.list_changed_paths(task_id) or ())
            found |= dict.fromkeys((path for path in paths if path in changed), task_id)
        return {path: f"task {task_id}" for path, task_id in found.items()}

    def record_end(self, tx: Transaction, task_id: str, workflow_id: str, changes: TaskChanges) -> None:
        """Record the end of a task and the files it changed."""
        store = WatchStore(tx)
        watch = store.find_latest(task_id)
        if watch is not None and changes.ended is not None:
            seen = changes.ended.snapshot
            ended = None if seen is None else seen.to_dict()
            store.save_end(replace(watch, ended_at=changes.ended.at, ended=ended))
        if changes.links is not None:
            changes.links.store(tx)
        store.save_files(task_id, workflow_id, changes.changed)

    def list_changes_between(self, watch: Watch, until: int, last: Snapshot) -> list[AttributedChange]:
        """Return what a task changed from the beginning of the watch to a later snapshot of its tree.

        Names are as the file system has them. Each change has the trees with its first and last version.
        """
        with self._database.reading() as tx:
            others = WatchStore(tx).list_overlapping(watch, until)
        snapshots = self.snapshots.open_store(Path(watch.tree_path))
        pairs, mine = self._attribute(snapshots, watch, until, last, others)
        trees = _index_trees(pairs)
        return [_add_trees(change, trees) for change in mine]

    def list_paths_since(self, first: Watch, watch: Watch, last: Snapshot) -> tuple[str, ...]:
        """Return the files that a task changed from the beginning of a watch to the end of a later one.

        Both are of the same tree. What nobody else changed between its watches counts as changed by the task,
        so that nothing slips in between two attempts. Names are as the file system has them.
        """
        whole = replace(watch, began_at=first.began_at, began=first.began)
        until = watch.ended_at or time.time_ns()
        with self._database.reading() as tx:
            near = WatchStore(tx).list_overlapping(whole, until)
        others = [each for each in near if each.task_id != watch.task_id]
        snapshots = self.snapshots.open_store(Path(watch.tree_path))
        _, mine = self._attribute(snapshots, whole, until, last, others)
        return tuple(change.path for change in mine)

    def _attribute(
        self,
        snapshots: SnapshotStore,
        watch: Watch,
        until: int,
        last: Snapshot,
        others: Sequence[Watch],
        *,
        counted: bool = False,
    ) -> tuple[list[_SnapshotPair], list[AttributedChange]]:
        """Return what changed from one snapshot to the next, and which of it the task changed.

        `counted`: with the lines, if there is only one such difference, which is that of the whole.
        """
        moments = _list_snapshots(watch, until, last, others)
        steps = [(one, next) for one, next in pairwise(moments) if one[1] != next[1]]
        counted = counted and len(steps) == 1
        pairs = [
            _SnapshotPair(
                before,
                after,
                snapshots.diff(before, after, counted=counted),
                _find_running(watch, others, start, end),
            )
            for (start, before), (end, after) in steps
        ]
        candidates = [_to_candidate(each) for each in (watch, *others)]
        found = attribute_changes([pair.interval for pair in pairs], candidates)
        return pairs, found.get(watch.task_id, [])

    def _compare(
        self,
        snapshots: SnapshotStore,
        watch: Watch,
        ended: SnapshotResult,
        last: Snapshot,
        others: Sequence[Watch],
    ) -> TaskChanges:
        first = Snapshot.from_dict(watch.began)
        pairs, mine = self._attribute(snapshots, watch, ended.at, last, others, counted=True)
        whole = SnapshotDiff()
        if mine:
            only = pairs[0].difference if len(pairs) == 1 else None
            whole = only or snapshots.diff(first, last, counted=True)
        progress = snapshots.get_progress(first, last)
        changed = {attributed.path for attributed in mine}
        counts = {change.path: change for change in whole.files}
        trees = _index_trees(pairs)
        return TaskChanges(
            ended=ended,
            changed=tuple(
                _add_details(attributed, counts.get(attributed.path, attributed), trees)
                for attributed in mine
            ),
            renamed=tuple(
                replace(pair, source=to_printable_name(pair.source), target=to_printable_name(pair.target))
                for pair in whole.renamed
                if {pair.source, pair.target} <= changed
            ),
            commits=progress.commits,
            preexisting=tuple(
                to_printable_name(change.path)
                for change in snapshots.list_uncommitted(first)
                if change.path not in changed and not _is_own_file(change)
            ),
            warnings=(*ended.warnings, *_list_history_warnings(progress)),
        )


@dataclass(frozen=True)
class _SnapshotPair:
    """Two consecutive snapshots of a tree."""

    before: Snapshot
    after: Snapshot
    difference: SnapshotDiff
    running: frozenset[str]

    @property
    def interval(self) -> Interval:
        return Interval(self.difference.files, self.running)


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


@dataclass(frozen=True)
class _VersionTrees:
    """The trees that have a version of a file, found by its path and version."""

    first_before: Mapping[tuple[str, str | None], str]
    last_after: Mapping[tuple[str, str | None], str]


def _index_trees(pairs: Sequence[_SnapshotPair]) -> _VersionTrees:
    """Index all changes once: a search for each changed file would cost the square of their number."""
    first_before: dict[tuple[str, str | None], str] = {}
    last_after: dict[tuple[str, str | None], str] = {}
    for pair in pairs:
        for change in pair.difference.files:
            first_before.setdefault((change.path, change.before), pair.before.tree)
            last_after[change.path, change.after] = pair.after.tree
    return _VersionTrees(first_before, last_after)


def _add_details(change: AttributedChange, counted: FileChange, trees: _VersionTrees) -> AttributedChange:
    """Add line counts, and the first and last snapshot between which the change can be shown as a diff."""
    return replace(
        _add_trees(change, trees),
        path=to_printable_name(change.path),
        added=counted.added,
        removed=counted.removed,
        is_binary=counted.is_binary,
    )


def _add_trees(change: AttributedChange, trees: _VersionTrees) -> AttributedChange:
    return replace(
        change,
        before_tree=trees.first_before[change.path, change.before],
        after_tree=trees.last_after[change.path, change.after],
    )


def _is_own_file(change: FileChange) -> bool:
    """Whether it is the .gitignore that deepwork wrote itself and nobody has committed yet."""
    return change.before is None and f"/{change.path}".endswith(f"/{STATE_FOLDER}/.gitignore")


def _list_history_warnings(progress: HeadProgress) -> list[str]:
    if progress.is_switched:
        return ["The branch was switched during the task: files of the other branch count as changed"]
    if progress.is_rewritten:
        return ["History was rewritten during the task: older commits may be included"]
    return []
