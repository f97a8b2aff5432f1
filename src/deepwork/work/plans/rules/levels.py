"""Which tasks can run side by side: levels of the graph, and files that two of them touch.

The files of a task are free-form hints: paths and globs relative to the project's root, where a folder
includes everything in it. An invalid pattern is treated as a plain path, so that a bad hint blocks
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, product
from typing import NamedTuple

from deepwork.kernel.files.globs import escape, find_problem, may_overlap
from deepwork.work.plans.models import StatusCount, Task, TaskStatus, WaitingTask


class Levels:
    """The levels (sequences) of a plan, with the number of tasks per status in each."""

    def __init__(self, tallies: Sequence[StatusCount]) -> None:
        self._tallies = tallies

    def with_released(self, expired: Iterable[Task]) -> Levels:
        """Return the levels with these tasks, whose claims have expired, counted as pending."""
        moved = [tally for task in expired if task.status.is_running for tally in _build_release_counts(task)]
        return Levels([*self._tallies, *moved])

    @cached_property
    def sequences(self) -> list[int]:
        return sorted({tally.sequence for tally in self._tallies})

    @cached_property
    def open(self) -> Counter[int]:
        """How many tasks of each sequence are not done."""
        left: Counter[int] = Counter()
        for tally in self._tallies:
            if not tally.status.is_done:
                left[tally.sequence] += tally.count
        return left

    @cached_property
    def free(self) -> list[int]:
        """Sequences with open tasks whose next lower sequence is done."""
        before = zip([None, *self.sequences], self.sequences, strict=False)
        return [
            sequence
            for previous, sequence in before
            if self.open[sequence] and (previous is None or not self.open[previous])
        ]

    def find_places(self, status: TaskStatus) -> list[int]:
        """Return the sequences in which tasks of this status wait for nothing."""
        free = set(self.free)
        found = {
            tally.sequence
            for tally in self._tallies
            if tally.status is status
            and tally.count > tally.waiting + (0 if tally.sequence in free else tally.implied)
        }
        return sorted(found)

    @cached_property
    def previous(self) -> dict[int, int | None]:
        """For each sequence the next lower one."""
        return dict(zip(self.sequences, [None, *self.sequences], strict=False))

    def is_blocked(self, task: Task) -> bool:
        """Whether the task waits for another."""
        if task.is_explicit:
            return task.open_dependencies > 0
        previous = self.previous.get(task.sequence)
        return previous is not None and self.open[previous] > 0

    def count_open_dependencies(self, task: Task | WaitingTask) -> int:
        """Count the open tasks it waits for."""
        if task.is_explicit:
            return task.open_dependencies
        previous = self.previous.get(task.sequence)
        return 0 if previous is None else self.open[previous]

    @property
    def total(self) -> int:
        return sum(tally.count for tally in self._tallies)

    @property
    def remaining(self) -> int:
        return self.open.total()

    @property
    def any_done(self) -> bool:
        return self.remaining < self.total

    @property
    def all_complete(self) -> bool:
        return bool(self._tallies) and not self.remaining

    @cached_property
    def by_status(self) -> dict[TaskStatus, int]:
        """A count for every status, zeros included; pending tasks that wait count as blocked."""
        counts: Counter[TaskStatus] = Counter()
        free = set(self.free)
        for tally in self._tallies:
            waiting = 0
            if tally.status is TaskStatus.PENDING:
                waiting = tally.waiting + (0 if tally.sequence in free else tally.implied)
            counts[TaskStatus.BLOCKED] += waiting
            counts[tally.status] += tally.count - waiting
        return {status: counts[status] for status in TaskStatus}

    @property
    def current_sequence(self) -> int:
        """The lowest sequence with open tasks; 0 if there is none."""
        return next((sequence for sequence in self.sequences if self.open[sequence]), 0)

    @property
    def completed_sequence(self) -> int:
        """The highest sequence up to which everything is done; 0 if there is none."""
        done = 0
        for sequence in self.sequences:
            if self.open[sequence]:
                break
            done = sequence
        return done


def _build_release_counts(task: Task) -> tuple[StatusCount, StatusCount]:
    """Build the counts that move one task from its status to pending."""
    waiting, implied = int(task.open_dependencies > 0), int(not task.is_explicit)
    return (
        StatusCount(task.sequence, task.status, -1, -waiting, -implied),
        StatusCount(task.sequence, TaskStatus.PENDING, 1, waiting, implied),
    )


_MAX_GLOBS = 1000
"""How many globs of a set are compared, since each pair is compared separately."""
_MAX_QUERIED_PATHS = 64
"""How many paths of a task are looked up in the database, each with a condition of its own."""
_GLOB_CHARS = frozenset("*?[]{}\\")


class ActiveTask(NamedTuple):
    """A claimed or running task, with the files it is likely to change."""

    id: str
    name: str
    files: tuple[str, ...]


def find_overlapping(files: tuple[str, ...], others: Iterable[ActiveTask]) -> list[ActiveTask]:
    """Return those of the others that are likely to change one of these files."""
    if not files:
        return []
    own = _build_file_set(files)
    return [other for other in others if other.files and own.overlaps(_build_file_set(other.files))]


def list_shared_files(files: tuple[str, ...], theirs: tuple[str, ...]) -> list[str]:
    """Return what the two have in common, sorted; of a folder or glob and a path in it, the path."""
    own, other = _build_file_set(files), _build_file_set(theirs)
    shared = {name for name in own.paths if other.overlaps(FileSet([name]))}
    shared |= {name for name in other.paths if own.overlaps(FileSet([name]))}
    folders = {folder for path in shared for folder in _list_parents(path)}
    return sorted(shared - folders) or [name for name in files if other.overlaps(FileSet([name]))]


class PathQuery(NamedTuple):
    """Which plain paths overlap with a task's files."""

    names: list[str]
    """Its paths and the folders that contain them."""
    prefixes: list[str]
    """The beginnings of paths inside its paths, if these are folders."""


def build_path_query(files: tuple[str, ...]) -> PathQuery | None:
    """Return which plain paths overlap with these files; None if they are globs, or too many to ask for."""
    own = _build_file_set(files)
    if own.has_globs or len(own.paths) > _MAX_QUERIED_PATHS:
        return None
    paths = sorted(own.paths)
    return PathQuery(sorted(own.paths | own.folders), [f"{path}/" for path in paths])


class OverlapIndex:
    """Tasks with files, prepared for comparing them with many other tasks."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._each = [(task, _build_file_set(files)) for task in tasks if (files := task.files)]
        self._all = FileSet(name for task, _ in self._each for name in task.files)

    def find_overlapping(self, task: Task) -> list[Task]:
        """Return the tasks that are likely to change the same files as this one."""
        if (
            not self._each
            or not (named := task.files)
            or not (files := _build_file_set(named)).overlaps(self._all)
        ):
            return []
        return [other for other, theirs in self._each if other.id != task.id and files.overlaps(theirs)]


class FileSet:
    """Paths and globs in a form that is quick to compare."""

    def __init__(self, named: Iterable[str]) -> None:
        names = {cleaned for name in named if (cleaned := _normalize(name))}
        self._globs = sorted(name for name in names if _is_glob(name))[:_MAX_GLOBS]
        self.paths = {name for name in names if not _is_glob(name)}
        self.folders = {folder for path in self.paths for folder in _list_parents(path)}

    @property
    def has_globs(self) -> bool:
        return bool(self._globs)

    def overlaps(self, other: FileSet) -> bool:
        """Whether some file could be in both sets; may return True too often."""
        return (
            not self.paths.isdisjoint(other.paths)
            or not self.paths.isdisjoint(other.folders)
            or not self.folders.isdisjoint(other.paths)
            or (self.has_globs and _has_overlapping_pair(self._globs, other._paths_as_globs + other._globs))
            or (other.has_globs and _has_overlapping_pair(other._globs, self._paths_as_globs))
        )

    @cached_property
    def _paths_as_globs(self) -> list[str]:
        """The paths as globs that match only themselves."""
        return [escape(path) for path in self.paths]


@lru_cache(maxsize=4096)
def _build_file_set(named: tuple[str, ...]) -> FileSet:
    """Cached, because the files of an active task are compared on every claim."""
    return FileSet(named)


def _normalize(name: str) -> str:
    return name.strip().removeprefix("./").removeprefix("/").rstrip("/")


def _list_parents(path: str) -> list[str]:
    """List the folders that contain a path."""
    return list(accumulate(path.split("/"), lambda folder, name: f"{folder}/{name}"))[:-1]


@lru_cache(maxsize=4096)
def _is_glob(name: str) -> bool:
    return not _GLOB_CHARS.isdisjoint(name) and find_problem(name) is None


def _has_overlapping_pair(ones: Iterable[str], others: Iterable[str]) -> bool:
    return any(_may_overlap(one, other) for one, other in product(ones, others))


def _may_overlap(one: str, other: str) -> bool:
    heads = _get_literal_prefix(one), _get_literal_prefix(other)
    return (heads[0].startswith(heads[1]) or heads[1].startswith(heads[0])) and _compare_globs(one, other)


@lru_cache(maxsize=4096)
def _get_literal_prefix(glob: str) -> str:
    """Return what every path matching the glob begins with."""
    return glob[: next((place for place, sign in enumerate(glob) if sign in _GLOB_CHARS), None)]


@lru_cache(maxsize=65_536)
def _compare_globs(one: str, other: str) -> bool:
    """Whether both globs can match the same path, or one a path in a folder that the other matches."""
    spelled = product((one, f"{one}/**"), (other, f"{other}/**"))
    return any(may_overlap(*pair) for pair in spelled if not any(map(find_problem, pair)))
