"""Which tasks are likely to change the same files.

Tasks name files as somebody jotted them down: paths and globs from the project's root, where a folder means
what is in it. What is no pattern is taken for a name, so that a bad guess stops nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from itertools import accumulate, product
from typing import NamedTuple

from deepwork.files.globs import escaped, may_overlap, problem
from deepwork.plans.models import Task

_MOST_GLOBS = 1000
"""How many globs are looked at: they are compared one by one."""
_WILD = frozenset("*?[]{}\\")


class Rival(NamedTuple):
    """A task under way, as far as its files matter."""

    id: str
    name: str
    files: tuple[str, ...]


def rivals(files: tuple[str, ...], others: Iterable[Rival]) -> list[Rival]:
    """Those of the others that are likely to change one of these files."""
    if not files:
        return []
    own = _files(files)
    return [other for other in others if other.files and own.overlap(_files(other.files))]


def files_named(context: Mapping[str, object]) -> tuple[str, ...]:
    """The files that a task's context names; it is free, so there may be anything in their place."""
    named = context.get("files_likely_affected")
    if isinstance(named, str):
        return (named,)
    return tuple(each for each in named if isinstance(each, str)) if isinstance(named, list) else ()


class Rivals:
    """Tasks that name files; asked by many others who among them is likely to change the same."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._each = [(task, _files(files)) for task in tasks if (files := task.files)]
        self._all = Files(name for task, _ in self._each for name in task.files)

    def of(self, task: Task) -> list[Task]:
        """Those that are likely to change the same files as this task."""
        if not self._each or not (named := task.files) or not (files := _files(named)).overlap(self._all):
            return []
        return [other for other, theirs in self._each if other.id != task.id and files.overlap(theirs)]


class Files:
    """Files as they were named, in a form that is quick to compare."""

    def __init__(self, named: Iterable[str]) -> None:
        names = {cleaned for name in named if (cleaned := _cleaned(name))}
        self._globs = sorted(name for name in names if _is_glob(name))[:_MOST_GLOBS]
        self._paths = {name for name in names if not _is_glob(name)}
        self._folders = {folder for path in self._paths for folder in _above(path)}

    def overlap(self, other: Files) -> bool:
        """Whether some file could be meant by both; may say True too often."""
        return (
            not self._paths.isdisjoint(other._paths)
            or not self._paths.isdisjoint(other._folders)
            or not self._folders.isdisjoint(other._paths)
            or (bool(self._globs) and _any_meet(self._globs, other._spelled + other._globs))
            or (bool(other._globs) and _any_meet(other._globs, self._spelled))
        )

    @cached_property
    def _spelled(self) -> list[str]:
        """The paths as globs that match nothing else."""
        return [escaped(path) for path in self._paths]


@lru_cache(maxsize=4096)
def _files(named: tuple[str, ...]) -> Files:
    """What a task names is compared with every claim while it is under way."""
    return Files(named)


def _cleaned(name: str) -> str:
    return name.strip().removeprefix("./").removeprefix("/").rstrip("/")


def _above(path: str) -> list[str]:
    """The folders that a path is in."""
    return list(accumulate(path.split("/"), lambda folder, name: f"{folder}/{name}"))[:-1]


@lru_cache(maxsize=4096)
def _is_glob(name: str) -> bool:
    return not _WILD.isdisjoint(name) and problem(name) is None


def _any_meet(ones: Iterable[str], others: Iterable[str]) -> bool:
    return any(_may_meet(one, other) for one, other in product(ones, others))


def _may_meet(one: str, other: str) -> bool:
    heads = _head(one), _head(other)
    return (heads[0].startswith(heads[1]) or heads[1].startswith(heads[0])) and _may_overlap(one, other)


@lru_cache(maxsize=4096)
def _head(glob: str) -> str:
    """What every path that matches begins with."""
    return glob[: next((place for place, sign in enumerate(glob) if sign in _WILD), None)]


@lru_cache(maxsize=65_536)
def _may_overlap(one: str, other: str) -> bool:
    """Whether one matches what the other does, or something in a folder that the other matches."""
    spelled = product((one, f"{one}/**"), (other, f"{other}/**"))
    return any(may_overlap(*pair) for pair in spelled if not any(map(problem, pair)))
