"""What tasks change: a look at the working tree when each begins and ends, and who is charged with what."""

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
from deepwork.git.moments import (
    ChangeStatus,
    Commit,
    Difference,
    FileChange,
    Rename,
    Snapshot,
    SnapshotKind,
)
from deepwork.git.snapshot import Snapshots
from deepwork.plans.task_store import TaskStore
from deepwork.tracking.areas import scope_of
from deepwork.tracking.attribution import Attribution, Change, Charge, Gap, Worker, charges
from deepwork.tracking.responses import FileDiff, TaskDiff
from deepwork.tracking.store import TrackStore
from deepwork.tracking.watch_store import ChangedFile, Watch, WatchStore
from deepwork.workspaces.places import real_path, repository_of

log = logging.getLogger("deepwork")

_KEPT_DAYS = 30
_DAY_NS = 24 * 3600 * 10**9
_SHOWN = 500
_SHOWN_COMMITS = 100
_LISTED = 1000
_UNSEEN = "Its beginning was not seen, so what it changed cannot be told"


@dataclass(frozen=True)
class Look:
    """What a working tree was like at a moment; without a snapshot, why there is none."""

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
        """The commit below; before the first one, and without git, the name of the snapshot itself."""
        if self.snapshot is None:
            return None
        return self.snapshot.head or f"{self.snapshot.kind}-{self.snapshot.tree[:16]}"


@dataclass(frozen=True)
class Findings:
    """What a task changed, as far as it can be told."""

    ended: Look | None = None
    changed: tuple[ChangedFile, ...] = ()
    renamed: tuple[Rename, ...] = ()
    commits: tuple[Commit, ...] = ()
    preexisting: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    def told(self, areas: Sequence[str]) -> dict[str, Any]:
        """What the end of the task says of it; long lists are cut, the counts are whole."""
        paths = {
            status.value: [each.path for each in self.changed if each.status == status]
            for status in ChangeStatus
        }
        scope = scope_of([path for listed in paths.values() for path in listed], areas)
        shown = self.changed[:_SHOWN]
        shared = {each.path: each.details["shared_with"] for each in shown if each.details.get("shared_with")}
        optional = {
            "renamed": [
                {"from": pair.source, "to": pair.target, "similarity": pair.similarity}
                for pair in self.renamed[:_SHOWN]
            ],
            "attribution": {each.path: each.attribution for each in shown},
            "shared_with": shared,
            "preexisting": list(self.preexisting[:_SHOWN]),
            "commits": [
                {"sha": commit.hash, "subject": commit.subject} for commit in self.commits[:_SHOWN_COMMITS]
            ],
        }
        return {
            "files": {status: listed[:_SHOWN] for status, listed in paths.items()},
            "counts": {status: len(listed) for status, listed in paths.items()},
            "verification": {
                # Of what nobody saw it cannot be said that it was as foretold.
                "scope_match": scope.matches and (self.ended is not None or not areas),
                "unexpected_files": list(scope.unexpected[:_SHOWN]),
                "warnings": [*scope.warnings, *self.warnings],
            },
        } | {name: value for name, value in optional.items() if value}


class Watcher:
    """Looks at the working trees of this machine."""

    def __init__(
        self, database: Database, host: str, repository: Path, snapshots_at: Callable[[Path], Snapshots]
    ) -> None:
        self._database = database
        self._host = host
        self._repository = repository
        self._snapshots_at = snapshots_at
        self._tidied: dict[Path, int] = {}

    # Looking

    def tree_at(self, cwd: str | None, default: Path) -> Path:
        """The working tree that a task is done in: this repository, or a worktree of it."""
        if cwd is None:
            return default
        here = Path(real_path("cwd", cwd, relative_to=default))
        ours = repository_of(self._repository)
        is_ours = here.is_relative_to(self._repository) or (ours is not None and repository_of(here) == ours)
        if not is_ours or not here.is_dir():
            raise InvalidInput(
                f"`cwd` {cwd[:200]!r} is no folder of this repository or of a worktree of it.",
                code=Code.PATH_OUTSIDE_PROJECT,
                suggestion="Leave it out to work in the project itself, or see workspace_list.",
            )
        return here if _top(here) else default

    def look(self, tree: Path) -> Look:
        """What the tree is like now; a failure is a warning, for it must not keep anybody from working.

        A folder of a working tree stands for all of it: those who work in other folders are there too.
        """
        tree = _top(tree) or tree
        began = time.monotonic()
        try:
            snapshot = self._snapshots_at(tree).take()
        except (DeepworkError, OSError) as error:
            return Look(tree, time.time_ns(), None, (f"What it changes cannot be told: {_why(error)}",))
        unreadable = [f"{len(snapshot.unreadable)} file(s) could not be read"] if snapshot.unreadable else []
        took_ms = round(1000 * (time.monotonic() - began))
        return Look(tree, time.time_ns(), snapshot, tuple(unreadable), took_ms)

    def tidy(self, tree: Path) -> None:
        """Throw away, once a day, what only diffs of tasks need that ended a month ago."""
        tree = _top(tree) or tree
        now = time.time_ns()
        if now - self._tidied.get(tree, 0) < _DAY_NS:
            return
        self._tidied[tree] = now
        with self._database.reading() as tx:
            kept = WatchStore(tx).trees_since(self._host, str(tree), now - _KEPT_DAYS * _DAY_NS)
        try:
            self._snapshots_at(tree).prune(kept)
        except (DeepworkError, OSError) as error:
            log.warning("What was seen of %s could not be tidied: %s", tree, _why(error))

    def begin(
        self, tx: Transaction, task_id: str, workflow_id: str, look: Look,
        parent_task_id: str | None = None, areas: Sequence[str] = (), attempt: int = 1,
    ) -> None:  # fmt: skip
        """A task begins in a tree."""
        if look.snapshot is not None:
            WatchStore(tx).add(
                Watch(
                    task_id, attempt, workflow_id, parent_task_id, tuple(areas), self._host, str(look.tree),
                    look.at, look.snapshot.as_dict() | {"ms": look.took_ms},
                )
            )  # fmt: skip

    # Telling who changed what

    def findings(self, task_id: str) -> Findings:
        """What a task has changed until now."""
        with self._database.reading() as tx:
            watch = WatchStore(tx).last(task_id)
        if watch is None or watch.ended_at is not None:
            return Findings(warnings=(_UNSEEN,))
        tree = Path(watch.tree_path)
        if watch.host != self._host:
            unseen = f"Its tree is on {watch.host}, so what it changed was not looked at"
            return Findings(Look(tree, time.time_ns(), None), warnings=(unseen,))
        if watch.began["kind"] == SnapshotKind.GIT and not (tree / ".git").exists():
            # Not what is above it either: a worktree may lie within the repository.
            unseen = f"What it changed cannot be told: {tree} is no working tree any more"
            return Findings(Look(tree, time.time_ns(), None), warnings=(unseen,))
        ended = self.look(tree)
        if ended.snapshot is None:
            return Findings(ended, warnings=ended.warnings)
        with self._database.reading() as tx:
            others = WatchStore(tx).beside(watch, ended.at)
        try:
            return self._compared(watch, ended, ended.snapshot, others)
        except (DeepworkError, OSError) as error:
            return Findings(ended, warnings=(f"What it changed cannot be told: {_why(error)}",))

    def end(self, tx: Transaction, task_id: str, workflow_id: str, findings: Findings) -> None:
        """A task has ended: keep what it changed."""
        store = WatchStore(tx)
        watch = store.last(task_id)
        if watch is not None and findings.ended is not None:
            seen = findings.ended.snapshot
            ended = None if seen is None else seen.as_dict()
            store.end(replace(watch, ended_at=findings.ended.at, ended=ended))
        files = [replace(each, task_id=task_id, workflow_id=workflow_id) for each in findings.changed]
        store.keep_files(task_id, files)

    def _compared(self, watch: Watch, ended: Look, last: Snapshot, others: Sequence[Watch]) -> Findings:
        snapshots = self._snapshots_at(ended.tree)
        first = Snapshot.from_dict(watch.began)
        moments = _moments(watch, ended.at, last, others)
        gaps = [
            _Span(before, after, snapshots.diff(before, after), _running(watch, others, start, end))
            for (start, before), (end, after) in pairwise(moments)
            if before != after
        ]
        workers = [_worker(each) for each in (watch, *others)]
        mine = charges([span.gap for span in gaps], workers).get(watch.task_id, [])
        whole = snapshots.diff(first, last, counted=True) if mine else Difference()
        progress = snapshots.progress(first, last)
        changed = {charge.path for charge in mine}
        counts = {change.path: change for change in whole.files}
        return Findings(
            ended=ended,
            changed=tuple(_changed(charge, counts.get(charge.path), gaps) for charge in mine),
            renamed=tuple(
                replace(pair, source=_readable(pair.source), target=_readable(pair.target))
                for pair in whole.renamed
                if {pair.source, pair.target} <= changed
            ),
            commits=progress.commits,
            preexisting=tuple(
                _readable(change.path)
                for change in snapshots.uncommitted(first)
                if change.path not in changed
            ),
            warnings=(*ended.warnings, *_remarks(progress.is_switched, progress.is_rewritten)),
        )

    # Showing

    def diff(self, task_id: str, path: str | None, max_bytes: int) -> TaskDiff:
        """The files that a task changed; of one file, how."""
        with self._database.reading() as tx:
            store = WatchStore(tx)
            watch = store.last(task_id)
            if watch is None:
                _require_task(tx, task_id)
                return TaskDiff(task_id=task_id, files=[], files_count=0, warning=f"{_UNSEEN}.")
            files, total = store.files_of(task_id, path, _LISTED)
        if path is not None and not files and watch.ended_at is not None:
            raise InvalidInput(
                f"Task {task_id!r} did not change {path[:200]!r}.",
                suggestion="Ask without `path` which files it changed.",
            )
        shown = [_shown(file) for file in files]
        is_over = watch.ended_at is not None
        warning = None if is_over else "The task is still under way: files are told when it ends."
        if path is not None and files:
            try:
                shown = [self._with_patch(shown[0], files[0], watch, max_bytes)]
            except (DeepworkError, OSError) as error:
                warning = f"How it was changed cannot be shown: {_why(error)}"
        return TaskDiff(task_id=task_id, files=shown, files_count=total, warning=warning)

    def _with_patch(self, shown: FileDiff, file: ChangedFile, watch: Watch, max_bytes: int) -> FileDiff:
        if watch.host != self._host:
            return shown
        kind = SnapshotKind(watch.began["kind"])
        before, after = (Snapshot(kind, file.details[end]) for end in ("before_tree", "after_tree"))
        patch = self._snapshots_at(Path(watch.tree_path)).patch(before, after, file.path, max_bytes=max_bytes)
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
        TrackStore(tx).task(task_id)


@dataclass(frozen=True)
class _Span:
    """The time between two looks at a tree."""

    before: Snapshot
    after: Snapshot
    difference: Difference
    running: frozenset[str]

    @property
    def gap(self) -> Gap:
        changes = [Change(change.path, change.before, change.after) for change in self.difference.files]
        return Gap(tuple(changes), self.running)


def _top(folder: Path) -> Path | None:
    """The working tree that the folder is in."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def _moments(watch: Watch, until: int, last: Snapshot, others: Sequence[Watch]) -> list[tuple[int, Snapshot]]:
    """Every look at the tree while the task ran, whoever it was taken for."""
    seen = {watch.began_at: Snapshot.from_dict(watch.began)}
    for other in others:
        ends = ((other.began_at, other.began), (other.ended_at, other.ended))
        for at, kept in ends:
            if at is not None and kept is not None and watch.began_at < at < until:
                seen[at] = Snapshot.from_dict(kept)
    kind = seen[watch.began_at].kind
    inner = [(at, snapshot) for at, snapshot in sorted(seen.items()) if snapshot.kind is kind]
    return [*inner, (until, last)]


def _running(watch: Watch, others: Sequence[Watch], start: int, end: int) -> frozenset[str]:
    """The tasks that ran at some time between two looks; one may have ended unseen."""
    beside = {
        other.task_id
        for other in others
        if other.began_at < end and (other.ended_at is None or other.ended_at > start)
    }
    return frozenset({watch.task_id} | beside)


def _worker(watch: Watch) -> Worker:
    return Worker(watch.task_id, watch.areas, watch.parent_task_id)


def _changed(charge: Charge, counted: FileChange | None, spans: Sequence[_Span]) -> ChangedFile:
    change = FileChange(charge.path, charge.before, charge.after)
    # The first and the last look between which the change can be shown.
    first = next(span for span in spans if _has(span, charge.path, "before", charge.before))
    last = next(span for span in reversed(spans) if _has(span, charge.path, "after", charge.after))
    details = {
        "added": counted.added if counted else None,
        "removed": counted.removed if counted else None,
        "is_binary": (counted.is_binary if counted else False) or None,
        "shared_with": list(charge.shared_with) if charge.attribution is Attribution.SHARED else None,
        "before_tree": first.before.tree,
        "after_tree": last.after.tree,
    }
    kept = {name: value for name, value in details.items() if value is not None}
    return ChangedFile("", "", _readable(charge.path), change.status.value, charge.attribution.value, kept)


def _readable(path: str) -> str:
    """A path that can be stored and sent: names of files may be any bytes, and need not be text."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _has(span: _Span, path: str, end: str, version: str | None) -> bool:
    return any(change.path == path and getattr(change, end) == version for change in span.difference.files)


def _why(error: DeepworkError | OSError) -> str:
    return error.message if isinstance(error, DeepworkError) else str(error)


def _remarks(is_switched: bool, is_rewritten: bool) -> list[str]:
    if is_switched:
        return ["The branch was switched meanwhile: files of the other branch count as changed"]
    if is_rewritten:
        return ["History was rewritten meanwhile: older commits may be among those told"]
    return []


def _shown(file: ChangedFile) -> FileDiff:
    details = {name: value for name, value in file.details.items() if not name.endswith("_tree")}
    return FileDiff(path=file.path, status=file.status, attribution=file.attribution, **details)
