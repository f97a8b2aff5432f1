"""Which task changed which file.

Between two snapshots of a working tree some tasks ran and some files changed. Each changed file is
attributed to the tasks that may have changed it, with how certain that is. Changes of several tasks to the
same file between two snapshots cannot be separated: they are shared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.files.globs import Globs
from deepwork.kernel.foreign_text import truncate_to_line
from deepwork.kernel.git.history import HistoryCommit
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import FileChange, Snapshot
from deepwork.kernel.records import dataclass
from deepwork.work.tracking.list_responses import RunRef
from deepwork.work.tracking.models import AttributedChange, Attribution, JobSessionState

_MAX_SHOWN_LENGTH = 1000
_WHOLE_TREE_AREAS = frozenset({".", "./", "/", "*", "**"})

_UNCERTAINTY_RANK = {kind: number for number, kind in enumerate(Attribution)}


@dataclass(frozen=True)
class ScopeResult:
    """The result of matching files against areas: the covering area per file, and the uncovered files."""

    matches: bool
    covered_by: dict[str, str]
    unexpected: tuple[str, ...]
    warnings: tuple[str, ...]


class Areas:
    """The areas of a task: paths (`src/auth`), patterns (`src/**/*.py`, `*.md`) or words (`auth`).

    A path covers itself and everything below it, and so does each match of a pattern. A pattern without a
    slash matches at any depth. A word covers files and folders of that name, with any extension, ignoring
    case.
    """

    def __init__(self, areas: Sequence[str]) -> None:
        self._areas = [(area, _Area(area)) for area in areas]

    def find_covering(self, path: str) -> str | None:
        """Return the first area that covers the file, as it was declared; None if none does."""
        return next((area for area, each in self._areas if each.covers(path)), None)


def evaluate_scope(paths: Iterable[str], areas: Sequence[str]) -> ScopeResult:
    """Match every file against the areas; without areas everything is in scope."""
    if not areas:
        return ScopeResult(True, {}, (), ())
    declared = Areas(areas)
    found = {path: declared.find_covering(path) for path in paths}
    unexpected = tuple(path for path, area in found.items() if area is None)
    warning = f"{len(unexpected)} file(s) modified outside declared scope ({_format_areas(areas)})"
    covered_by = {path: area for path, area in found.items() if area is not None}
    return ScopeResult(not unexpected, covered_by, unexpected, (warning,) if unexpected else ())


def _format_areas(areas: Sequence[str]) -> str:
    """List the areas; a long list is cut, because the agent knows what it declared."""
    return truncate_to_line(", ".join(areas[:_MAX_SHOWN_LENGTH]), _MAX_SHOWN_LENGTH) or ""


class _Area:
    def __init__(self, area: str) -> None:
        self._is_everything = area in _WHOLE_TREE_AREAS
        self._path = area.removeprefix("./").strip("/")
        self._word = self._path.casefold() if "/" not in area.removeprefix("./").rstrip("/") else ""
        self._globs = _build_globs(area.removeprefix("./"))

    def covers(self, path: str) -> bool:
        if self._is_everything:
            return True
        if not self._path:
            return False
        if path == self._path or path.startswith(f"{self._path}/"):
            return True
        if self._globs is not None:
            return self._globs.matches(path)
        return self._word != "" and any(self._matches_word(name) for name in path.casefold().split("/"))

    def _matches_word(self, name: str) -> bool:
        return self._word in (name, name.rpartition(".")[0])


def _build_globs(area: str) -> Globs | None:
    """Convert an area to globs as in a .gitignore file; None if it has no wildcards."""
    if not set(area) & set("*?["):
        return None
    inner = area.strip("/")
    anchored = inner if "/" in area.rstrip("/") else f"**/{inner}"
    try:
        return Globs([anchored, f"{anchored}/**"])
    except InvalidInput:  # for example a file name with a bracket: treat it as a path
        return None


@dataclass(frozen=True)
class CandidateTask:
    """A task that changes may be attributed to."""

    id: str
    areas: tuple[str, ...] = ()
    parent_id: str | None = None


@dataclass(frozen=True)
class Interval:
    """What changed between two snapshots, and which tasks ran."""

    changes: tuple[FileChange, ...]
    running: frozenset[str]


def attribute_changes(
    intervals: Iterable[Interval], tasks: Collection[CandidateTask]
) -> dict[str | None, list[AttributedChange]]:
    """Return the net changes of each task over all intervals, sorted by path; under None those of no task.

    A file that ends up as it was before the task's first change to it is left out. If several changes of one
    file differ in certainty, the least certain attribution applies.
    """
    known = {task.id: task for task in tasks}
    areas = {task.id: Areas(task.areas) for task in tasks}
    found: dict[str | None, dict[str, AttributedChange]] = {}
    for interval in intervals:
        candidates = _find_innermost(interval.running, known)
        for change in interval.changes:
            attribution, owners = _find_owners(change.path, candidates, areas)
            for owner in owners:
                others = tuple(other for other in owners if other is not None and other != owner)
                attributed = AttributedChange(
                    change.path, change.before, change.after, attribution=attribution, shared_with=others
                )
                by_path = found.setdefault(owner, {})
                by_path[change.path] = _merge(by_path.get(change.path), attributed)
    return {
        owner: [each for _, each in sorted(of.items()) if each.before != each.after]
        for owner, of in found.items()
    }


def _find_innermost(running: Iterable[str], known: Mapping[str, CandidateTask]) -> list[str]:
    """Return the running tasks without a running subtask: a parent delegates the work to its subtasks."""
    ids = sorted(running)
    waiting = {above for id in ids for above in _find_ancestors(id, known)}
    return [id for id in ids if id not in waiting] or ids


def _find_ancestors(id: str, known: Mapping[str, CandidateTask]) -> set[str]:
    found: set[str] = set()
    parent = known[id].parent_id if id in known else None
    while parent is not None and parent not in found:
        found.add(parent)
        parent = known[parent].parent_id if parent in known else None
    return found


def _find_owners(
    path: str, candidates: Sequence[str], areas: Mapping[str, Areas]
) -> tuple[Attribution, Sequence[str | None]]:
    if not candidates:
        return Attribution.OUTSIDE, [None]
    if len(candidates) == 1:
        return Attribution.EXCLUSIVE, candidates
    fitting = [id for id in candidates if id in areas and areas[id].find_covering(path) is not None]
    if len(fitting) == 1:
        return Attribution.AREA, fitting
    return Attribution.SHARED, candidates


def _merge(earlier: AttributedChange | None, later: AttributedChange) -> AttributedChange:
    if earlier is None:
        return later
    return replace(
        later,
        before=earlier.before,
        attribution=max(earlier.attribution, later.attribution, key=_UNCERTAINTY_RANK.__getitem__),
        shared_with=tuple(sorted({*earlier.shared_with, *later.shared_with})),
    )


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
    snapshots: SnapshotStore
    """The store of its tree."""
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
